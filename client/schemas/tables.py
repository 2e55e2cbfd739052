"""The deserializer of a schema for tables: by its type, that of Avro or that of JSON Schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import InvalidOption

if TYPE_CHECKING:
    from .schema_registry import Schema, SchemaRegistry
    from .table_avro import TableAvro
    from .table_json import TableJson


def table_of(registry: SchemaRegistry, schema: Schema) -> TableAvro | TableJson:
    """Return what reads records as a schema has them. Raises InvalidOption for Protobuf."""
    if schema.type == "AVRO":
        from .table_avro import TableAvro

        return TableAvro(registry, schema)
    if schema.type == "JSON":
        from .table_json import TableJson

        return TableJson(registry, schema)
    raise InvalidOption(f"a schema of type {schema.type} makes no columns")
