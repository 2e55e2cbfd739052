"""What serializers by a schema registry have in common: the frame of a record, and which schema is behind it.

A key or value is a byte 0, the id of its writer's schema in 4 bytes, and the content (Confluent's wire format). A
serializer has a schema of its own, which it registers or looks up, or takes the subject's latest version. A
deserializer reads by the writer's schema, and gives what the own schema says, if it has one.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, TypeVar

from ..errors import InvalidOption, SchemaRegistryRefused
from .schema_registry import MAX_KEPT, Reference, Schema, SchemaRegistry

T = TypeVar("T")

_FRAME = Struct(">bi")
_MAGIC = 0
# (topic, "key" or "value", full name of the record; empty if it is not known yet) -> subject
SubjectName = Callable[[str, str, str], str]


# -- Names of subjects, under which the registry keeps the versions of a schema. The three are those of Confluent.


def topic_name(topic: str, field: str, record: str) -> str:
    """Return TOPIC-value or TOPIC-key: all records of a topic have one schema."""
    return f"{topic}-{field}"


def record_name(topic: str, field: str, record: str) -> str:
    """Return the name of the record: it has one schema in all topics."""
    return _known(record)


def topic_record_name(topic: str, field: str, record: str) -> str:
    """Return TOPIC-RECORD: a topic has records of several schemas."""
    return f"{topic}-{_known(record)}"


def _known(record: str) -> str:
    if not record:
        raise InvalidOption("the subject is named by the record, so the serializer needs a schema that has a name")
    return record


# -- Frames


class BadFrame(ValueError):
    """Bytes that no serializer of a schema registry has written, or whose schema is not there."""


def schema_id_of(content: bytes) -> int:
    """Return the id in front of a key or value. Raises BadFrame."""
    if len(content) < _FRAME.size or content[0] != _MAGIC:
        raise BadFrame("no schema is named: the first byte is not 0, or an id does not follow it")
    return _FRAME.unpack_from(content)[1]


def writer_of(registry: SchemaRegistry, content: bytes) -> Schema:
    """Return the schema that a key or value was written by. Raises BadFrame, and what the registry does."""
    schema_id = schema_id_of(content)
    try:
        return registry.schema(schema_id)
    except SchemaRegistryRefused as error:
        if error.status != 404:
            raise
        raise BadFrame(f"the schema registry has no schema {schema_id}") from None


def frame(schema_id: int) -> bytes:
    """Return what stands in front of a key or value."""
    return _FRAME.pack(_MAGIC, schema_id)


class RegisteredSerializer(ABC):
    """A `key_serializer`, `value_serializer`, `key_deserializer` or `value_deserializer`."""

    # AVRO or JSON, as the registry calls it.
    TYPE: str

    def __init__(
        self,
        registry: SchemaRegistry | str,
        schema: str | Mapping[str, Any] | list[Any] | Schema | None = None,
        *,
        references: tuple[Reference, ...] = (),
        subject: SubjectName = topic_name,
        auto_register: bool = True,
        use_latest: bool = False,
        normalize: bool = False,
    ) -> None:
        """`registry` is a client, or its URL. `schema` is the own schema: what records are written by, and what they
        are read as. Without one, the latest version of the subject is written, and each record read as it was written.
        With `use_latest` the latest version takes the place of the own schema.

        `auto_register` registers the own schema; otherwise the subject must have it. Raises InvalidOption.
        """
        self.registry = SchemaRegistry(registry) if isinstance(registry, str) else registry
        given = self._given(schema, references)
        if use_latest and given is not None:
            raise InvalidOption("use_latest takes the place of a schema: give one of them")
        self._schema = given
        self._subject = subject
        self._auto_register, self._use_latest, self._normalize = auto_register, use_latest, normalize
        self._name = "" if given is None else self._name_of(given)
        # What was made of schemas.
        self._made: dict[tuple[Any, ...], Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_made": {}}

    def _given(self, schema: Any, references: tuple[Reference, ...]) -> Schema | None:
        if schema is None or isinstance(schema, Schema):
            if isinstance(schema, Schema) and schema.type != self.TYPE:
                raise InvalidOption(f"{type(self).__name__} takes a schema of type {self.TYPE}, not {schema.type}")
            return schema
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return Schema(text, self.TYPE, references)

    # -- Bytes, at once. Raise SchemaMissing if the registry must be asked first.

    def encode_at_once(self, content: Any, topic: str, field: str) -> bytes:
        """Return a key or value as bytes."""
        return self._encoded(self.registry.at_once, content, topic, field)

    def decode_at_once(self, content: bytes, topic: str, field: str) -> Any:
        """Return what the bytes stand for. Raises BadFrame, or another error of bytes."""
        return self._decoded(self.registry.at_once, content, topic, field)

    # -- Bytes, waiting. Raise SchemaRegistryUnavailable, SchemaRegistryRefused.

    def encode(self, content: Any, topic: str = "", field: str = "value") -> bytes:
        """Return a key or value as bytes."""
        return self._encoded(self.registry, content, topic, field)

    def decode(self, content: bytes, topic: str = "", field: str = "value") -> Any:
        """Return what the bytes stand for. Raises BadFrame, or another error of bytes."""
        return self._decoded(self.registry, content, topic, field)

    def writer(self, schema_id: int, schema: Schema) -> Callable[[Any], bytes]:
        """Return what writes contents by a schema whose id is known."""
        encode = self._encoder(self.registry, schema)
        return lambda content: frame(schema_id) + encode(content)

    # -- Parts

    def _encoded(self, registry: SchemaRegistry, content: Any, topic: str, field: str) -> bytes:
        schema_id, schema = self._writer(registry, topic, field)
        encode = self.once((schema,), lambda: self._encoder(registry, schema))
        return frame(schema_id) + encode(content)

    def _writer(self, registry: SchemaRegistry, topic: str, field: str) -> tuple[int, Schema]:
        subject = self._subject(topic, field, self._name)
        if self._schema is None:
            latest = registry.latest(subject)
            self._check_type(latest.schema)
            return latest.id, latest.schema
        find = registry.register if self._auto_register else registry.look_up
        return find(subject, self._schema, normalize=self._normalize), self._schema

    def _decoded(self, registry: SchemaRegistry, content: bytes, topic: str, field: str) -> Any:
        writer = writer_of(registry, content)
        self._check_type(writer)
        reader = self._reader(registry, topic, field)
        other = None if reader == writer else reader
        decode = self.once((writer, other), lambda: self._decoder(registry, writer, other))
        return decode(memoryview(content)[_FRAME.size :])

    def _reader(self, registry: SchemaRegistry, topic: str, field: str) -> Schema | None:
        if not self._use_latest:
            return self._schema
        latest = registry.latest(self._subject(topic, field, self._name)).schema
        self._check_type(latest)
        return latest

    def _check_type(self, schema: Schema) -> None:
        if schema.type != self.TYPE:
            raise BadFrame(f"the schema is of type {schema.type}, not {self.TYPE}")

    def once(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        """Return what `make` makes, or made before. Schemas are few: beyond a bound all begin anew."""
        if key not in self._made:
            if len(self._made) >= MAX_KEPT:
                self._made.clear()
            self._made[key] = make()
        return self._made[key]

    @abstractmethod
    def _name_of(self, schema: Schema) -> str:
        """Return the full name of a schema's record, nothing if it has none. Raises InvalidOption for a bad schema."""

    @abstractmethod
    def _encoder(self, registry: SchemaRegistry, schema: Schema) -> Callable[[Any], bytes]:
        """Return what writes contents by a schema."""

    @abstractmethod
    def _decoder(self, registry: SchemaRegistry, writer: Schema, reader: Schema | None) -> Callable[[memoryview], Any]:
        """Return what reads contents by the writer's schema, as the reader's if there is one."""
