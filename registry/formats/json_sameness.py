"""What two JSON Schemas have to do with one another: whether they say the same, and whether no value is of both.

Both answers are sure where they are yes. Sameness is of the texts and of all that their `$ref`s lead to; `1`, `1.0` and
`true` are three things here.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# JSON has no types.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ..errors import InvalidSchema
from .json_keywords import is_number, required_names, types_of, values_of
from .json_schema import Node, mapping
from .json_text import compact

_DATA = frozenset({"const", "enum", "default", "examples"})
# The keywords of the most and of the least, and the types that they are about.
_BOUNDS = (
    ("maximum", "minimum", {"integer", "number"}),
    ("maxLength", "minLength", {"string"}),
    ("maxItems", "minItems", {"array"}),
)
_UNKNOWN_TARGETS = ("$dynamicRef", "$recursiveRef")


def are_same(one: Node, other: Node, take: Callable[[], None]) -> bool:
    """Tell whether two schemas have the same text, and their `$ref`s the same targets. `take` counts the steps."""
    left, seen = [(one, other)], set[tuple[int, int]]()
    while left:
        one, other = left.pop()
        if one.value is other.value or (id(one.value), id(other.value)) in seen:
            continue
        take()
        seen.add((id(one.value), id(other.value)))
        inner = _parts_alike(one, other)
        if inner is None:
            return False
        left += inner
    return True


def _parts_alike(one: Node, other: Node) -> list[tuple[Node, Node]] | None:
    """Return the pairs of parts that must be the same, too; None where these two differ."""
    ours, theirs = one.value, other.value
    if isinstance(ours, list) and isinstance(theirs, list) and len(cast("list[Any]", ours)) == len(theirs):
        return [(one.inner(each), other.inner(with_it)) for each, with_it in zip(ours, theirs, strict=True)]
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return [] if compact(ours) == compact(theirs) else None
    mine, yours = cast("dict[str, Any]", ours), cast("dict[str, Any]", theirs)
    # The same text means something else where a draft does not know a keyword of it.
    if mine.keys() != yours.keys() or one.silent() != other.silent() or any(name in mine for name in _UNKNOWN_TARGETS):
        return None
    pairs: list[tuple[Node, Node]] = []
    for name, each in mine.items():
        if name in _DATA and not isinstance(each, dict):
            if compact(each, sort_keys=True) != compact(yours[name], sort_keys=True):
                return None
        elif name == "$ref" and isinstance(each, str) and isinstance(yours[name], str):
            pairs += [(_target(one), _target(other))]
        else:
            pairs.append((one.inner(each), other.inner(yours[name])))
    return pairs


def _target(node: Node) -> Node:
    """Return what a `$ref` names. Where it is no reference but data, and leads nowhere, the text itself."""
    try:
        found = node.target()
    except InvalidSchema:
        found = None
    return node.inner(node.value["$ref"]) if found is None else found


# -- No value is of both


def are_disjoint(one: Node, other: Node, take: Callable[[], None]) -> bool:
    """Tell whether surely no value is of both schemas."""
    return _Disjointness(take).holds(one, other)


class _Disjointness:
    """One question, with the pairs that are being asked about: inside of itself, a pair may have a value."""

    def __init__(self, take: Callable[[], None]) -> None:
        self._take = take
        self._asking: set[tuple[int, int]] = set()

    def holds(self, one: Node, other: Node) -> bool:
        pair = (id(one.value), id(other.value))
        if pair in self._asking:
            return False
        self._take()
        self._asking.add(pair)
        try:
            return self._holds(one, other)
        finally:
            self._asking.discard(pair)

    def _holds(self, one: Node, other: Node) -> bool:
        if one.value is False or other.value is False:
            return True
        if not isinstance(one.value, dict) or not isinstance(other.value, dict):
            return False
        one, other = one.said(), other.said()
        if _differ(one.value, other.value) or self._differ_in_a_property(one, other):
            return True
        return self._by_parts(one, other) or self._by_parts(other, one)

    def _by_parts(self, one: Node, other: Node) -> bool:
        """Tell so by what a schema is made of: all that it must be, each that it may be."""
        if any(self.holds(each, other) for each in one.musts()):
            return True
        sums = (one.value[name] for name in ("anyOf", "oneOf") if name in one.value)
        return any(all(self.holds(one.inner(each), other) for each in branches) for branches in sums)

    def _differ_in_a_property(self, one: Node, other: Node) -> bool:
        if not types_of(one.value) & types_of(other.value) <= {"object"}:
            return False
        ours, theirs = mapping(one.value.get("properties")), mapping(other.value.get("properties"))
        for name in {*required_names(one.value), *required_names(other.value)}:
            mine, yours = _of_property(one, ours, name), _of_property(other, theirs, name)
            if mine is not None and yours is not None and self.holds(mine, yours):
                return True
        return False


def _of_property(node: Node, properties: dict[str, Any], name: str) -> Node | None:
    """Return what a schema says of a property by its name, None where a pattern may say more."""
    if name in properties:
        return node.inner(properties[name])
    return None if node.value.get("patternProperties") else node.inner(node.value.get("additionalProperties", True))


def _differ(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Tell whether types, values or bounds of two schemas exclude one another."""
    if not types_of(one) & types_of(other):
        return True
    ours, theirs = values_of(one), values_of(other)
    if ours is not None and theirs is not None and not ours & theirs:
        return True
    both = types_of(one) & types_of(other)
    for most, least, kinds in _BOUNDS:
        if both <= kinds:
            for low, high in ((one, other), (other, one)):
                if is_number(low.get(most)) and is_number(high.get(least)) and low[most] < high[least]:
                    return True
    return False
