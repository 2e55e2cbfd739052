"""What `pip install odradek` installs: on which Python, and that each package has its reason in the documents."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest
from odradek import how_to_install
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIREMENTS = [Requirement(each) for each in PROJECT["dependencies"]]
WINGS = (
    "broker",
    "cli",
    "client",
    "console",
    "kernel",
    "protocol",
    "registry",
    "storage",
    "testing",
    "web",
    "zookeeper",
)
EVERYWHERE = {"click", "msgpack", "uvloop", "cramjam", "h11"}


def installed(python: str, machine: str = "x86_64") -> set[str]:
    where = {
        "python_version": python,
        "platform_machine": machine,
        "sys_platform": "linux",
        "implementation_name": "cpython",
    }
    return {each.name for each in REQUIREMENTS if each.marker is None or each.marker.evaluate(where)}


@pytest.mark.parametrize(
    ("python", "more"),
    [
        ("3.11", {"zstandard", "google-re2"}),
        ("3.13", {"zstandard", "google-re2"}),
        ("3.14", {"google-re2"}),
        ("3.15", set()),
    ],
)
@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "arm64"])
def test_each_python_is_asked_for_packages_that_have_wheels_for_it(python: str, more: set[str], machine: str) -> None:
    assert installed(python, machine) == EVERYWHERE | more | {"crc32c"}


def test_other_processors_take_the_checksum_that_is_built() -> None:
    assert installed("3.13", "riscv64") == EVERYWHERE | {"zstandard", "google-re2", "crcmod"}


def test_each_dependency_has_its_reason() -> None:
    page = (ROOT / "docs" / "decisions" / "0002-dependencies.md").read_text()
    assert not [each.name for each in REQUIREMENTS if f"| {each.name} |" not in page]


def texts_of(path: Path) -> set[str]:
    """Return the texts of a module that a user may see: those that are no documentation."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bodies = [each.body for each in ast.walk(tree) if isinstance(each, ast.Module | ast.ClassDef | ast.FunctionDef)]
    told = {id(body[0].value) for body in bodies if body and isinstance(body[0], ast.Expr)}
    strings = (each for each in ast.walk(tree) if isinstance(each, ast.Constant) and id(each) not in told)
    return {each.value for each in strings if isinstance(each.value, str)}


def test_every_message_says_alike_how_to_install_an_extra() -> None:
    """Nothing is on PyPI yet, so each says what to do in a clone."""
    modules = [path for wing in WINGS for path in (ROOT / wing).rglob("*.py")]
    assert len(modules) > 500
    asked = [path for path in modules if "odradek[" in path.read_text(encoding="utf-8")]
    own = [str(path) for path in asked if any("pip install 'odradek[" in text for text in texts_of(path))]
    assert own == []


def test_an_extra_that_a_message_names_is_there() -> None:
    called = re.compile(r"""how_to_install\(["']([\w,-]+)["']\)""")
    texts = [path.read_text(encoding="utf-8") for wing in WINGS for path in (ROOT / wing).rglob("*.py")]
    named = {extra for text in texts for given in called.findall(text) for extra in given.split(",")}
    assert len(named) > 8 and named <= PROJECT["optional-dependencies"].keys()
    assert how_to_install("sql") == "pip install 'odradek[sql]' ('.[sql]' in a clone)"
