"""The way of a record from the user's call to the buffer: interceptors, serializers, checks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...kernel import door
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.records.batch import LOG_APPEND_TIME, BatchHeader, check_crc, check_shape, read_header
from ...protocol.records.errors import InvalidRecord
from ...protocol.records.record import Record, new_record, size_upper_bound
from ..core.clock import wall_clock_ms
from ..core.metadata import TopicInfo
from ..core.options import whole_number
from ..core.serialization import SchemaMissing, Serialize, Serialized, checked_bytes
from ..errors import RecordTooLarge, SchemaRegistryUnavailable, UnknownTopic
from ..record import HeadersLike
from .listeners import Interceptors, ProducerRecord

_LAST_TIMESTAMP_MS = 0x7FFFFFFFFFFFFFFF


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
    serialize_key: Serialize | None
    serialize_value: Serialize | None
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
        """Return a record with its bytes. Raises KafkaError, such as RecordTooLarge; SchemaMissing; TypeError."""
        raw_key, raw_value = key, value
        if key.__class__ is Serialized:
            raw_key = bytes(key)
        elif self.serialize_key is not None:
            raw_key = self.serialize_key(key, topic)
        elif key.__class__ is not bytes:
            raw_key = checked_bytes(key, "key")
        if value.__class__ is Serialized:
            raw_value = bytes(value)
        elif self.serialize_value is not None:
            raw_value = self.serialize_value(value, topic)
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

    def prepare_intercepted(self, *given: Any) -> Prepared:
        """Do as `prepare` with what the interceptors make of the record, and tell them of an error."""
        record = self.interceptors.on_send(ProducerRecord(*given))
        try:
            return self.prepare(*record)
        except SchemaMissing as missing:
            missing.record = record
            raise
        except KafkaError as error:
            self.interceptors.on_acknowledgement(None, error)
            raise

    async def prepare_in_time(self, missing: SchemaMissing, until_s: float, *given: Any) -> Prepared:
        """Prepare a record whose schema was missing, when it is there. Raises KafkaError."""
        record = given if missing.record is None else missing.record
        try:
            while True:
                await _load(missing, until_s)
                try:
                    return self.prepare(*record)
                except SchemaMissing as another:
                    missing = another
        except KafkaError as error:
            self.interceptors.on_acknowledgement(None, error)
            raise


async def _load(missing: SchemaMissing, until_s: float) -> None:
    limit = asyncio.timeout_at(until_s)
    try:
        async with limit:
            await missing.load()
    except TimeoutError:
        if not limit.expired():
            raise
        raise SchemaRegistryUnavailable("no schema registry has answered within max_block_ms") from None


def too_large(size_bytes: int, max_request_size: int) -> RecordTooLarge:
    """Return the error of a record that no request can hold."""
    return RecordTooLarge(f"a record of up to {size_bytes} bytes is larger than max_request_size ({max_request_size})")


def checked_headers(headers: HeadersLike) -> tuple[tuple[str, bytes | None], ...]:
    """Return headers as a tuple. Raises TypeError, UnicodeEncodeError."""
    checked: list[tuple[str, bytes | None]] = []
    for name, content in headers.items() if isinstance(headers, Mapping) else headers:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the name of a header must be str, not {type(name).__name__}")
        name.encode("utf-8", "surrogateescape")  # a name without a form in UTF-8 must fail here, not when it is sent
        checked.append((name, checked_bytes(content, f"header {name!r}")))
    return tuple(checked)


def checked_timestamp(given: int) -> int:
    """Return a timestamp as an int. Raises TypeError for a float, KafkaError, INVALID_TIMESTAMP."""
    timestamp_ms = whole_number(given, "timestamp_ms")
    if not 0 <= timestamp_ms <= _LAST_TIMESTAMP_MS:
        text = f"a timestamp is milliseconds since 1970, 0 or more, not {timestamp_ms}"
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, text)
    return timestamp_ms


def checked_partition(info: TopicInfo, given: int) -> int:
    """Return a partition number as an int. Raises TypeError, UnknownTopic if the topic has no such partition."""
    partition = whole_number(given, "partition")
    if not 0 <= partition < len(info.partitions):
        raise UnknownTopic(f"topic {info.name!r} has partitions 0 to {len(info.partitions) - 1}, not {partition}")
    return partition


def checked_batch(batch: bytes) -> BatchHeader:
    """Return the header of a whole record batch. Raises RecordError for one that no broker takes from a client."""
    header = read_header(batch)
    if header.size_bytes != len(batch):
        raise InvalidRecord(f"the batch says that it has {header.size_bytes} bytes, not {len(batch)}")
    check_crc(batch, 0, header)
    check_shape(header._replace(base_offset=0, producer_id=-1))
    if header.attributes & LOG_APPEND_TIME:
        raise InvalidRecord("the batch has the timestamps of a broker's clock")
    return header
