"""The plan of the house: every folder with its purpose.

    python tools/house.py write    the tree in docs/architecture.md

The words are those of the docstrings: a folder's are in its `__init__.py`. `tests/test_house.py` compares the document
with the tree, and looks for circles and for imports that run up.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WINGS = (
    "cli",
    "testing",
    "broker",
    "console",
    "registry",
    "client",
    "storage",
    "zookeeper",
    "web",
    "protocol",
    "kernel",
)
TREE_BEGIN, TREE_END = "<!-- tree -->", "<!-- /tree -->"
_COLUMN = 34


@cache
def modules() -> tuple[Path, ...]:
    """Return every module of the package, as paths from the root."""
    found = (path.relative_to(ROOT) for wing in WINGS for path in (ROOT / wing).rglob("*.py"))
    return tuple(sorted(found))


@cache
def tree_of(module: Path) -> ast.Module:
    """Return the parsed module."""
    return ast.parse((ROOT / module).read_text(encoding="utf-8"), str(module))


@cache
def nodes(module: Path) -> defaultdict[type[ast.AST], list[Any]]:
    """Return the nodes of a module by their type. Walking costs as much as parsing, so both are done once."""
    found: defaultdict[type[ast.AST], list[Any]] = defaultdict(list)
    for node in ast.walk(tree_of(module)):
        found[type(node)].append(node)
    return found


def first_line(module: Path) -> str:
    """Return the first sentence or line of a module's docstring; empty where it has none."""
    text = ast.get_docstring(tree_of(module)) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    sentence, dot, _ = paragraph.partition(". ")
    return sentence + ("." if dot else "")


# -- Imports


def _target(package: tuple[str, ...], name: str | None) -> tuple[str, ...]:
    return (*package, *(name.split(".") if name else ()))


@cache
def imports(module: Path) -> frozenset[Path]:
    """Return the modules of the package that a module imports, for types alone too."""
    return imported_by(module, nodes(module)[ast.ImportFrom])


def loaded_with(module: Path) -> frozenset[Path]:
    """Return the modules of the package that the imports at the top of a module load, and those that these load."""
    found: set[Path] = set()
    ahead = {module}
    while ahead:
        ahead = {path for each in ahead for path in _imported_at_the_top(each)} - found
        found |= ahead
    return frozenset(found)


@cache
def _imported_at_the_top(module: Path) -> frozenset[Path]:
    return imported_by(module, tree_of(module).body)


def imported_by(module: Path, statements: Iterable[ast.AST]) -> frozenset[Path]:
    """Return the modules of the package that some statements of a module import."""
    found: set[Path | None] = set()
    for node in statements:
        if isinstance(node, ast.ImportFrom) and node.level:
            target = _target(module.parts[: len(module.parts) - node.level], node.module)
            found |= {_named().get((*target, alias.name)) or _named().get(target) for alias in node.names}
    return frozenset(each for each in found if each is not None and each != module)


@cache
def _named() -> dict[tuple[str, ...], Path]:
    """Return every module by the parts of its name; a face by those of its folder."""
    return {module.parent.parts if is_face(module) else module.with_suffix("").parts: module for module in modules()}


def is_face(module: Path) -> bool:
    """Tell whether a module only hands names of its folder on."""
    return module.name == "__init__.py"


def circles() -> list[list[Path]]:
    """Return each set of modules that import one another, directly or through others (Tarjan's algorithm)."""
    graph = {module: sorted(each for each in imports(module) if not is_face(each)) for module in modules()}
    return [sorted(part) for part in _components(graph) if len(part) > 1]


def _components(graph: Mapping[Path, list[Path]]) -> Iterator[list[Path]]:
    order: dict[Path, int] = {}
    low: dict[Path, int] = {}
    stack: list[Path] = []
    for root in graph:
        if root in order:
            continue
        order[root] = low[root] = len(order)
        stack.append(root)
        work = [(root, iter(graph[root]))]
        while work:
            node, targets = work[-1]
            target = next(targets, None)
            if target is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    cut = stack.index(node)
                    yield stack[cut:]
                    del stack[cut:]
            elif target not in order:
                order[target] = low[target] = len(order)
                stack.append(target)
                work.append((target, iter(graph[target])))
            elif target in stack:
                low[node] = min(low[node], order[target])


# -- Documents


def folders() -> list[Path]:
    """Return every folder of code, parents before children."""
    return sorted({module.parent for module in modules()}, key=_place)


def _place(folder: Path) -> tuple[int, tuple[str, ...]]:
    return WINGS.index(folder.parts[0]), folder.parts


def tree() -> str:
    """Return the tree of folders, a line each, with the first line of its `__init__.py`."""
    lines = ["```"]
    for folder in folders():
        indent = "  " * (len(folder.parts) - 1)
        lines.append(f"{indent + folder.name + '/':{_COLUMN}}{first_line(folder / '__init__.py')}".rstrip())
    return "\n".join([*lines, "```"])


def with_tree(text: str) -> str:
    """Return the text of docs/architecture.md with the present tree."""
    before, _, rest = text.partition(TREE_BEGIN)
    _, _, after = rest.partition(TREE_END)
    return f"{before}{TREE_BEGIN}\n{tree()}\n{TREE_END}{after}"


if __name__ == "__main__" and sys.argv[1:] == ["write"]:
    PAGE = ROOT / "docs" / "architecture.md"
    PAGE.write_text(with_tree(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
