"""What a schema of Avro lets data do to its reader: how deep values can be, and whether they can be of no bytes."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# JSON has no types.

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, cast

# Each level of types takes some frames of the reader's stack.
MAX_LEVELS = 100


class Shape(Enum):
    """What the reader of a schema must beware of."""

    PLAIN = "values are as deep as the schema"
    DEEP = "values can be deeper than a stack: a type holds itself, or types hold one another over many levels"
    EMPTY_ITEMS = "an array has items that take no bytes, so a value of ten bytes can have any number of them"


def shape_of(parsed: Any) -> Shape:
    """Return the shape of a schema that fastavro has parsed."""
    found = _Walk(types_by_name(parsed))
    if any(found.is_empty(each["items"]) for each in found.arrays(parsed)):
        return Shape.EMPTY_ITEMS
    return Shape.DEEP if found.levels(parsed, ()) > MAX_LEVELS else Shape.PLAIN


def types_by_name(parsed: Any) -> dict[str, Any]:
    """Return the types with a name in a schema that fastavro has parsed, and in what it refers to."""
    named: dict[str, Any] = {}
    if isinstance(parsed, dict):
        named.update(cast("dict[str, Any]", parsed).get("__named_schemas", {}))
    _collect(parsed, named)
    return named


def _parts(kind: Any) -> Iterator[Any]:
    """Yield the types inside of a type."""
    if isinstance(kind, list):
        yield from cast("list[Any]", kind)
    elif isinstance(kind, dict):
        given = cast("dict[str, Any]", kind)
        yield from (each["type"] for each in given.get("fields", ()))
        yield from (given[name] for name in ("items", "values") if name in given)
        if isinstance(given.get("type"), (dict, list)):
            yield given["type"]


def _collect(kind: Any, named: dict[str, Any]) -> None:
    """Note the types with a name in a type."""
    if isinstance(kind, dict) and "name" in kind:
        named.setdefault(cast("dict[str, Any]", kind)["name"], kind)
    for each in _parts(kind):
        _collect(each, named)


class _Walk:
    """Questions about a schema, each type asked once."""

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named
        self._levels: dict[str, int] = {}
        self._empty: dict[str, bool] = {}

    def arrays(self, kind: Any, seen: set[str] | None = None) -> Iterator[dict[str, Any]]:
        """Yield every array in a type."""
        seen = set[str]() if seen is None else seen
        if isinstance(kind, str) and kind in self._named and kind not in seen:
            seen.add(kind)
            kind = self._named[kind]
        if isinstance(kind, dict) and cast("dict[str, Any]", kind).get("type") == "array":
            yield cast("dict[str, Any]", kind)
        for each in _parts(kind):
            yield from self.arrays(each, seen)

    def is_empty(self, kind: Any, around: tuple[str, ...] = ()) -> bool:
        """Tell whether values of a type can take no bytes."""
        if isinstance(kind, str):
            if kind not in self._named or kind in around:
                return kind == "null"
            if kind not in self._empty:
                self._empty[kind] = self.is_empty(self._named[kind], (*around, kind))
            return self._empty[kind]
        if isinstance(kind, list):
            return False
        match kind["type"]:
            case "record" | "error":
                return all(self.is_empty(each["type"], around) for each in kind["fields"])
            case "fixed":
                return kind["size"] == 0
            case "array" | "map" | "enum":
                return False
            case inner:
                return self.is_empty(inner, around)

    def levels(self, kind: Any, around: tuple[str, ...]) -> int:
        """Return how deep values of a type can be: more than MAX_LEVELS if it holds itself."""
        name = kind if isinstance(kind, str) else kind.get("name", "") if isinstance(kind, dict) else ""
        if name in around or len(around) > MAX_LEVELS:
            return MAX_LEVELS + 1
        if name not in self._named:
            return 1 + max((self.levels(each, around) for each in _parts(kind)), default=0)
        if name not in self._levels:
            inner = (self.levels(each, (*around, name)) for each in _parts(self._named[name]))
            self._levels[name] = 1 + max(inner, default=0)
        return self._levels[name]
