"""Keys and values of a schema registry as plain JSON, whatever the type of their schema: for people and shells."""

from __future__ import annotations

from typing import Any

from .avro import Avro
from .json_schema import JsonSchema
from .plain_json import to_json
from .registered import BadFrame, RegisteredSerializer, writer_of
from .schema_registry import SchemaRegistry


class PlainReader:
    """A deserializer by the schema of each record. With a `type`, such as AVRO, records of another one are bad."""

    def __init__(self, registry: SchemaRegistry | str, type: str | None = None, *, validate: bool = True) -> None:
        """Without `validate`, JSON is not checked by its schema, whose patterns can take any time."""
        self._registry = SchemaRegistry(registry) if isinstance(registry, str) else registry
        self._type, self._validate = type, validate
        self._readers: dict[str, RegisteredSerializer] = {}

    def decode_at_once(self, content: bytes, topic: str, field: str) -> Any:
        """Return a key or value as plain JSON. Raises as `read`."""
        return self.read(content)[1]

    def read(self, content: bytes) -> tuple[str, Any]:
        """Return the type of the schema, and the value as plain JSON.

        Raises SchemaMissing if the registry must be asked first, BadFrame or another error for bytes that are bad,
        InvalidOption where the library of the type is missing.
        """
        found = writer_of(self._registry.at_once, content).type
        if found not in ("AVRO", "JSON") or self._type not in (None, found):
            raise BadFrame(f"the schema is of type {found}" + (f", not {self._type}" if self._type else ""))
        return found, to_json(self._reader(found).decode_at_once(content, "", "value"))

    def _reader(self, type: str) -> RegisteredSerializer:
        if type not in self._readers:
            avro = type == "AVRO"
            self._readers[type] = Avro(self._registry) if avro else JsonSchema(self._registry, validate=self._validate)
        return self._readers[type]
