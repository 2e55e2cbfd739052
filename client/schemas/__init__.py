"""Avro and JSON Schema by a schema registry: `from odradek.client.schemas import Avro, JsonSchema`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import lazily

if TYPE_CHECKING:
    from .avro import Avro as Avro
    from .json_schema import JsonSchema as JsonSchema
    from .registered import record_name as record_name
    from .registered import topic_name as topic_name
    from .registered import topic_record_name as topic_record_name
    from .schema_registry import Reference as Reference
    from .schema_registry import Schema as Schema
    from .schema_registry import SchemaRegistry as SchemaRegistry

_MODULES = {
    "avro": "Avro",
    "json_schema": "JsonSchema",
    "registered": "record_name topic_name topic_record_name",
    "schema_registry": "Reference Schema SchemaRegistry",
}
__getattr__, __dir__ = lazily(__name__, _MODULES)
if not TYPE_CHECKING:
    __all__ = __dir__()
