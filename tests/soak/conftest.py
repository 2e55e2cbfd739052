"""Soak tests take minutes: they run only if the command line names them (`pytest tests/soak`)."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    asked = [(config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args]
    return None if any(path == HERE or HERE in path.parents for path in asked) else True
