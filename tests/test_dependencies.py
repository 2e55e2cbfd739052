"""What `pip install odradek` installs: on which Python, and that each package has its reason in the documents."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIREMENTS = [Requirement(each) for each in PROJECT["dependencies"]]
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
