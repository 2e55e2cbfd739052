"""The rules of the house that a machine can check: what ships, what may import what, how long things grow.

`tools/house.py` reads the plan from the code; `docs/architecture.md` explains it.
"""

from __future__ import annotations

import ast
import gc
import re
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from odradek.broker.configs.broker_config import BROKER_CONFIGS
from odradek.broker.configs.group_bounds import FIELDS
from odradek.broker.configs.topic_config import SUPPORTED_TOPIC_CONFIGS
from odradek.storage.config import LogConfig
from odradek.tests.support.documents.tools import tool

ROOT = Path(__file__).parent.parent
WINGS = (
    "kernel",
    "protocol",
    "zookeeper",
    "storage",
    "web",
    "client",
    "registry",
    "console",
    "broker",
    "testing",
    "cli",
)
MODULES = sorted(path for wing in WINGS for path in (ROOT / wing).rglob("*.py"))
BESIDES = ("tests", "tools", "benchmarks", "pipelines")
WRITTEN = sorted([*MODULES, *ROOT.glob("*.py"), *(p for d in BESIDES for p in (ROOT / d).rglob("*.py"))])

house = tool("house")

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
# Look twice at 400 lines; nothing passes 600 lines a file and 70 a function.
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 70
# The aims for the whole package.
MEDIAN_FUNCTION_LINES = 8
P90_FUNCTION_LINES = 20
P90_FILE_LINES = 320

# Beside the faces `__init__` and `__main__`.
MAX_FLAT_FILES = 8
# The floors inside the broker, from the top. A room imports from its own folder, and from floors below its own.
BROKER_FLOORS = (
    ("server.py", "__init__.py", "__main__.py"),
    ("http",),
    ("handlers",),
    ("network",),
    ("services.py",),
    ("cluster",),
    ("replication",),
    ("background",),
    ("share_partitions",),
    ("coordination",),
    ("topics",),
    ("log_dirs",),
    ("quotas",),
    ("security",),
    ("configs", "metrics"),
    ("purgatory.py", "threads.py", "broker_thread.py"),
    ("timers.py",),
    ("turns.py",),
    ("clock.py",),
)
# The floors inside the client. What is on one floor knows nothing of its neighbours.
CLIENT_FLOORS = (
    ("__init__.py",),
    ("blocking",),
    ("zookeeper", "topic_table.py", "unread_ages.py"),
    ("share", "sql", "spark"),
    ("archive",),
    ("consumer", "admin"),
    ("producer",),
    ("arrow", "assignors", "schemas"),
    ("core",),
    ("errors.py",),
    ("record.py",),
)
# The floors inside the registry: above `changes.py` it waits for something, from there on it is pure.
REGISTRY_FLOORS = (
    ("__init__.py",),
    ("server.py",),
    ("door.py",),
    ("api.py",),
    ("schemas_log.py",),
    ("changes.py",),
    ("subjects.py",),
    ("records.py",),
    ("formats",),
    ("errors.py",),
)
# The floors inside the console: a request comes in at the top, what it reads is at the bottom.
CONSOLE_FLOORS = (
    ("__init__.py",),
    ("server.py",),
    ("app.py",),
    ("routes.py",),
    ("views",),
    ("changes",),
    ("visit.py",),
    ("door", "history"),
    ("reading",),
    ("cluster.py", "journal.py"),
    ("rendering.py",),
)
WEB_FLOORS = (
    ("__init__.py",),
    ("listener.py",),
    ("connection.py", "guesses.py", "origin.py"),
    ("exchange.py", "line_limit.py", "startable.py"),
)
FLOORS = {
    "broker": BROKER_FLOORS,
    "client": CLIENT_FLOORS,
    "registry": REGISTRY_FLOORS,
    "console": CONSOLE_FLOORS,
    "web": WEB_FLOORS,
}
BANNED_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "base", "misc"}

# wing -> modules that stay out of it, so that it needs no loop, clock, wire or disk to be tested
SYNCHRONOUS = {"asyncio", "logging", "socket", "selectors"}
SANS_IO = SYNCHRONOUS | {"time", "datetime", "os", "pathlib", "random", "subprocess"}
FORBIDDEN = {"kernel": SANS_IO, "protocol": SANS_IO, "storage": SYNCHRONOUS}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree_of(path: Path) -> ast.Module:
    return house.tree_of(path.relative_to(ROOT))


def nodes(path: Path) -> dict[type[ast.AST], list[Any]]:
    """Return the nodes of a module by their type."""
    return house.nodes(path.relative_to(ROOT))


@pytest.fixture(scope="module", autouse=True)
def parsed() -> Iterator[None]:
    """Parse every module out of the collector's sight: it would look at each of a million nodes again and again.

    They go with the last test, and what was frozen before stays so: each `gc.collect()` of a later test would take two
    seconds.
    """
    gc.disable()
    try:
        for path in WRITTEN:
            nodes(path)
        gc.freeze()
    finally:
        gc.enable()
    yield
    gc.unfreeze()
    house.nodes.cache_clear()
    house.tree_of.cache_clear()
    gc.freeze()


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from nodes(path)[ast.FunctionDef]
    yield from nodes(path)[ast.AsyncFunctionDef]


def imported(path: Path) -> Iterator[str]:
    """First names of the absolute imports."""
    yield from (alias.name.partition(".")[0] for node in nodes(path)[ast.Import] for alias in node.names)
    yield from (node.module.partition(".")[0] for node in nodes(path)[ast.ImportFrom] if node.level == 0)


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


def test_modules_say_what_they_are_and_stay_small() -> None:
    found = {name_of(path): list(_faults_of(path)) for path in WRITTEN}
    assert {name: faults for name, faults in found.items() if faults} == {}


def _faults_of(path: Path) -> Iterator[str]:
    lines = path.read_text().count("\n")
    is_test = path.is_relative_to(ROOT / "tests")
    if lines and not is_test and not ast.get_docstring(tree_of(path)):
        yield "no module docstring"
    if lines > MAX_FILE_LINES:
        yield f"{lines} lines"
    yield from (f"{each.name}: {size} lines" for each in functions(path) if (size := _lines(each)) > MAX_FUNCTION_LINES)
    if path.stem in BANNED_NAMES:
        yield "a name that says nothing"


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


def test_errors_are_typed() -> None:
    bare = [
        f"{name_of(path)}:{node.lineno}"
        for path in MODULES
        for node in nodes(path)[ast.Raise]
        if isinstance(node.exc, ast.Call)
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
    heavy = "{'asyncio', 'uvloop', 'click', 'rich', 'numpy', 'pyarrow', 'pyspark', 'pandas', 'msgpack'}"
    code = f"import odradek, sys; print({heavy} & sys.modules.keys() or '')"
    loaded = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == ""


def test_a_star_imports_no_more_than_the_version() -> None:
    found: dict[str, object] = {}
    exec("from odradek import *", found)
    assert found.keys() - {"__builtins__"} == {"__version__"}


def test_the_broker_never_loads_what_only_spark_needs() -> None:
    heavy = "{'numpy', 'pyarrow', 'pyspark', 'pandas', 'rich'}"
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
    "inter_broker_listener_name",
    "security_inter_broker_protocol",
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
        for node in nodes(path)[ast.Attribute]
    }
    # The log reads its part of a topic's configs.
    read |= {each.name for each in fields(LogConfig)}
    # Groups read the broker's defaults and bounds by name.
    read |= {name for names in FIELDS.values() for name in names}
    topics = {row.attribute for row in SUPPORTED_TOPIC_CONFIGS.values()}
    inherited = {name.replace(".", "_") for row in SUPPORTED_TOPIC_CONFIGS.values() for name in row.broker_synonyms}
    declared = topics | {row.attribute for row in BROKER_CONFIGS.values()}
    assert sorted(declared - read - inherited - RESOLVED_IN_THE_TABLE) == []


def test_a_default_of_the_log_stands_once() -> None:
    """A row whose topic config is a field of LogConfig takes its default from there."""
    logs = {each.name.replace("_", ".") for each in fields(LogConfig)}
    twice: list[str] = []
    for node in nodes(ROOT / "broker" / "configs" / "log_table.py")[ast.Call]:
        if isinstance(node.func, ast.Name) and node.func.id == "define":
            given = {each.arg: each.value for each in node.keywords}
            topic, default = given.get("topic"), given.get("topic_default", node.args[1])
            if isinstance(topic, ast.Constant) and topic.value in logs and "_LOG." not in ast.unparse(default):
                twice += [] if isinstance(default, ast.Constant) and default.value is None else [str(topic.value)]
    assert twice == []


# -- The plan


# What only Linux has, and the libraries of C that have it.
OF_LINUX = re.compile(
    r"posix_fadvise|POSIX_FADV|os\.RWF_|\bos\.(preadv|pwritev|sendfile|fdatasync|fsync|sched_\w+|copy_file_range|splice|"
    r"memfd_create|eventfd|posix_fallocate)\b|O_DIRECT\b|O_TMPFILE|SO_REUSEPORT|/proc/|C(DLL|FUNCTYPE)\(None|PyDLL\("
)


def test_one_module_alone_names_what_only_linux_has() -> None:
    """A system without it would not start a broker: `storage/system_calls.py` says what is there."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for wing in ("broker", "storage", "cli", "protocol")
        for path in sorted((ROOT / wing).rglob("*.py"))
        if path != ROOT / "storage" / "system_calls.py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if OF_LINUX.search(line)
    ]
    assert found == []


def test_our_own_processes_import_nothing_from_the_folder_where_they_are_started() -> None:
    started = [
        line for path in MODULES for line in path.read_text().splitlines() if re.search(r"executable.*\"-m\"", line)
    ]
    assert started and [line for line in started if '"-P", "-m"' not in line] == []


def test_no_modules_import_each_other() -> None:
    assert [[str(module) for module in circle] for circle in house.circles()] == []


def floor_of(module: Path) -> int:
    """Return the floor of a module in its wing, 0 at the top."""
    return next(floor for floor, rooms in enumerate(FLOORS[module.parts[0]]) if module.parts[1] in rooms)


def runs_up(module: Path, target: Path) -> bool:
    """Tell whether an import leaves its room for one that is not on a lower floor."""
    return module.parts[1] != target.parts[1] and floor_of(target) <= floor_of(module)


@pytest.mark.parametrize("wing", FLOORS)
def test_imports_inside_a_wing_run_down(wing: str) -> None:
    inside = [module for module in house.modules() if module.parts[0] == wing and not house.is_face(module)]
    up = [
        f"{module} -> {target}"
        for module in inside
        for target in sorted(house.imports(module))
        if target in inside and runs_up(module, target)
    ]
    assert up == []


@pytest.mark.parametrize("wing", FLOORS)
def test_a_wing_has_few_files_outside_its_folders(wing: str) -> None:
    inside = [module for module in house.modules() if module.parts[0] == wing and len(module.parts) == 2]
    flat = [module.name for module in inside if not module.name.startswith("__")]
    assert len(flat) <= MAX_FLAT_FILES, flat


def test_annotations_are_not_evaluated_when_a_module_loads() -> None:
    """A module that holds more than its docstring begins with `from __future__ import annotations`."""
    evaluated = [
        name_of(path)
        for path in WRITTEN
        if not all(map(_is_docstring, tree_of(path).body)) and "__future__" not in imported(path)
    ]
    assert evaluated == []


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def test_every_folder_and_file_says_what_it_is() -> None:
    silent = [str(module) for module in house.modules() if not house.first_line(module)]
    assert silent == []


def test_the_architecture_shows_the_plan_as_it_is() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert page == house.with_tree(page), "run: python tools/house.py write"


def test_an_import_inside_a_function_puts_a_load_off() -> None:
    """It is for a lazy start or an optional extra: what the imports at the top load anyway belongs there, too."""
    useless: set[str] = set()
    for module in house.modules():
        inside = {
            each for function in functions(ROOT / module) for each in house.imported_by(module, ast.walk(function))
        }
        if inside:
            useless |= {f"{module}: {each}" for each in inside & house.loaded_with(module) if not house.is_face(each)}
    assert useless == set()


def test_every_handler_does_something() -> None:
    """A handler that only forwards is a route: the table names the coordinator's method."""
    idle = [name_of(path) for path in MODULES if path.parent == ROOT / "broker" / "handlers" if _only_forwards(path)]
    assert idle == []


def _only_forwards(path: Path) -> bool:
    handle = next((each for each in functions(path) if each.name == "handle"), None)
    if handle is None:
        return False
    body = [each for each in handle.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    if len(body) != 1 or not isinstance(body[0], ast.Return) or not isinstance(body[0].value, ast.Call):
        return False
    call, names = body[0].value, [each.arg for each in handle.args.args]
    return (
        isinstance(call.func, ast.Attribute)
        and [each.id for each in call.args if isinstance(each, ast.Name)] == names[1:]
    )


def test_functions_and_files_are_short_on_the_whole() -> None:
    lengths = sorted(_lines(each) for path in MODULES for each in functions(path))
    sizes = sorted(path.read_text().count("\n") for path in MODULES)
    assert statistics.median(lengths) <= MEDIAN_FUNCTION_LINES
    assert lengths[len(lengths) * 9 // 10] <= P90_FUNCTION_LINES
    assert sizes[len(sizes) * 9 // 10] <= P90_FILE_LINES


# -- Tests


# What kills, waits and looks again by chance or by plan: these last as long as they say.
LASTING = {"soak", "conformance", "support"}
# A test that shows that something does not happen waits so long, and no longer.
MAX_SLEEP_S = 0.05
# Calls that would last, and are cut short; a load that lasts.
SLEEPERS = {"WITHIN_S", "LASTS_S", "10"}
TESTS = [path for path in WRITTEN if path.is_relative_to(ROOT / "tests")]


def test_a_test_waits_for_something_and_sleeps_for_nothing() -> None:
    """A sleep is a step of a loop that looks again, or is very short."""
    found = [
        f"{name_of(path)}:{call.lineno}: {ast.unparse(call)}"
        for path in TESTS
        if path.relative_to(ROOT / "tests").parts[0] not in LASTING and "sleep" in _text(path)
        for call in _calls_outside_of_loops(tree_of(path), "sleep")
        if not _is_short(ast.unparse(call.args[0]))
    ]
    assert found == []


def _is_short(seconds: str) -> bool:
    return seconds in SLEEPERS or (re.fullmatch(r"[\d.]+", seconds) is not None and float(seconds) <= MAX_SLEEP_S)


def _calls_outside_of_loops(node: ast.AST, name: str) -> Iterator[ast.Call]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.While | ast.For | ast.AsyncFor):
            continue
        if isinstance(child, ast.Call) and child.args and ast.unparse(child.func).rpartition(".")[2] == name:
            yield child
        yield from _calls_outside_of_loops(child, name)


def test_no_test_mocks_a_class() -> None:
    assert [name_of(path) for path in TESTS if re.search(r"unittest\.mock|import mock|\bMagicMock\b", _text(path))] == [
        name_of(Path(__file__))
    ]


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Python 3.11.2, which Debian 12 has, does not match such a pattern: TLS had no keys there."""
    assert [name_of(path) for path in MODULES if re.search(r"\)[*+?}]\+", _text(path))] == []


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


# -- Words


def ruled_out() -> list[str]:
    """The left column of the glossary's last table."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    table = text[text.index("## Words that are not used") :]
    rows = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)
    return [word for row in rows if row not in ("not", "---") for word in row.split(", ")]


def test_the_glossary_is_kept() -> None:
    ruled = [word.lower() for word in ruled_out()]
    words = re.compile(rf"(?<![a-z])({'|'.join(map(re.escape, ruled))})")
    texts = {path: _text(path).lower().replace("_", " ") for path in WRITTEN + DOCUMENTS if path.name != "glossary.md"}
    found = [
        f"{name_of(path)}:{number}: {match[0]}"
        for path, text in texts.items()
        if any(word in text for word in ruled)  # a tenth of what the pattern costs
        for number, line in enumerate(text.splitlines(), 1)
        if (match := words.search(line))
    ]
    assert found == []
