"""The rules of the house that a machine can check: what ships, what may import what, how long things grow."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest
from odradek.broker.configs.broker_config import BROKER_CONFIGS
from odradek.broker.configs.topic_config import SUPPORTED_TOPIC_CONFIGS
from odradek.storage.config import LogConfig

ROOT = Path(__file__).parent.parent
WINGS = ("protocol", "storage", "client", "broker", "cli")
MODULES = sorted(path for wing in WINGS for path in (ROOT / wing).rglob("*.py"))
WRITTEN = sorted(
    [*MODULES, *ROOT.glob("*.py"), *(p for d in ("tests", "tools", "benchmarks") for p in (ROOT / d).rglob("*.py"))]
)

# Look twice at 400 lines; nothing passes 600 lines a file and 70 a function.
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 70
BANNED_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "base", "misc"}

# wing -> modules that stay out of it, so that it needs no loop, clock, wire or disk to be tested
SYNCHRONOUS = {"asyncio", "logging", "socket", "selectors"}
SANS_IO = SYNCHRONOUS | {"time", "datetime", "os", "pathlib", "random", "subprocess"}
FORBIDDEN = {"protocol": SANS_IO, "storage": SYNCHRONOUS}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), name_of(path))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def imported(path: Path) -> Iterator[str]:
    """First names of the absolute imports."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def test_every_folder_of_code_is_in_the_wheel() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {path.parent.relative_to(ROOT) for path in MODULES}
    assert sorted(listed) == sorted(["odradek", *("odradek." + ".".join(folder.parts) for folder in folders)])


def test_the_build_backend_is_wherever_a_wheel_is_built() -> None:
    backend = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    path = f"{backend['backend-path'][0]}/{backend['build-backend']}.py"
    assert (ROOT / path).exists()
    assert f"include {path}" in (ROOT / "MANIFEST.in").read_text().splitlines()  # from a source distribution
    ignored = (ROOT / ".dockerignore").read_text().splitlines()  # in an image
    assert "tools" not in ignored and f"!{path}" in ignored


def test_every_folder_of_code_is_a_package() -> None:
    assert [str(path.parent) for path in MODULES if not (path.parent / "__init__.py").exists()] == []


def test_the_root_holds_no_module_but_its_own() -> None:
    assert sorted(path.name for path in ROOT.glob("*.py")) == ["__init__.py", "__main__.py"]


@pytest.mark.parametrize("path", WRITTEN, ids=name_of)
def test_module_says_what_it_is_and_stays_small(path: Path) -> None:
    lines = path.read_text().count("\n")
    is_test = path.is_relative_to(ROOT / "tests")
    assert ast.get_docstring(tree_of(path)) or not lines or is_test, "no module docstring"
    assert lines <= MAX_FILE_LINES
    long = [f"{each.name}: {size}" for each in functions(path) if (size := _lines(each)) > MAX_FUNCTION_LINES]
    assert long == []
    assert path.stem not in BANNED_NAMES


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Of its body: a long list of parameters is a table, and reads as one."""
    return (node.end_lineno or node.lineno) - node.body[0].lineno + 1


@pytest.mark.parametrize("wing", FORBIDDEN)
def test_lower_floors_need_no_loop_clock_or_wire(wing: str) -> None:
    found = {
        name_of(path): set(imported(path)) & FORBIDDEN[wing] for path in MODULES if path.is_relative_to(ROOT / wing)
    }
    assert {path: names for path, names in found.items() if names} == {}


def test_imports_inside_the_wings_are_relative() -> None:
    # A rule of ruff's would take a checkout named `odradek` for the package and find every relative import absolute.
    assert [name_of(path) for path in MODULES if "odradek" in imported(path)] == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_errors_are_typed(path: Path) -> None:
    bare = [
        node.lineno
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and isinstance(node.exc.func, ast.Name)
        and node.exc.func.id in ("ValueError", "Exception", "RuntimeError", "KeyError", "OSError")
    ]
    assert bare == []


def test_imports_run_down_the_floors_only() -> None:
    checked = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = "{'asyncio', 'uvloop', 'click', 'rich', 'numpy', 'numba', 'pyarrow', 'pyspark', 'pandas', 'msgpack'}"
    code = f"import odradek, sys; print({heavy} & sys.modules.keys() or '')"
    loaded = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == ""


def test_the_broker_never_loads_what_only_spark_needs() -> None:
    heavy = "{'numpy', 'numba', 'pyarrow', 'pyspark', 'pandas', 'rich'}"
    code = f"import odradek.cli.serve, odradek.broker.server, sys; print({heavy} & sys.modules.keys() or '')"
    loaded = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == ""


# Acted on where they are declared, by what config.py makes of them (endpoints, data_dir, node_id, segment sizes), or
# because their range leaves one value, which is how it is.
RESOLVED_IN_THE_TABLE = {
    "default_replication_factor",
    "broker_id",
    "metadata_log_dir",
    "listeners",
    "advertised_listeners",
    "listener_security_protocol_map",
    "controller_listener_names",
    "log_dir",
    "log_dirs",
    "segment_bytes",
    "internal_segment_bytes",
    "segment_ms",
}


def test_no_config_is_accepted_and_ignored() -> None:
    """Each declared config is read as an attribute somewhere in the broker, or gives a topic config its default."""
    tables = {"broker_config.py", "topic_config.py", "server_table.py", "log_table.py", "coordinator_table.py"}
    read = {
        node.attr
        for path in MODULES
        if path.is_relative_to(ROOT / "broker") and path.name not in tables
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute)
    }
    # The log reads its part of a topic's configs.
    read |= {each.name for each in fields(LogConfig)}
    topics = {row.attribute for row in SUPPORTED_TOPIC_CONFIGS.values()}
    inherited = {name.replace(".", "_") for row in SUPPORTED_TOPIC_CONFIGS.values() for name in row.broker_synonyms}
    declared = topics | {row.attribute for row in BROKER_CONFIGS.values()}
    assert sorted(declared - read - inherited - RESOLVED_IN_THE_TABLE) == []
