"""Compatibility of JSON Schemas: does a reader's schema take every value that the writer's schema allows, and why not.

The kinds of differences have Confluent's names. An open object (no `additionalProperties`) may have held any property,
so a property with a schema of its own cannot be added to it; to a closed one (`false`) an optional property can. A
required property that has a default counts as optional. A keyword without a rule here must be the same on both sides,
or be missing in the reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import islice
from typing import Any

import re2

from ..errors import RegistryError
from .difference import Difference, Steps
from .json_schema import TYPES, JsonSchema, Node, as_list
from .json_text import compact

# Keyword -> (whether a larger number takes more values, the first part of the difference's name).
_BOUNDS = {
    "maxLength": (True, "MAX_LENGTH"),
    "minLength": (False, "MIN_LENGTH"),
    "maximum": (True, "MAXIMUM"),
    "minimum": (False, "MINIMUM"),
    "exclusiveMaximum": (True, "EXCLUSIVE_MAXIMUM"),
    "exclusiveMinimum": (False, "EXCLUSIVE_MINIMUM"),
    "maxItems": (True, "MAX_ITEMS"),
    "minItems": (False, "MIN_ITEMS"),
    "maxProperties": (True, "MAX_PROPERTIES"),
    "minProperties": (False, "MIN_PROPERTIES"),
}
# What says something about values, and has no rule but to stay the same.
_FIXED = {
    "pattern": "PATTERN",
    "multipleOf": "MULTIPLE_OF",
    "not": "NOT_TYPE",
    "if": "CONDITION",
    "then": "CONDITION",
    "else": "CONDITION",
    "contains": "CONTAINS",
    "minContains": "CONTAINS",
    "maxContains": "CONTAINS",
    "propertyNames": "PROPERTY_NAMES",
    "dependencies": "DEPENDENCY",
    "dependentRequired": "DEPENDENCY_ARRAY",
    "dependentSchemas": "DEPENDENCY_SCHEMA",
    "unevaluatedProperties": "UNEVALUATED_PROPERTIES",
    "unevaluatedItems": "UNEVALUATED_ITEMS",
    "$dynamicRef": "REFERENCE",
    "$recursiveRef": "REFERENCE",
    "format": "FORMAT",
}
# Of searches with patterns of RE2: a step is so many characters times instructions, and each search costs some more.
_STEP_COST, _SEARCH_COST = 2_000, 200
# What `true` allows. One object, because pairs are known by address.
_ANYTHING: dict[str, Any] = {}


def differences(reader: JsonSchema, writer: JsonSchema, steps: Steps | None = None) -> list[Difference]:
    """Return why `reader` cannot read what `writer` allows; nothing if it can. Raises RegistryError past the bound."""
    return _Comparison(steps or Steps()).compare(reader.root, writer.root, "#")


class _Comparison:
    """One comparison of two schemas, with the pairs that it has seen."""

    def __init__(self, steps: Steps) -> None:
        self._seen: dict[tuple[int, int], list[Difference]] = {}
        # Pairs without a difference, in the order in which that was found.
        self._equal: list[tuple[int, int]] = []
        self._steps = steps
        # Schemas that only the comparison has made: `_seen` knows them by their addresses, which must stay theirs.
        self._made: list[dict[str, Any]] = []
        # Of readers with combined schemas, by address: what stands beside those.
        self._besides: dict[int, dict[str, Any]] = {}

    def compare(self, reader: Node, writer: Node, path: str) -> list[Difference]:
        reader, writer = reader.resolved(), writer.resolved()
        if reader.value in ({}, True) or writer.value is False:
            return []
        if reader.value is False:
            return [_difference("TYPE_NARROWED", path)]
        pair = (id(reader.value), id(writer.value))
        if pair in self._seen:
            return self._seen[pair]
        self._steps.take()
        before = len(self._equal)
        self._seen[pair] = []
        found = list(islice(self._different(reader, writer, path), Steps.MAX_DIFFERENCES))
        if found:
            # What was equal only because this pair counted as equal is not known any more.
            for other in self._equal[before:]:
                del self._seen[other]
            del self._equal[before:]
        else:
            self._equal.append(pair)
        self._seen[pair] = found
        return found

    def _different(self, reader: Node, writer: Node, path: str) -> Iterator[Difference]:
        writer = writer.inner(_ANYTHING if writer.value is True else writer.value)
        beside = reader.inner(self._beside(reader.value))
        found = list(islice(self._keywords(beside, writer, path), Steps.MAX_DIFFERENCES))
        # What stands beside the writer's combined schemas may allow more than those do.
        if found and not self._reads_combined(beside, writer, path):
            yield from found
        yield from self._sums(reader, writer, path)
        yield from self._products(reader, writer, path)

    def _keywords(self, reader: Node, writer: Node, path: str) -> Iterator[Difference]:
        """Compare all but combined schemas."""
        yield from _types(reader.value, writer.value, path)
        yield from _enums(reader.value, writer.value, path)
        yield from _bounds(reader.value, writer.value, path)
        yield from _fixed(reader.value, writer.value, path)
        types = _types_of(writer.value)
        if "object" in types:
            yield from self._objects(reader, writer, path)
        if "array" in types:
            yield from self._arrays(reader, writer, path)

    # -- Combined schemas

    def _beside(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a schema without its combined ones: always the same object."""
        if not _COMBINED & schema.keys():
            return schema
        if id(schema) not in self._besides:
            self._besides[id(schema)] = {key: each for key, each in schema.items() if key not in _COMBINED}
        return self._besides[id(schema)]

    def _reads_combined(self, reader: Node, writer: Node, path: str) -> bool:
        """Tell whether the reader takes one of the writer's allOf, or each of its oneOf or anyOf."""
        if any(not self.compare(reader, writer.inner(each), path) for each in writer.value.get("allOf", [])):
            return True
        sums = [writer.value[name] for name in ("oneOf", "anyOf") if name in writer.value]
        return any(all(not self.compare(reader, writer.inner(each), path) for each in branches) for branches in sums)

    def _sums(self, reader: Node, writer: Node, path: str) -> Iterator[Difference]:
        """Each branch of the writer must be read by one of the reader's; one that has none is a branch itself."""
        for keyword in ("oneOf", "anyOf"):
            branches = reader.value.get(keyword)
            if branches is None:
                continue
            written = next((writer.value[name] for name in (keyword, "oneOf", "anyOf") if name in writer.value), None)
            for index, each in enumerate([writer.value] if written is None else written):
                if not self._reads_one(reader, branches, writer.inner(each), path):
                    kind = "COMBINED_TYPE_CHANGED" if written is None else "SUM_TYPE_NARROWED"
                    yield _difference(kind, f"{path}/{keyword}/{index}")

    def _reads_one(self, reader: Node, branches: list[Any], writer: Node, path: str) -> bool:
        return any(not self.compare(reader.inner(each), writer, path) for each in branches)

    def _products(self, reader: Node, writer: Node, path: str) -> Iterator[Difference]:
        """Each schema of the reader's allOf must read one of the writer's, or the writer's schema around them."""
        if "allOf" not in reader.value:
            return
        around = {key: each for key, each in writer.value.items() if key != "allOf"}
        self._made.append(around)
        written = [*writer.value.get("allOf", []), around]
        for index, each in enumerate(reader.value.get("allOf", [])):
            if all(self.compare(reader.inner(each), writer.inner(other), path) for other in written):
                yield _difference("PRODUCT_TYPE_EXTENDED", f"{path}/allOf/{index}")

    # -- Objects

    def _objects(self, reader: Node, writer: Node, path: str) -> Iterator[Difference]:
        ours, theirs = reader.value.get("properties", {}), writer.value.get("properties", {})
        our_covers = self._covers(reader, [name for name in theirs if name not in ours])
        their_covers = self._covers(writer, [name for name in ours if name not in theirs])
        for name, each in theirs.items():
            place = f"{path}/properties/{name}"
            if name in ours:
                yield from self.compare(reader.inner(ours[name]), writer.inner(each), place)
            elif self.compare(our_covers[name], writer.inner(each), place):
                model = "FROM_CLOSED_CONTENT_MODEL" if our_covers[name].value is False else _NOT_COVERED
                yield _difference(f"PROPERTY_REMOVED_{model}", place)
        for name, cover in their_covers.items():
            place = f"{path}/properties/{name}"
            if self.compare(reader.inner(ours[name]), cover, place):
                model = "TO_OPEN_CONTENT_MODEL" if cover.value in ({}, True) else _NOT_COVERED
                yield _difference(f"PROPERTY_ADDED_{model}", place)
        yield from _required(reader.value, writer.value, path)
        yield from self._patterns(reader, writer, path)
        closed = _additional(reader).value is False
        if self.compare(_additional(reader), _additional(writer), path):
            yield _difference(f"ADDITIONAL_PROPERTIES_{'REMOVED' if closed else 'NARROWED'}", path)

    def _covers(self, node: Node, names: list[str]) -> dict[str, Node]:
        """Return the schemas of properties that have none of their own, by name: of the first pattern that matches."""
        found: dict[str, Node] = {}
        left = names
        for pattern, each in node.value.get("patternProperties", {}).items():
            if not left:
                break
            matching = self._matching(pattern, left)
            found |= dict.fromkeys(matching, node.inner(each))
            left = [name for name in left if name not in found]
        rest = _additional(node)
        return {name: found.get(name, rest) for name in names}

    def _matching(self, pattern: str, names: list[str]) -> list[str]:
        """Return the names in which a pattern is found, in linear time: both are somebody else's."""
        compiled = _compiled(pattern)
        cost = compiled.programsize * sum(map(len, names)) + _SEARCH_COST * len(names)
        self._steps.take(1 + cost // _STEP_COST)
        return [name for name in names if compiled.search(_as_utf8(name)) is not None]

    def _patterns(self, reader: Node, writer: Node, path: str) -> Iterator[Difference]:
        ours, theirs = reader.value.get("patternProperties", {}), writer.value.get("patternProperties", {})
        for pattern, each in ours.items():
            # Another pattern of the writer may cover the same names: nothing here compares two patterns.
            covers = [theirs[pattern]] if pattern in theirs else [*theirs.values(), _additional(writer).value]
            if any(self.compare(reader.inner(each), writer.inner(cover), path) for cover in covers):
                yield _difference("PATTERN_PROPERTY_NARROWED", f"{path}/patternProperties/{pattern}")
        for pattern, each in theirs.items():
            if pattern not in ours and self.compare(_additional(reader), writer.inner(each), path):
                yield _difference("PATTERN_PROPERTY_REMOVED", f"{path}/patternProperties/{pattern}")

    # -- Arrays

    def _arrays(self, reader: Node, writer: Node, path: str) -> Iterator[Difference]:
        if reader.value.get("uniqueItems") is True and writer.value.get("uniqueItems") is not True:
            yield _difference("UNIQUE_ITEMS_ADDED", path)
        (ours, our_rest), (theirs, their_rest) = _items(reader.value), _items(writer.value)
        for index in range(max(len(ours), len(theirs))):
            one = ours[index] if index < len(ours) else our_rest
            other = theirs[index] if index < len(theirs) else their_rest
            yield from self.compare(reader.inner(one), writer.inner(other), f"{path}/items/{index}")
        yield from self.compare(reader.inner(our_rest), writer.inner(their_rest), f"{path}/items")


_COMBINED = frozenset({"oneOf", "anyOf", "allOf"})
_NOT_COVERED = "NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"


def _difference(kind: str, path: str) -> Difference:
    text = f"The READER schema does not take every value of the WRITER schema at path '{path}'"
    return Difference(kind, text)


def _types_of(schema: dict[str, Any]) -> set[str]:
    types = set(as_list(schema.get("type", list(TYPES))))
    return types | {"integer"} if "number" in types else types


def _types(reader: dict[str, Any], writer: dict[str, Any], path: str) -> Iterator[Difference]:
    if "type" not in reader:
        return
    ours, theirs = _types_of(reader), _types_of(writer)
    if not theirs <= ours:
        yield _difference("TYPE_NARROWED" if theirs & ours else "TYPE_CHANGED", path)


def _enums(reader: dict[str, Any], writer: dict[str, Any], path: str) -> Iterator[Difference]:
    ours, theirs = _values_of(reader), _values_of(writer)
    if ours is not None and (theirs is None or not theirs <= ours):
        yield _difference("ENUM_ARRAY_CHANGED" if theirs is None else "ENUM_ARRAY_NARROWED", path)


def _values_of(schema: dict[str, Any]) -> set[str] | None:
    if "const" in schema:
        return {compact(schema["const"], sort_keys=True)}
    return {compact(each, sort_keys=True) for each in schema["enum"]} if "enum" in schema else None


def _bounds(reader: dict[str, Any], writer: dict[str, Any], path: str) -> Iterator[Difference]:
    for keyword, (larger_takes_more, name) in _BOUNDS.items():
        ours, theirs = reader.get(keyword), writer.get(keyword)
        if ours is None or ours == theirs:
            continue
        if not _is_number(ours) or not _is_number(theirs):
            yield _difference(f"{name}_ADDED", path)
        elif (ours < theirs) == larger_takes_more:
            yield _difference(f"{name}_{'DECREASED' if larger_takes_more else 'INCREASED'}", path)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _fixed(reader: dict[str, Any], writer: dict[str, Any], path: str) -> Iterator[Difference]:
    for keyword, name in _FIXED.items():
        if keyword in reader and reader[keyword] != writer.get(keyword, _FIXED):
            if keyword == "multipleOf" and _divides(reader[keyword], writer.get(keyword)):
                continue
            yield _difference(f"{name}_{'CHANGED' if keyword in writer else 'ADDED'}", path)


def _divides(divisor: Any, value: Any) -> bool:
    # Exactly: an integer may be larger than any float.
    return _is_number(divisor) and _is_number(value) and divisor > 0 and Fraction(value) % Fraction(divisor) == 0


def _required(reader: dict[str, Any], writer: dict[str, Any], path: str) -> Iterator[Difference]:
    theirs, ours = _names(writer), reader.get("properties", {})
    for name in _names(reader):
        own = ours.get(name)
        if name in theirs or (isinstance(own, dict) and "default" in own):
            continue
        known = name in writer.get("properties", {})
        kind = "REQUIRED_ATTRIBUTE_ADDED" if known else "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"
        yield _difference(kind, f"{path}/required/{name}")


def _names(schema: dict[str, Any]) -> list[str]:
    required: Any = schema.get("required", [])
    return [] if isinstance(required, bool) else required


def _additional(node: Node) -> Node:
    """Return the schema of a property that neither a name nor a pattern covers."""
    return node.inner(node.value.get("additionalProperties", True))


def _as_utf8(name: str) -> str:
    """Return a name as RE2 can read it: half a character of UTF-16, which JSON can name, is one that is unknown."""
    return name.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _compiled(pattern: str) -> Any:
    """Return a pattern of RE2. Raises RegistryError for one that only Python knows."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)  # pyright: ignore[reportUnknownMemberType]
    except (re2.error, UnicodeEncodeError):  # pyright: ignore[reportUnknownMemberType]
        raise RegistryError(42201, f"The pattern {pattern!r} cannot be compared: RE2 does not know it") from None


def _items(schema: dict[str, Any]) -> tuple[list[Any], Any]:
    """Return the schemas of the first items, and that of the others."""
    items = schema.get("items", True)
    if isinstance(items, list):
        return as_list(items), schema.get("additionalItems", True)
    return schema.get("prefixItems", []), items
