"""Keys and values in Avro, by the schemas of a registry: `Producer(..., value_serializer=Avro(registry, schema))`.

Records are dicts. Bytes are read by their writer's schema and resolved to the own one as Avro's specification says. It
needs fastavro: `pip install 'odradek[avro]'`.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import io
import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..errors import InvalidOption
from .avro_shape import Shape, shape_of
from .registered import RegisteredSerializer
from .schema_registry import Schema, SchemaRegistry


class BadAvro(ValueError):
    """Bytes that are not one value of their schema."""


class Avro(RegisteredSerializer):
    """Serializer and deserializer, for keys or values."""

    TYPE = "AVRO"

    def parsed(self, registry: SchemaRegistry, schema: Schema) -> Any:
        """Return a schema as fastavro wants it, with what it refers to. Raises InvalidOption."""
        return self._once(("parsed", schema), lambda: parsed_schema(registry, schema))

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

        def decode(content: memoryview) -> Any:
            stream = io.BytesIO(content)
            try:
                value = read(stream, parsed, resolved)
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
            fastavro.parse_schema(change(_json(each)), named_schemas=named)
        return fastavro.parse_schema(change(_json(text)), named_schemas=named)
    except InvalidOption:
        raise
    except Exception as error:  # its exceptions of schemas have no class in common
        raise InvalidOption(f"the schema of Avro is not valid: {error!r:.500}") from error


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
        raise InvalidOption("Avro needs fastavro: pip install 'odradek[avro]'") from error
