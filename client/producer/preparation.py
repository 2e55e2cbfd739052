"""The way of a record from the user's call to the buffer: interceptors, serializers, checks, and its partition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...kernel import door
from ...protocol.records.record import Record, new_record, size_upper_bound
from ..core.clock import wall_clock_ms
from ..core.serialization import Serialized, checked_bytes
from ..errors import KafkaError, RecordTooLarge
from ..record import HeadersLike
from .listeners import Interceptors, ProducerRecord
from .partitioners import Choice
from .record_checks import checked_headers, checked_timestamp


class Prepared(NamedTuple):
    """A record that is ready for the buffer. `partition` is what the user named, `key` the key before it was bytes."""

    topic: str
    partition: int | None
    key: Any
    record: Record
    size_bytes: int


# Makes a named tuple without its Python-level constructor, in half the time.
_Maker = Callable[[type[Prepared], tuple[object, ...]], Prepared]
_new_prepared: _Maker = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a producer does to each record. None as a serializer takes bytes alone."""

    interceptors: Interceptors
    serialize_key: Callable[[Any], bytes | None] | None
    serialize_value: Callable[[Any], bytes | None] | None
    choose: Choice
    max_request_size: int

    def prepare(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None = None,
        given_headers: HeadersLike = (),
    ) -> Prepared:
        """Return a record with its bytes. Raises SerializationFailed, RecordTooLarge, TypeError, KafkaError."""
        raw_key, raw_value = key, value
        if key.__class__ is Serialized:
            raw_key = bytes(key)
        elif self.serialize_key is not None:
            raw_key = self.serialize_key(key)
        elif key.__class__ is not bytes:
            raw_key = checked_bytes(key, "key")
        if value.__class__ is Serialized:
            raw_value = bytes(value)
        elif self.serialize_value is not None:
            raw_value = self.serialize_value(value)
        elif value.__class__ is not bytes:
            raw_value = checked_bytes(value, "value")
        time_ms = wall_clock_ms() if timestamp_ms is None else checked_timestamp(timestamp_ms)
        if door.compiled is not None and key is raw_key and not given_headers:
            limit = self.max_request_size
            made = door.compiled.prepare(Prepared, Record, topic, partition, key, raw_value, time_ms, limit)
            if made is not None:
                return made
        headers = checked_headers(given_headers) if given_headers else ()
        size = size_upper_bound(raw_key, raw_value, headers)
        if size > self.max_request_size:
            raise too_large(size, self.max_request_size)
        record = new_record(Record, (-1, time_ms, raw_key, raw_value, headers))
        return _new_prepared(Prepared, (topic, partition, key, record, size))

    def prepare_intercepted(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None = None,
        given_headers: HeadersLike = (),
    ) -> Prepared:
        """Do as `prepare` with what the interceptors make of the record, and tell them of an error."""
        given = self.interceptors.on_send(ProducerRecord(topic, value, key, partition, timestamp_ms, given_headers))
        try:
            return self.prepare(*given)
        except KafkaError as error:
            self.interceptors.on_acknowledgement(None, error)
            raise


def too_large(size_bytes: int, max_request_size: int) -> RecordTooLarge:
    """Return the error of a record that no request can hold."""
    return RecordTooLarge(f"a record of up to {size_bytes} bytes is larger than max_request_size ({max_request_size})")
