"""A project of its own with the wheel installed: its tests pass, and find each of three planted bugs."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from textwrap import indent
from zipfile import ZipFile

import pytest
from odradek.testing import KafkaCluster, KafkaProcess, LocalKafka, LocalSchemaRegistry

ROOT = Path(__file__).parents[2]
PROJECT = Path(__file__).with_name("sample_project")
# What pyproject.toml asks for. Where it is older, pip gets one for the build.
SETUPTOOLS = 77
FOUND_BY = {
    "sent-twice": "test_an_order_is_sent_once_though_its_acknowledgement_is_lost",
    "early-commit": "test_an_order_is_paid_though_the_service_crashes",
    "zombie": "test_an_instance_that_was_replaced_writes_no_more",
}
PAGE = ROOT / "docs" / "testing.md"
KINDS = (LocalKafka, KafkaCluster, KafkaProcess, LocalSchemaRegistry)
# The marker, a fixture that is called, the handler of a test, and a method of testcontainers.
NOT_CALLS = {"kafka", "kafka_factory", "answer", "get_bootstrap_server"}
# The calls in the page's tables: name and arguments.
CALLS = {
    (name, arguments)
    for row in re.findall(r"^\|.*\|$", PAGE.read_text(), re.MULTILINE)
    for name, arguments in re.findall(r"[`.]([a-z_]+)\(([^`]*?)\)[` ]", row)
    if name not in NOT_CALLS
}
_GIVEN = "from page import SERVICES\n"
ASYNCIO = "asyncio_mode=auto"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel installs."""
    folder = tmp_path_factory.mktemp("wheel")
    source, wheels, site = folder / "source", folder / "wheels", folder / "site"
    _copy_source(source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    # Without a compiler there is no kernel, and nothing is missing: this is about what the wheel holds.
    build = [*pip, "wheel", str(source), "--no-deps", "-w", str(wheels)]
    if int(version("setuptools").partition(".")[0]) >= SETUPTOOLS:
        build.append("--no-build-isolation")
    subprocess.run(build, check=True, env={**os.environ, "CC": "false"}, capture_output=True)
    (wheel,) = wheels.glob("odradek-*.whl")
    # As `pip install --target` does, which would compile everything first.
    with ZipFile(wheel) as packed:
        packed.extractall(site)
    return site


def _copy_source(source: Path) -> None:
    """Copy what a wheel is built of."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders = {name.partition(".")[2].partition(".")[0] for name in settings["tool"]["setuptools"]["packages"]}
    source.mkdir()
    for each in [*sorted(folders - {""}), "tools"]:
        shutil.copytree(ROOT / each, source / each, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.c"))
    for file in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "py.typed", "__init__.py", "__main__.py"):
        shutil.copy(ROOT / file, source / file)


def run(installed: Path, folder: Path, planted: str = "", *options: str) -> str:
    """Run the project's tests; return what pytest prints."""
    shutil.copytree(PROJECT, folder / "project", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(installed), "PLANTED": planted}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers"]
    # Other plugins take half a second to be imported.
    without = ("anyio", "hypothesispytest", "xdist", *([] if ASYNCIO in options else ["asyncio"]))
    command += [f"-pno:{plugin}" for plugin in without]
    command += ["-p", "odradek", "-rf", "--rootdir", str(folder / "project"), *options]
    done = subprocess.run(command, cwd=folder / "project", env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_projects_tests_pass_with_the_wheel_alone(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "test_where.py").write_text(
        f"import odradek\ndef test_where(): assert odradek.__file__.startswith({str(installed)!r})\n"
    )
    assert "17 passed" in run(installed, tmp_path)


def test_every_block_of_the_page_runs(installed: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    folder = tmp_path / "project"
    folder.mkdir()
    # An asyncio program needs no service beside it.
    services = iter(range(len(blocks)))
    for number, block in enumerate(blocks[:-1]):
        given = "" if "async def" in block else f"{_GIVEN}run_my_service = SERVICES[{next(services)}]\n\n"
        (folder / f"test_block_{number}.py").write_text(given + block)
    (folder / "test_alone.py").write_text(f"def test_alone():\n{indent(blocks[-1], '    ')}")
    assert f"{len(blocks)} passed" in run(installed, tmp_path, "", "-k", "block or alone", "-o", ASYNCIO)


@pytest.mark.parametrize("named", sorted(CALLS))
def test_every_call_of_the_page_is_there(named: tuple[str, str]) -> None:
    name, arguments = named
    found = next(getattr(each, name) for each in KINDS if hasattr(each, name))
    parameters = inspect.signature(found).parameters
    given = re.findall(r"(\w+)=", arguments)
    assert set(given) <= parameters.keys() or "by" in parameters


@pytest.mark.parametrize("planted", FOUND_BY)
def test_a_planted_bug_is_found(installed: Path, tmp_path: Path, planted: str) -> None:
    said = run(installed, tmp_path, planted, "-k", "order_is or replaced")
    assert re.findall(r"^FAILED test_services\.py::(\w+)", said, re.MULTILINE) == [FOUND_BY[planted]]
    assert "the last requests to Kafka" in said
