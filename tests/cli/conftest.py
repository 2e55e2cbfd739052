"""For tests of commands: the profile and the address of the user do not count, and logging stays as it was."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_settings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where the profiles of this test are kept."""
    path = tmp_path_factory.mktemp("settings") / "profiles.toml"
    monkeypatch.setenv("ODRADEK_CONFIG", str(path))
    for name in ("ODRADEK_BOOTSTRAP_SERVER", "ODRADEK_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    return path


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """Undo what `serve` in the test's own process does to the root logger."""
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
