"""JSON Schemas: read, checked as far as the registry relies on them, and found behind a `$ref`.

A `$ref` leads into the schema itself or into one of its references; nothing is ever fetched from elsewhere. Drafts 4 to
2020-12 are read by the same rules. A schema that leads back to itself without a step into the value is none: to follow
it would never end.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote

from ..errors import InvalidSchema
from .json_text import MAX_DEPTH, compact, re2_of, read

TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_MAPS_OF_SCHEMAS = ("properties", "patternProperties", "definitions", "$defs", "dependentSchemas")
_LISTS_OF_SCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMAS = (
    "additionalProperties", "additionalItems", "contains", "not", "if", "then", "else", "propertyNames", "items",
    "unevaluatedProperties", "unevaluatedItems",
)  # fmt: skip
# What applies to the value itself, and not to a part of it.
_IN_PLACE, _LISTS_IN_PLACE = ("not", "if", "then", "else"), ("allOf", "anyOf", "oneOf")
# What says something about values. Anything else may stand beside a `$ref` and changes nothing.
_ASSERTIONS = frozenset(
    (
        *_SCHEMAS, *_LISTS_OF_SCHEMAS, "properties", "patternProperties", "dependentSchemas", "dependentRequired",
        "dependencies", "type", "enum", "const", "required", "pattern", "format", "multipleOf", "uniqueItems",
        "minContains", "maxContains", "maxLength", "minLength", "maximum", "minimum", "exclusiveMaximum",
        "exclusiveMinimum", "maxItems", "minItems", "maxProperties", "minProperties", "$dynamicRef", "$recursiveRef",
    )
)  # fmt: skip
# Keyword -> the first draft that has it.
_SINCE = {"const": 6, "contains": 6, "propertyNames": 6, "if": 7, "then": 7, "else": 7, "prefixItems": 2020} | (
    dict.fromkeys(("dependentRequired", "dependentSchemas", "minContains", "maxContains"), 2019)
    | dict.fromkeys(("unevaluatedProperties", "unevaluatedItems"), 2019)
)
_DRAFT = re.compile(r"draft[-/](?:0?)(\d{1,4})(?!\d)")
_LAST_WITH_DEPENDENCIES, _LATEST = 7, 2020


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """A schema with the documents that its `$ref` may name, by name. "" is the schema itself."""

    documents: Mapping[str, Any]

    @property
    def root(self) -> Node:
        return Node(self.documents[""], "", self)


@dataclass(frozen=True, slots=True)
class Node:
    """A schema inside of a document: a `#` in it is about that document."""

    value: Any
    document: str
    schema: JsonSchema

    def inner(self, value: Any) -> Node:
        """Return a part of this node."""
        return Node(value, self.document, self.schema)

    def resolved(self) -> Node:
        """Return what stands behind the `$ref`, if nothing beside it says more. Raises InvalidSchema."""
        node = self
        for _ in range(MAX_DEPTH):
            found = node.target()
            if found is None or _ASSERTIONS & node.value.keys():
                return node
            node = found
        raise InvalidSchema(f"{mapping(self.value)['$ref']:.200} refers to itself")

    def target(self) -> Node | None:
        """Return what the `$ref` names, None if there is none. Raises InvalidSchema if it leads nowhere."""
        reference = mapping(self.value).get("$ref")
        return self._target(reference) if isinstance(reference, str) else None

    def musts(self) -> list[Node]:
        """Return the schemas that each value of this one matches, too: those of `allOf`, and the target of `$ref`."""
        target = self.target()
        return [*map(self.inner, self.value.get("allOf", ())), *([] if target is None else [target])]

    def said(self) -> Node:
        """Return this node without the keywords that say nothing in its draft."""
        silent = self.silent()
        return self.inner({name: each for name, each in self.value.items() if name not in silent}) if silent else self

    def silent(self) -> set[str]:
        """Return the keywords of this node that its draft does not know, or that stand beside a `$ref` there."""
        draft = self._draft()
        if draft <= _LAST_WITH_DEPENDENCIES and "$ref" in self.value:
            return set(_ASSERTIONS & self.value.keys())
        unknown = {name for name, since in _SINCE.items() if since > draft and name in self.value}
        return unknown | ({"dependencies"} & self.value.keys() if draft > _LAST_WITH_DEPENDENCIES else set())

    def _draft(self) -> int:
        """Return the draft that the document names; the latest one where it names none that is known."""
        named = mapping(self.schema.documents[self.document]).get("$schema")
        found = _DRAFT.search(named) if isinstance(named, str) else None
        return int(found[1]) if found else _LATEST

    def in_place(self) -> Iterator[Node]:
        """Yield the schemas that apply to the same value as this one."""
        schema = mapping(self.value)
        target = self.target()
        if target is not None:
            yield target
        parts = [schema[name] for name in _IN_PLACE if name in schema]
        parts += [each for name in _LISTS_IN_PLACE for each in schema.get(name, ())]
        for name in ("dependentSchemas", "dependencies"):
            parts += mapping(schema.get(name)).values()
        yield from map(self.inner, parts)

    def _target(self, reference: str) -> Node:
        name, _, fragment = reference.partition("#")
        if not name or mapping(self.schema.documents[self.document]).get("$id") == name:
            name = self.document
        if name not in self.schema.documents:
            raise InvalidSchema(f"{reference:.200} is neither in the schema nor in its references")
        value = self.schema.documents[name]
        for part in fragment.split("/")[1:]:
            value = _child(value, unquote(part).replace("~1", "/").replace("~0", "~"), reference)
        if fragment and not fragment.startswith("/"):
            raise InvalidSchema(f"{reference:.200}: only fragments that begin with / are supported")
        return Node(value, name, self.schema)


def _child(value: Any, name: str, reference: str) -> Any:
    if isinstance(value, dict) and name in value:
        return cast("dict[str, Any]", value)[name]
    if isinstance(value, list) and name.isdecimal() and int(name) < len(cast("list[Any]", value)):
        return cast("list[Any]", value)[int(name)]
    raise InvalidSchema(f"{reference:.200} leads nowhere")


def parse(text: str, references: Mapping[str, str]) -> JsonSchema:
    """Return a schema whose `$ref`s may name `references`. Raises InvalidSchema."""
    documents = {"": read(text), **{name: read(each) for name, each in references.items()}}
    schema = JsonSchema(documents)
    _check_all(schema.root)
    return schema


def canonical(schema: JsonSchema, *, normalize: bool = False) -> str:
    """Return the text that the registry stores. With `normalize`, keys are in order."""
    return compact(schema.documents[""], sort_keys=normalize)


def _check_all(root: Node) -> None:
    """Raise InvalidSchema for what makes the schema none: in it, below it, and wherever a `$ref` leads."""
    left, seen = [root], dict[int, Node]()
    while left:
        node = left.pop()
        if id(node.value) not in seen:
            seen[id(node.value)] = node
            left += _checked(node)
    _check_ends(seen.values())


def _check_ends(nodes: Iterable[Node]) -> None:
    """Raise InvalidSchema where a schema leads back to itself in place."""
    ended, around = set[int](), set[int]()
    for first in nodes:
        path = [(id(first.value), first.in_place())] if id(first.value) not in ended else []
        around.update(at for at, _ in path)
        while path:
            at, parts = path[-1]
            part = next((each for each in parts if mapping(each.value) and id(each.value) not in ended), None)
            if part is None:
                ended.add(at)
                around.discard(at)
                path.pop()
            elif id(part.value) in around:
                raise InvalidSchema(f"a schema refers to itself: {compact(part.value)[:200]}")
            else:
                around.add(id(part.value))
                path.append((id(part.value), part.in_place()))


def _checked(node: Node) -> list[Node]:
    """Check one schema without those in it. Return those, and what its `$ref` names. Raises InvalidSchema."""
    value = node.value
    if isinstance(value, bool):
        return []
    if not isinstance(value, dict):
        raise InvalidSchema(f"a JSON schema is an object, true or false, not {compact(value)[:200]}")
    schema = cast("dict[str, Any]", value)
    _check_types(schema)
    _check_keywords(schema)
    target = node.target()
    return [*map(node.inner, _schemas_in(schema)), *([] if target is None else [target])]


def _check_types(schema: Mapping[str, Any]) -> None:
    for each in as_list(schema.get("type", [])):
        if not isinstance(each, str) or each not in TYPES:
            raise InvalidSchema(f"{compact(each)} is no type of JSON")


def _check_keywords(schema: Mapping[str, Any]) -> None:
    required = schema.get("required", [])
    # In draft 3, and in many schemas by mistake, it is a boolean, which means nothing.
    if not isinstance(required, bool) and not _is_list_of(required, str):
        raise InvalidSchema(f"required is a list of names, not {compact(required)[:200]}")
    if not isinstance(schema.get("enum", []), list):
        raise InvalidSchema("enum is a list")
    for pattern in [schema.get("pattern", ""), *mapping(schema.get("patternProperties"))]:
        _check_pattern(pattern)


# Longer ones than this are lists of words: an enum. Compiled, a pattern takes some hundred times its size.
MAX_PATTERN_CHARACTERS = 10_000


def _check_pattern(pattern: Any) -> None:
    """Raise InvalidSchema for what neither RE2 nor Python takes. The one lacks lookaheads, the other `\\p{L}`."""
    if not isinstance(pattern, str):
        raise InvalidSchema(f"{compact(pattern)[:200]} is no regular expression, but another value")
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise InvalidSchema(f"a regular expression has more than {MAX_PATTERN_CHARACTERS} characters")
    try:
        if re2_of(pattern) is not None:
            return
    except ModuleNotFoundError:
        pass  # Python decides alone
    try:
        with warnings.catch_warnings():
            # It warns of what may mean something else one day.
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidSchema(f"{compact(pattern)[:200]} is no regular expression: {error}") from None


def _schemas_in(schema: Mapping[str, Any]) -> Iterator[Any]:
    for name in _MAPS_OF_SCHEMAS:
        if name in schema and not isinstance(schema[name], dict):
            raise InvalidSchema(f"{name} is an object, not {compact(schema[name])[:200]}")
        yield from mapping(schema.get(name)).values()
    for name in _LISTS_OF_SCHEMAS:
        if name in schema and not isinstance(schema[name], list):
            raise InvalidSchema(f"{name} is a list, not {compact(schema[name])[:200]}")
        yield from schema.get(name, [])
    for name in _SCHEMAS:
        given = schema.get(name, True)
        yield from given if isinstance(given, list) and name == "items" else [given]


def as_list(value: Any) -> list[Any]:
    """Return a list as it is, and another value as the only one of a list."""
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def mapping(value: Any) -> dict[str, Any]:
    """Return an object as it is, and nothing for another value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _is_list_of(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(each, kind) for each in cast("list[Any]", value))
