"""Checks of the records that users pass to a producer, before they are queued."""

from __future__ import annotations

from collections.abc import Mapping

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.records.batch import LOG_APPEND_TIME, BatchHeader, check_crc, check_shape, read_header
from ...protocol.records.errors import InvalidRecord
from ..core.arguments import whole_number
from ..core.metadata import TopicInfo
from ..core.serialization import checked_bytes
from ..errors import UnknownTopic
from ..record import HeadersLike

_LAST_TIMESTAMP_MS = 0x7FFFFFFFFFFFFFFF


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
