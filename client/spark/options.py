"""The options of the source: one table of what is known, and what each value must be.

Names are those of Spark's own Kafka connector, in upper or lower case. What that connector rejects is rejected. An
option that has no effect, here or in this kind of read, is accepted with a warning that says why, and so is an unknown
one, as existing jobs carry both; with `strictOptions=true` an unknown one is rejected.

    kafka.*             settings of Kafka's clients (kafka_settings.py)
    subscribe | subscribePattern | assign      exactly one
    startingOffsets, endingOffsets             earliest, latest or JSON
    starting/endingOffsetsByTimestamp          JSON; starting/endingTimestamp: one time for all partitions
    minOffset, maxOffset, minTimestamp, maxTimestamp, partitions, limit        slices (ours)
    path                fetch, direct or auto: from the broker, or from its files (ours)
    maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay, groupIdPrefix, commitOffsets       streams
    value/keyFormat, value/keySchema, value/keyAvroSchema, mode                typed values (ours)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from ..arrow.connection import ClientOptions, IsolationLevel
from ..arrow.fetch import ReadOptions, ReadPath
from ..core.security import SECURITY_CONFIGS, SecurityOptions
from ..record import EARLIEST, LATEST, TopicPartition
from .columns import Format
from .errors import OptionError
from .java_pattern import compile_pattern
from .kafka_settings import (
    DAY_MS,
    INT32_MAX,
    KAFKA_SETTINGS,
    KAFKA_TEXTS,
    NO_EFFECT,
    REJECTED,
    Setting,
    check_without_effect,
    protocol_of,
    reason_for_no_effect,
    security_of,
    servers_of,
)
from .offsets import MAX_OFFSET, OffsetLimit, parse_assign, parse_limit, parse_times
from .option_values import duration_ms, flag, number, time_ms
from .typed_options import formats_of

STRATEGIES = ("subscribe", "subscribePattern", "assign")
# Options of both kinds of reads.
COMMON = (
    *STRATEGIES, "startingOffsets", "startingOffsetsByTimestamp", "startingTimestamp",
    "startingOffsetsByTimestampStrategy", "failOnDataLoss", "includeHeaders", "minPartitions",
    "maxRecordsPerPartition", "kafkaConsumer.pollTimeoutMs", "arrowBatchRows", "strictOptions", "partitions", "path",
    "valueFormat", "valueSchema", "valueAvroSchema", "keyFormat", "keySchema", "keyAvroSchema", "mode",
)  # fmt: skip
BATCH_ONLY = (
    "endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp", "minOffset", "maxOffset", "minTimestamp",
    "maxTimestamp", "limit",
)  # fmt: skip
STREAM_ONLY = (
    "maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "groupIdPrefix",
    "commitOffsets",
)  # fmt: skip
_SEARCH = "kafka.default.api.timeout.ms bounds the search for offsets, and kafka.retry.backoff.ms is its pause"
# Options of Spark's connector that change nothing here, with the reason.
WITHOUT_EFFECT = {
    "fetchOffset.numRetries": _SEARCH,
    "fetchOffset.retryIntervalMs": _SEARCH,
    "topic": "it belongs to writing",
    "includeTimestamp": "the timestamp is a column",
}
# Options that users of Spark's connector know and that this source does not take, with the reason.
UNSUPPORTED = {
    **{f"kafka.{name}": why for name, why in REJECTED.items()},
}
_ENDINGS = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics or partitions to read. Invariant: exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    # Python's pattern, which is searched in the names of topics.
    pattern: re.Pattern[str] | None = None
    partitions: tuple[TopicPartition, ...] = ()
    # The partition indexes that are read of each topic; None: all.
    indexes: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """What a batch read leaves out at its ends. Times are in milliseconds, both maxima are exclusive."""

    min_offset: int | None = None
    max_offset: int | None = None
    min_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None
    # The most rows of the whole read.
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What only a stream has."""

    max_offsets: int | None = None
    # As the brokers store them: compressed, if they are.
    max_bytes: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 15 * 60 * 1000
    group_id_prefix: str = "spark-odradek"
    commit_offsets: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(ReadOptions):
    """All options of a read."""

    subscription: Subscription
    starting: OffsetLimit
    ending: OffsetLimit
    include_headers: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    slice: Slice = Slice()
    stream: StreamOptions = StreamOptions()
    # The formats of the columns `value` and `key`, where they are not bytes.
    formats: Mapping[str, Format] = field(default_factory=dict[str, Format])
    # What the user should know, a sentence each.
    warnings: tuple[str, ...] = field(default=(), compare=False)


def parse_options(given: Mapping[str, str], *, streaming: bool = False) -> SourceOptions:
    """Return the options, checked, from their texts by name. Raises OptionError, which names the option."""
    texts = {name.lower(): text for name, text in given.items()}
    warnings = _check_names(texts, streaming=streaming)
    return SourceOptions(
        client=_client(texts),
        subscription=_subscription(texts),
        starting=_starting(texts, streaming=streaming),
        ending=_ending(texts),
        fail_on_data_loss=flag(texts, "failOnDataLoss", True),
        include_headers=flag(texts, "includeHeaders", False),
        min_partitions=number(texts, "minPartitions", None, 1, INT32_MAX),
        max_records_per_partition=number(texts, "maxRecordsPerPartition", None, 1, MAX_OFFSET),
        poll_timeout_ms=number(texts, "kafkaConsumer.pollTimeoutMs", 120_000, 1, DAY_MS) or 0,
        arrow_batch_rows=number(texts, "arrowBatchRows", 32_768, 1, 1_000_000) or 0,
        slice=_slice(texts),
        stream=_stream(texts, streaming=streaming),
        formats=formats_of(texts),
        path=_path(texts),
        warnings=tuple(warnings),
    )


# -- Names


def _check_names(texts: Mapping[str, str], *, streaming: bool) -> list[str]:
    """Return what is to be said of the names. Raises OptionError for those that are rejected."""
    unsupported = {name.lower(): name for name in UNSUPPORTED}
    strict = flag(texts, "strictOptions", False)
    check_without_effect(texts)
    warnings: list[str] = []
    for name in texts:
        if name in unsupported:
            raise OptionError(unsupported[name], UNSUPPORTED[unsupported[name]])
        if streaming and name in map(str.lower, _ENDINGS):
            raise OptionError(_written(name, _ENDINGS), "ending offset not valid in streaming queries")
        reason = _reason_without_effect(name, protocol_of(texts), streaming=streaming)
        if reason is not None:
            warnings.append(f"option '{name}' has no effect: {reason}")
        elif name not in _KNOWN:
            if strict:
                raise OptionError(name, f"is not an option of this source; {_nearest(name)}")
            warnings.append(f"option '{name}' is unknown and has no effect; {_nearest(name)}")
    return warnings


def _reason_without_effect(name: str, protocol: str, *, streaming: bool) -> str | None:
    ours = {each.lower(): why for each, why in WITHOUT_EFFECT.items()}
    if name in ours:
        return ours[name]
    other = BATCH_ONLY if streaming else STREAM_ONLY
    if name in map(str.lower, other):
        return f"it belongs to {'batch' if streaming else 'streaming'} reads"
    if name.startswith("kafka."):
        return reason_for_no_effect(name.removeprefix("kafka."), protocol)
    return None


def _nearest(name: str) -> str:
    close = get_close_matches(name, _KNOWN, 1)
    return f"did you mean '{_KNOWN[close[0]]}'?" if close else "docs/spark.md lists what is known"


def _written(name: str, names: tuple[str, ...]) -> str:
    return next(each for each in names if each.lower() == name)


# Lower case -> as documented.
_KNOWN = {
    name.lower(): name
    for name in (
        *COMMON,
        *BATCH_ONLY,
        *STREAM_ONLY,
        *(f"kafka.{name}" for name in (*KAFKA_SETTINGS, *KAFKA_TEXTS, *NO_EFFECT, *SECURITY_CONFIGS)),
    )
}


# -- Values


def parse_client(given: Mapping[str, str]) -> ClientOptions:
    """Return the options of connections alone, from texts by name. Raises OptionError."""
    return _client({name.lower(): text for name, text in given.items()})


def _client(texts: Mapping[str, str]) -> ClientOptions:
    level = texts.get("kafka.isolation.level", "read_uncommitted").upper()
    if level not in IsolationLevel.__members__:
        raise OptionError("kafka.isolation.level", f"'{level.lower()}' is neither read_uncommitted nor read_committed")
    return ClientOptions(
        servers_of(texts),
        texts.get("kafka.client.id", "odradek-spark"),
        IsolationLevel[level],
        flag(texts, "kafka.check.crcs", True),
        {name: _setting(texts, name, setting) for name, setting in KAFKA_SETTINGS.items()},
        texts.get("kafka.group.id"),
        SecurityOptions(**security_of(texts)),
    )


def _setting(texts: Mapping[str, str], name: str, setting: Setting) -> int:
    found = number(texts, f"kafka.{name}", setting.default, setting.minimum, setting.maximum)
    assert found is not None
    return found


def _subscription(texts: Mapping[str, str]) -> Subscription:
    given = [name for name in STRATEGIES if name.lower() in texts]
    if len(given) != 1:
        names = ", ".join(f"'{name}'" for name in STRATEGIES)
        if not given:
            raise OptionError("subscribe", f"one of the options {names} must be specified")
        raise OptionError(given[-1], f"only one of the options {names} can be specified")
    name = given[0]
    text = texts[name.lower()].strip()
    indexes = _indexes(texts)
    if name == "assign":
        named = parse_assign(name, text)
        return Subscription(partitions=tuple(each for each in named if indexes is None or each.partition in indexes))
    if name == "subscribePattern":
        return Subscription(pattern=compile_pattern(name, text), indexes=indexes)
    topics = tuple(sorted({topic.strip() for topic in text.split(",") if topic.strip()}))
    if not topics:
        raise OptionError(name, f"'{text}' names no topic")
    return Subscription(topics=topics, indexes=indexes)


def _indexes(texts: Mapping[str, str]) -> frozenset[int] | None:
    text = texts.get("partitions")
    if text is None:
        return None
    found = [each.strip() for each in text.split(",")]
    if not all(each.isdecimal() for each in found):
        raise OptionError("partitions", f"'{text}' is no list of partitions, as 0,2")
    return frozenset(map(int, found))


def _starting(texts: Mapping[str, str], *, streaming: bool) -> OffsetLimit:
    strategy = texts.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise OptionError("startingOffsetsByTimestampStrategy", f"'{strategy}' is neither error nor latest")
    by_time = _by_time(texts, "starting", otherwise=LATEST if strategy == "latest" else None)
    if by_time is not None:
        return by_time
    limit = parse_limit("startingOffsets", texts.get("startingoffsets", "latest" if streaming else "earliest"))
    if streaming:
        return limit
    if limit.everywhere == LATEST:
        raise OptionError("startingOffsets", "starting offset can't be latest for batch queries on Kafka")
    for (topic, partition), offset in limit.specific.items():
        if offset == LATEST:
            raise OptionError("startingOffsets", f"{topic}-{partition} can't be latest for batch queries on Kafka")
    return limit


def _ending(texts: Mapping[str, str]) -> OffsetLimit:
    by_time = _by_time(texts, "ending", otherwise=LATEST)
    if by_time is not None:
        return by_time
    limit = parse_limit("endingOffsets", texts.get("endingoffsets", "latest"))
    if limit.everywhere == EARLIEST:
        raise OptionError("endingOffsets", "ending offset can't be earliest for batch queries on Kafka")
    for (topic, partition), offset in limit.specific.items():
        if offset == EARLIEST:
            raise OptionError("endingOffsets", f"{topic}-{partition} can't be earliest for batch queries on Kafka")
    return limit


def _by_time(texts: Mapping[str, str], end: str, *, otherwise: int | None) -> OffsetLimit | None:
    """Return the limit that the options by time give; one time for all takes precedence over times by partition."""
    everywhere = number(texts, f"{end}Timestamp", None, 0, MAX_OFFSET)
    if everywhere is not None:
        return OffsetLimit(everywhere, {}, is_time=True, without_record=otherwise)
    option = f"{end}OffsetsByTimestamp"
    text = texts.get(option.lower())
    if text is None:
        return None
    return OffsetLimit(None, parse_times(option, text), is_time=True, without_record=otherwise)


def _slice(texts: Mapping[str, str]) -> Slice:
    return Slice(
        number(texts, "minOffset", None, 0, MAX_OFFSET),
        number(texts, "maxOffset", None, 0, MAX_OFFSET),
        time_ms(texts, "minTimestamp"),
        time_ms(texts, "maxTimestamp"),
        number(texts, "limit", None, 1, MAX_OFFSET),
    )


def _stream(texts: Mapping[str, str], *, streaming: bool) -> StreamOptions:
    least = number(texts, "minOffsetsPerTrigger", None, 1, MAX_OFFSET)
    most = number(texts, "maxOffsetsPerTrigger", None, 1, MAX_OFFSET)
    if streaming and least is not None and most is not None and least > most:
        raise OptionError("minOffsetsPerTrigger", f"{least} is more than the {most} of maxOffsetsPerTrigger")
    return StreamOptions(
        most,
        number(texts, "maxBytesPerTrigger", None, 1, MAX_OFFSET),
        least,
        duration_ms(texts, "maxTriggerDelay", 15 * 60 * 1000),
        texts.get("groupidprefix", "spark-odradek"),
        flag(texts, "commitOffsets", True),
    )


def _path(texts: Mapping[str, str]) -> ReadPath:
    text = texts.get("path", "fetch").strip().lower()
    if text not in (each.value for each in ReadPath):
        why = f"'{text}' is none of direct, fetch and auto; topics are named with subscribe, subscribePattern or assign"
        raise OptionError("path", why)
    return ReadPath(text)
