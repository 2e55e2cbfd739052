"""The Makefile's verbs install what they need and no more; continuous integration installs nothing besides."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("verb", "installed"),
    [
        ("wheel", []),
        ("serve", ["."]),
        ("demo", [".[spark,demo,archive]"]),
        ("test", [".[spark,dev,demo]"]),
        ("lint", [".[spark,dev,demo]"]),
    ],
)
def test_a_verb_installs_what_it_needs(verb: str, installed: list[str], tmp_path: Path) -> None:
    if not shutil.which("make"):
        pytest.skip("make is not installed")
    # Without the variables of a `make test` that this test may run under.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "VENV"))}
    command = ["make", "--dry-run", verb, f"VENV={tmp_path / 'venv'}"]
    said = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"--editable '(.*)'", said) == installed


def test_continuous_integration_runs_the_readmes_commands_and_installs_nothing() -> None:
    lines = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if line.startswith("make ")] == ["make test", "make lint"]
    assert not any(word in line for line in lines for word in ("install", "need_java"))
