"""Keywords of JSON Schema that are compared one by one: why a reader's does not follow from the writer's."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, TypeGuard, cast

from .difference import Difference
from .json_schema import TYPES, as_list
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
# What says something about values, and has no rule but to stay the same: keyword -> (the difference, keywords that
# belong to it).
FIXED: dict[str, tuple[str, tuple[str, ...]]] = {
    "pattern": ("PATTERN", ()),
    "not": ("NOT_TYPE", ()),
    "if": ("CONDITION", ("then", "else")),
    "contains": ("CONTAINS", ("minContains", "maxContains")),
    "propertyNames": ("PROPERTY_NAMES", ()),
    "dependencies": ("DEPENDENCY", ()),
    "dependentRequired": ("DEPENDENCY_ARRAY", ()),
    "dependentSchemas": ("DEPENDENCY_SCHEMA", ()),
    "$dynamicRef": ("REFERENCE", ()),
    "$recursiveRef": ("REFERENCE", ()),
    "format": ("FORMAT", ()),
}
# The types that a keyword is about. Of values of others it says nothing.
_ABOUT: dict[str, frozenset[str]] = {
    name: frozenset(types)
    for types, names in {
        ("string",): ("maxLength", "minLength", "pattern"),
        ("integer", "number"): ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf"),
        ("array",): ("maxItems", "minItems", "contains"),
        ("object",): (
            *("maxProperties", "minProperties", "propertyNames"),
            *("dependencies", "dependentRequired", "dependentSchemas"),
        ),
    }.items()
    for name in names
}
_NAMES: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    list: "array",
}


def difference(kind: str, path: str) -> Difference:
    text = f"The READER schema does not take every value of the WRITER schema at path '{path}'"
    return Difference(kind, text)


def types_of(schema: dict[str, Any]) -> set[str]:
    """Return the types that values of a schema may have, by its `type`, or by the values that it lists."""
    if "type" not in schema and (values := _listed(schema)) is not None:
        types = {_name_of(_plain(each)) for each in values}
    else:
        types = set(as_list(schema.get("type", list(TYPES))))
    return types | {"integer"} if "number" in types else types


def is_about(keyword: str, writer: dict[str, Any]) -> bool:
    """Tell whether a keyword of the reader says something about values of the writer."""
    return not types_of(writer).isdisjoint(_ABOUT.get(keyword, TYPES))


def _name_of(value: object) -> str:
    return _NAMES.get(type(value), "object")


def types(reader: dict[str, Any], writer: dict[str, Any], path: str) -> Iterator[Difference]:
    if "type" not in reader:
        return
    ours, theirs = types_of(reader), types_of(writer)
    if not theirs <= ours:
        yield difference("TYPE_NARROWED" if theirs & ours else "TYPE_CHANGED", path)


def values_of(schema: dict[str, Any]) -> set[str] | None:
    """Return the texts of the values that a schema lists, None if it lists none. 1.0 is 1, as it is for validators."""
    listed = _listed(schema)
    return None if listed is None else {compact(_plain(each), sort_keys=True) for each in listed}


def enums(reader: dict[str, Any], writer: dict[str, Any], path: str) -> Iterator[Difference]:
    ours, theirs = values_of(reader), values_of(writer)
    if ours is not None and (theirs is None or not theirs <= ours):
        yield difference("ENUM_ARRAY_CHANGED" if theirs is None else "ENUM_ARRAY_NARROWED", path)


def _listed(schema: dict[str, Any]) -> list[Any] | None:
    if "const" in schema and "enum" in schema:
        wanted = compact(_plain(schema["const"]), sort_keys=True)
        return [each for each in schema["enum"] if compact(_plain(each), sort_keys=True) == wanted]
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _plain(value: Any) -> Any:
    """Return a value with whole numbers for floats that are whole."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(each) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in cast("dict[str, Any]", value).items()}
    return value


def bounds(reader: dict[str, Any], writer: dict[str, Any], path: str) -> Iterator[Difference]:
    for keyword, (larger_takes_more, name) in _BOUNDS.items():
        ours, theirs = reader.get(keyword), writer.get(keyword)
        if ours is None or (type(ours) is bool and ours is theirs) or not is_about(keyword, writer):
            continue
        if not is_number(ours) or not is_number(theirs):
            yield difference(f"{name}_ADDED", path)
        elif ours != theirs and (ours < theirs) == larger_takes_more:
            yield difference(f"{name}_{'DECREASED' if larger_takes_more else 'INCREASED'}", path)


def is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def multiples(reader: dict[str, Any], writer: dict[str, Any], path: str) -> Iterator[Difference]:
    ours, theirs = reader.get("multipleOf"), writer.get("multipleOf")
    if ours is not None and is_about("multipleOf", writer) and not _divides(ours, theirs):
        yield difference(f"MULTIPLE_OF_{'ADDED' if theirs is None else 'CHANGED'}", path)


def _divides(divisor: Any, value: Any) -> bool:
    # Exactly: an integer may be larger than any float.
    return is_number(divisor) and is_number(value) and divisor > 0 and Fraction(value) % Fraction(divisor) == 0


def required(reader: dict[str, Any], writer: dict[str, Any], path: str) -> Iterator[Difference]:
    theirs, ours = required_names(writer), reader.get("properties", {})
    for name in required_names(reader):
        own = ours.get(name)
        if name in theirs or (isinstance(own, dict) and "default" in own):
            continue
        known = name in writer.get("properties", {})
        kind = "REQUIRED_ATTRIBUTE_ADDED" if known else "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"
        yield difference(kind, f"{path}/required/{name}")


def required_names(schema: dict[str, Any]) -> list[str]:
    # In draft 3, and in many schemas by mistake, it is a boolean, which means nothing.
    names: Any = schema.get("required", [])
    return [] if isinstance(names, bool) else names
