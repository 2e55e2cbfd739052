"""Every recipe of docs/recipes.md runs as it stands, where the packages that it names are installed.

They stand in an environment of their own, which `make conformance` makes: ODRADEK_RECIPES is its Python.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from odradek.tests.support.spark.spark_jvm import environment

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^## (.*?)\n.*?^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
PYTHONS = list(dict.fromkeys((sys.executable, os.path.abspath(os.environ.get("ODRADEK_RECIPES", sys.executable)))))


def missing(python: str, text: str) -> list[str]:
    """Return what a recipe needs and a Python lacks."""
    named = re.search(r"^# needs:(.*)$", text, re.MULTILINE)
    assert named is not None
    needed = named[1].split()
    lacks = ["java"] if "java" in needed and shutil.which("java") is None else []
    modules = [each for each in needed if each != "java"]
    code = "import sys, importlib.util as u; print(*(m for m in sys.argv[1:] if u.find_spec(m) is None))"
    found = subprocess.run([python, "-c", code, *modules], capture_output=True, text=True, check=True, cwd="/")
    return lacks + found.stdout.split()


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe(tmp_path: Path, name: str) -> None:
    text = RECIPES[name]
    assert len(text.splitlines()) <= 42  # with what this test reads
    lacks = {python: missing(python, text) for python in PYTHONS}
    python = next((each for each in PYTHONS if not lacks[each]), None)
    if python is None:
        pytest.skip(f"{name}: {', '.join(lacks[PYTHONS[-1]])} is missing")
    (tmp_path / "test_recipe.py").write_text(text)
    # Others' packages warn as they like.
    options = re.findall(r"^# run with: (.*)$", text, re.MULTILINE)
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:anyio", *" ".join(options).split()]
    activated = {**os.environ, "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"}
    if "pyspark" in text and python == sys.executable:
        activated |= environment()
    done = subprocess.run(
        command, cwd=tmp_path, env=activated, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_each_framework_has_its_recipe() -> None:
    assert len(RECIPES) == 10
