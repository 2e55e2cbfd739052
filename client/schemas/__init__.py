"""Avro and JSON Schema by a schema registry: `from odradek.client.schemas import Avro, JsonSchema`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

_HOMES = {
    "Avro": ".avro",
    "JsonSchema": ".json_schema",
    "Reference": ".schema_registry",
    "Schema": ".schema_registry",
    "SchemaRegistry": ".schema_registry",
    "record_name": ".registered",
    "topic_name": ".registered",
    "topic_record_name": ".registered",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name], __package__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
