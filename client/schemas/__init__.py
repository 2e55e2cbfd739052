"""Avro and JSON Schema by a schema registry: `from odradek.client.schemas import Avro, JsonSchema`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import lazily

if TYPE_CHECKING:
    from .avro import Avro
    from .json_schema import JsonSchema
    from .registered import record_name, topic_name, topic_record_name
    from .schema_registry import Reference, Schema, SchemaRegistry

__all__ = [
    "Avro",
    "JsonSchema",
    "Reference",
    "Schema",
    "SchemaRegistry",
    "record_name",
    "topic_name",
    "topic_record_name",
]

_MODULES = {
    "avro": "Avro",
    "json_schema": "JsonSchema",
    "registered": "record_name topic_name topic_record_name",
    "schema_registry": "Reference Schema SchemaRegistry",
}
__getattr__, __dir__ = lazily(__name__, _MODULES)
