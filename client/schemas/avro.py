"""Keys and values in Avro, by the schemas of a registry: `Producer(..., value_serializer=Avro(registry, schema))`.

Records are dicts. Bytes are read by their writer's schema and resolved to the own one as Avro's specification says. A
date or time that Python does not have, such as one after the year 9999, is a number, as Avro writes it. It
needs fastavro: `pip install 'odradek[avro]'`. A schema is walked first for what it lets data do to its reader: how deep
values can be, and whether they can be of no bytes.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# JSON has no types.

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from typing import Any, cast

from ... import how_to_install
from ..errors import InvalidOption
from .registered import RegisteredSerializer
from .schema_registry import Schema, SchemaRegistry

# Each level of types takes some frames of the reader's stack.
MAX_LEVELS = 100


class BadAvro(ValueError):
    """Bytes that are not one value of their schema."""


class Avro(RegisteredSerializer):
    """Serializer and deserializer, for keys or values."""

    TYPE = "AVRO"
    # Whether a time that Python does not have is read as a number. A column would take that for another time.
    _FAR_TIMES = True

    def parsed(self, registry: SchemaRegistry, schema: Schema) -> Any:
        """Return a schema as fastavro wants it, with what it refers to. Raises InvalidOption."""
        return self.once(("parsed", schema), lambda: parsed_schema(registry, schema))

    def resolved(self, registry: SchemaRegistry, schema: Schema) -> Any:
        """Return the own schema as fastavro wants it. Raises InvalidOption."""
        return self.parsed(registry, schema)

    def _name_of(self, schema: Schema) -> str:
        if schema.references:
            # What it refers to is not known here, and its own name needs none of that.
            given = _json(schema.text)
            return _full_name(given) if isinstance(given, dict) else ""
        parsed = _parsed(schema.text, {})
        return parsed.get("name", "") if isinstance(parsed, dict) else ""

    def _encoder(self, registry: SchemaRegistry, schema: Schema) -> Callable[[Any], bytes]:
        fastavro, parsed = _fastavro(), self.parsed(registry, schema)
        validate, write = fastavro.validation.validate, fastavro.schemaless_writer

        def encode(content: Any) -> bytes:
            # The writer itself puts a number of 40 bits into an int, which no other reader takes.
            validate(content, parsed, raise_errors=True)
            stream = io.BytesIO()
            write(stream, parsed, content, strict_allow_default=True)
            return stream.getvalue()

        return encode

    def _decoder(self, registry: SchemaRegistry, writer: Schema, reader: Schema | None) -> Callable[[memoryview], Any]:
        parsed = self.parsed(registry, writer)
        resolved = None if reader is None else self.resolved(registry, reader)
        read = reader_of(parsed)

        def value_of(stream: io.BytesIO) -> Any:
            try:
                return read(stream, parsed, resolved)
            except (OverflowError, ValueError):
                # A date or a time that Python does not have, or bad bytes.
                if not self._FAR_TIMES:
                    raise
                patient = self.once(("patient", writer), lambda: parsed_schema(registry, writer, with_far_times))
                stream.seek(0)
                return read(stream, patient, resolved)

        def decode(content: memoryview) -> Any:
            stream = io.BytesIO(content)
            try:
                value = value_of(stream)
            except Exception as error:  # its exceptions of bad bytes have no class in common
                raise BadAvro(f"{type(error).__name__} {error!s:.300}") from error
            if stream.tell() != len(content):
                raise BadAvro("bytes are left after the value")
            return value

        return decode


def reader_of(parsed: Any) -> Callable[[io.BytesIO, Any, Any], Any]:
    """Return what reads one value by a parsed schema. Raises InvalidOption for a schema that no data bounds.

    fastavro's compiled reader recurses on the stack of C, and a value of a few kilobytes ends the process where a type
    holds itself. Its Python reader, which fastavro uses where nothing is compiled, raises RecursionError instead.
    """
    shape = shape_of(parsed)
    if shape is Shape.EMPTY_ITEMS:
        raise InvalidOption("an array of items that take no bytes is not read: one record would fill the memory")
    if shape is Shape.DEEP:
        return import_module("fastavro._read_py").schemaless_reader
    return _fastavro().schemaless_reader


def parsed_schema(registry: SchemaRegistry, schema: Schema, change: Callable[[Any], Any] = lambda each: each) -> Any:
    """Return what fastavro makes of a schema and of those that it refers to, after a change. Raises InvalidOption."""
    return _parsed(schema.text, registry.referenced(schema), change)


def _parsed(text: str, references: dict[str, str], change: Callable[[Any], Any] = lambda each: each) -> Any:
    fastavro = _fastavro()
    named: dict[str, Any] = {}
    try:
        for each in references.values():
            fastavro.parse_schema(change(mapped(_json(each), _without_null_namespace)), named_schemas=named)
        parsed = fastavro.parse_schema(change(mapped(_json(text), _without_null_namespace)), named_schemas=named)
        return _with_names(parsed, named)
    except InvalidOption:
        raise
    except Exception as error:  # its exceptions of schemas have no class in common
        raise InvalidOption(f"the schema of Avro is not valid: {error!r:.500}") from error


def _with_names(parsed: Any, named: dict[str, Any]) -> Any:
    """Return a parsed schema that brings all types with a name along: fastavro gives these to records alone."""
    if isinstance(parsed, list):
        return [_with_names(each, named) for each in parsed]
    kind = named.get(parsed) if isinstance(parsed, str) else parsed
    if not isinstance(kind, dict) or not named:
        return parsed
    return kind | {"__fastavro_parsed": True, "__named_schemas": named}


def mapped(kind: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return a schema, in JSON, after a change of each of its types that is an object, and of each field."""
    if isinstance(kind, list):
        return [mapped(each, change) for each in kind]
    if not isinstance(kind, dict):
        return kind
    inner = ("type", "items", "values", "fields")
    return change({name: mapped(each, change) if name in inner else each for name, each in kind.items()})


def _without_null_namespace(kind: dict[str, Any]) -> dict[str, Any]:
    """Return a type without a namespace that is null: for Java's library, and the registry, there is none."""
    return {name: each for name, each in kind.items() if not (name == "namespace" and each is None)}


def _json(text: str) -> Any:
    try:
        # A bare name such as `string` is a schema, too.
        return json.loads(text) if text.lstrip()[:1] in ('"', "{", "[") else text.strip()
    except (ValueError, RecursionError) as error:
        raise InvalidOption(f"the schema of Avro is no JSON: {error}") from error


def _full_name(schema: dict[str, Any]) -> str:
    name, namespace = schema.get("name", ""), schema.get("namespace", "")
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _fastavro() -> Any:
    try:
        import_module("fastavro.validation")
        return import_module("fastavro")
    except ImportError as error:
        raise InvalidOption(f"Avro needs fastavro: {how_to_install('avro')}") from error


# -- Dates and times that Python does not have

_TIMES = ("long-timestamp-millis", "long-timestamp-micros", "long-local-timestamp-millis",
          "long-local-timestamp-micros", "int-date", "int-time-millis", "long-time-micros")  # fmt: skip
_FAR = "odradek-far-"


def with_far_times(kind: Any) -> Any:
    """Return a schema, in JSON, whose times beyond Python's are read as the numbers that they are written as."""
    readers: dict[str, Any] = import_module("fastavro.read").LOGICAL_READERS
    for each in _TIMES:
        primitive, _, name = each.partition("-")
        # Under a name of our own: what other code of this process reads stays as it is.
        readers.setdefault(f"{primitive}-{_FAR}{name}", _or_number(readers[each]))
    return mapped(kind, _patient)


def _patient(kind: dict[str, Any]) -> dict[str, Any]:
    found = f"{kind.get('type')}-{kind.get('logicalType')}"
    return kind | {"logicalType": f"{_FAR}{kind['logicalType']}"} if found in _TIMES else kind


def _or_number(read: Callable[..., Any]) -> Callable[..., Any]:
    def read_or_keep(number: int, *schemas: Any) -> Any:
        try:
            return read(number, *schemas)
        except (OverflowError, ValueError):
            return number

    return read_or_keep


# -- What a schema lets data do


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
    for each in cast("list[Any]", parsed) if isinstance(parsed, list) else [parsed]:
        if isinstance(each, dict):
            named.update(cast("dict[str, Any]", each).get("__named_schemas", {}))
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
