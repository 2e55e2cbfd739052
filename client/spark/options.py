"""The options of the source: one table of what is known, and what each value must be.

Names are those of Spark's own Kafka connector, in upper or lower case. The source rejects what that connector rejects,
the connector's options that this source does not support, and unknown options: a mistyped `startingOfsets` would
otherwise read everything.

    kafka.*             settings of the connection; those in KAFKA_SETTINGS are honoured
    subscribe | subscribePattern | assign      exactly one
    startingOffsets, endingOffsets             earliest (not for the end), latest (not for the start) or JSON
    failOnDataLoss, includeHeaders, minPartitions, maxRecordsPerPartition, kafkaConsumer.pollTimeoutMs
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import IntEnum
from typing import NamedTuple

from ..errors import InvalidOption
from ..network.addresses import Address, bootstrap_addresses
from ..record import EARLIEST, LATEST, TopicPartition
from .errors import OptionError
from .offsets import OffsetLimit, parse_assign, parse_limit

STRATEGIES = ("subscribe", "subscribePattern", "assign")
SUPPORTED = (
    *STRATEGIES, "startingOffsets", "endingOffsets", "failOnDataLoss", "includeHeaders", "minPartitions",
    "maxRecordsPerPartition", "kafkaConsumer.pollTimeoutMs",
)  # fmt: skip

_NOT_YET = "is not supported yet"
_BY_TIME = f"{_NOT_YET}: give offsets with startingOffsets and endingOffsets"
_STREAMING = "belongs to streaming reads, which are not supported yet"
_NO_GROUP = "has no use here: a read joins no consumer group and commits no offsets"
# Options that users of Spark's connector know and that this source does not take, with the reason.
UNSUPPORTED = {
    "startingTimestamp": _BY_TIME,
    "endingTimestamp": _BY_TIME,
    "startingOffsetsByTimestamp": _BY_TIME,
    "endingOffsetsByTimestamp": _BY_TIME,
    "startingOffsetsByTimestampStrategy": _BY_TIME,
    "maxOffsetsPerTrigger": _STREAMING,
    "minOffsetsPerTrigger": _STREAMING,
    "maxTriggerDelay": _STREAMING,
    "fetchOffset.numRetries": f"{_NOT_YET}: kafka.default.api.timeout.ms bounds the search for offsets",
    "fetchOffset.retryIntervalMs": f"{_NOT_YET}: kafka.retry.backoff.ms is the pause between attempts",
    "groupIdPrefix": _NO_GROUP,
    "path": "load() takes no path: name topics with subscribe, subscribePattern or assign",
    "topic": "belongs to writing, which is not supported yet",
    "kafka.group.id": _NO_GROUP,
    "kafka.auto.offset.reset": "is not supported: set startingOffsets to say where to start",
    "kafka.enable.auto.commit": "is not supported: a read commits no offsets",
    "kafka.interceptor.classes": "is not supported: there is no Java consumer that could load them",
    "kafka.key.deserializer": "is not supported: keys are read as bytes; decode them with DataFrame operations",
    "kafka.value.deserializer": "is not supported: values are read as bytes; decode them with DataFrame operations",
    "kafka.key.serializer": "is not supported: keys are bytes",
    "kafka.value.serializer": "is not supported: values are bytes",
    "kafka.client.rack": f"{_NOT_YET}: partitions are read from their leaders",
}


class Setting(NamedTuple):
    """The default and the range of a `kafka.` option that is a whole number."""

    default: int
    minimum: int
    maximum: int


_DAY_MS = 24 * 3600 * 1000
_INT32 = 2**31 - 1
# Kafka's names, and Kafka's defaults but where a comment says otherwise.
KAFKA_SETTINGS = {
    "fetch.min.bytes": Setting(1, 0, _INT32),
    "fetch.max.wait.ms": Setting(500, 0, _DAY_MS),
    "fetch.max.bytes": Setting(50 * 1024 * 1024, 1, _INT32),
    # Kafka: 1 MiB. A task reads one partition alone, and fewer round trips are faster.
    "max.partition.fetch.bytes": Setting(4 * 1024 * 1024, 1, _INT32),
    # Kafka: 500 records a poll. Here: the most rows of an Arrow batch; fewer cost time on both sides.
    "max.poll.records": Setting(32_768, 1, 1_000_000),
    "request.timeout.ms": Setting(30_000, 1, _DAY_MS),
    "socket.connection.setup.timeout.ms": Setting(10_000, 1, _DAY_MS),
    "default.api.timeout.ms": Setting(60_000, 1, _DAY_MS),
    "retry.backoff.ms": Setting(100, 0, _DAY_MS),
    "retry.backoff.max.ms": Setting(1_000, 0, _DAY_MS),
    # -1: the operating system's own size, which it adapts. (Kafka: 64 KiB and 128 KiB.)
    "receive.buffer.bytes": Setting(-1, -1, _INT32),
    "send.buffer.bytes": Setting(-1, -1, _INT32),
}
_KAFKA_TEXTS = ("bootstrap.servers", "client.id", "isolation.level", "check.crcs", "security.protocol")


class IsolationLevel(IntEnum):
    """Whether records of open and aborted transactions are read; the number is Kafka's on the wire."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """The options of connections to brokers."""

    bootstrap: tuple[Address, ...]
    client_id: str
    isolation_level: IsolationLevel
    check_crcs: bool
    # The values of KAFKA_SETTINGS.
    numbers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics or partitions to read. Invariant: exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All options of a batch read."""

    client: ClientOptions
    subscription: Subscription
    starting: OffsetLimit
    ending: OffsetLimit
    fail_on_data_loss: bool
    include_headers: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    # How long a task waits for a record before the end of its range.
    poll_timeout_ms: int


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Return the options, checked, from their texts by name. Raises OptionError, which names the option."""
    texts = {name.lower(): text for name, text in given.items()}
    _reject_unknown(texts)
    return SourceOptions(
        client=_client(texts),
        subscription=_subscription(texts),
        starting=_starting(texts),
        ending=_ending(texts),
        fail_on_data_loss=_flag(texts, "failOnDataLoss", True),
        include_headers=_flag(texts, "includeHeaders", False),
        min_partitions=_number(texts, "minPartitions", None, 1, _INT32),
        max_records_per_partition=_number(texts, "maxRecordsPerPartition", None, 1, 2**63 - 1),
        poll_timeout_ms=_number(texts, "kafkaConsumer.pollTimeoutMs", 120_000, 1, _DAY_MS) or 0,
    )


def _reject_unknown(texts: Mapping[str, str]) -> None:
    known = {
        name.lower(): name for name in (*SUPPORTED, *(f"kafka.{name}" for name in (*KAFKA_SETTINGS, *_KAFKA_TEXTS)))
    }
    unsupported = {name.lower(): name for name in UNSUPPORTED}
    for name in texts:
        if name in unsupported:
            raise OptionError(unsupported[name], UNSUPPORTED[unsupported[name]])
        if name not in known:
            close = get_close_matches(name, known, 1)
            hint = f"did you mean '{known[close[0]]}'?" if close else f"known are {', '.join(sorted(known.values()))}"
            raise OptionError(name, f"is not an option of this source; {hint}")


def _client(texts: Mapping[str, str]) -> ClientOptions:
    servers = texts.get("kafka.bootstrap.servers")
    if servers is None:
        raise OptionError("kafka.bootstrap.servers", "must be given: HOST:PORT[,HOST:PORT...]")
    try:
        bootstrap = bootstrap_addresses(servers)
    except InvalidOption as error:
        raise OptionError("kafka.bootstrap.servers", error.message) from None
    protocol = texts.get("kafka.security.protocol", "PLAINTEXT")
    if protocol.upper() != "PLAINTEXT":
        raise OptionError("kafka.security.protocol", f"{protocol} {_NOT_YET}, only PLAINTEXT is")
    level = texts.get("kafka.isolation.level", "read_uncommitted").upper()
    if level not in IsolationLevel.__members__:
        raise OptionError("kafka.isolation.level", f"'{level.lower()}' is neither read_uncommitted nor read_committed")
    return ClientOptions(
        tuple(bootstrap),
        texts.get("kafka.client.id", "odradek-spark"),
        IsolationLevel[level],
        _flag(texts, "kafka.check.crcs", True),
        {name: _setting(texts, name, setting) for name, setting in KAFKA_SETTINGS.items()},
    )


def _setting(texts: Mapping[str, str], name: str, setting: Setting) -> int:
    number = _number(texts, f"kafka.{name}", setting.default, setting.minimum, setting.maximum)
    assert number is not None
    return number


def _subscription(texts: Mapping[str, str]) -> Subscription:
    given = [name for name in STRATEGIES if name.lower() in texts]
    if len(given) != 1:
        names = ", ".join(f"'{name}'" for name in STRATEGIES)
        if not given:
            raise OptionError("subscribe", f"one of the options {names} must be specified")
        raise OptionError(given[-1], f"only one of the options {names} can be specified")
    name = given[0]
    text = texts[name.lower()].strip()
    if name == "assign":
        return Subscription(partitions=parse_assign(name, text))
    if name == "subscribe":
        topics = tuple(sorted({topic.strip() for topic in text.split(",") if topic.strip()}))
        if not topics:
            raise OptionError(name, f"'{text}' names no topic")
        return Subscription(topics=topics)
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(name, f"'{text}' is not a regular expression: {error}") from None
    if not text:
        raise OptionError(name, "the pattern is empty")
    return Subscription(pattern=text)


def _starting(texts: Mapping[str, str]) -> OffsetLimit:
    limit = parse_limit("startingOffsets", texts.get("startingoffsets", "earliest"))
    if limit.everywhere == LATEST:
        raise OptionError("startingOffsets", "starting offset can't be latest for batch queries on Kafka")
    for (topic, partition), offset in limit.specific.items():
        if offset == LATEST:
            raise OptionError("startingOffsets", f"{topic}-{partition} can't be latest for batch queries on Kafka")
    return limit


def _ending(texts: Mapping[str, str]) -> OffsetLimit:
    limit = parse_limit("endingOffsets", texts.get("endingoffsets", "latest"))
    if limit.everywhere == EARLIEST:
        raise OptionError("endingOffsets", "ending offset can't be earliest for batch queries on Kafka")
    for (topic, partition), offset in limit.specific.items():
        if offset == EARLIEST:
            raise OptionError("endingOffsets", f"{topic}-{partition} can't be earliest for batch queries on Kafka")
    return limit


def _flag(texts: Mapping[str, str], name: str, default: bool) -> bool:
    text = texts.get(name.lower(), str(default)).strip().lower()
    if text not in ("true", "false"):
        raise OptionError(name, f"'{text}' is neither true nor false")
    return text == "true"


def _number(texts: Mapping[str, str], name: str, default: int | None, minimum: int, maximum: int) -> int | None:
    text = texts.get(name.lower())
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError:
        number = minimum - 1
    if not minimum <= number <= maximum:
        raise OptionError(name, f"'{text}' is not a whole number from {minimum} to {maximum}")
    return number
