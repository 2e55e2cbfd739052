"""For tests of commands: the profile and the address of the user who runs them do not count."""

from __future__ import annotations

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
