"""The options of the source and the sink: what each must be, and what goes together.

    kafka.*             settings of Kafka's clients
    subscribe | subscribePattern | assign      exactly one
    startingOffsets, endingOffsets             earliest, latest or JSON
    starting/endingOffsetsByTimestamp          JSON; starting/endingTimestamp: one time for all partitions
    minOffset, maxOffset, minTimestamp, maxTimestamp, partitions, limit        slices (ours)
    path                fetch, direct or auto: from the broker, or from its files (ours)
    maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay, groupIdPrefix, commitOffsets       streams
    value/keyFormat, value/keySchema, value/keyAvroSchema, mode                typed values (ours)
    schemaRegistry, schemaRegistryUser/Password/Ca, value/keySubject           their schemas in a registry (ours)
    topic, timestampColumn, transactional      the sink

The table of options has their values and defaults, and `option_texts.py` reads them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..arrow.connection import ClientOptions, ReadOptions, ReadPath, client_options
from ..core.option_table import MAX_IDEMPOTENT_IN_FLIGHT, OPTIONS, SPARK_OPTIONS
from ..core.options import in_words_of_kafka
from ..core.security import SecurityArguments, SecurityOptions
from ..errors import InvalidOption
from ..record import EARLIEST, LATEST, TopicPartition
from .columns import Format, OptionError, RegisteredWriter, RegistryOptions, parse_registry, writers_of
from .option_texts import (
    NAMES,
    REGISTERED,
    OffsetLimit,
    check_names,
    compile_pattern,
    format_of,
    parse_assign,
    parse_limit,
    parse_times,
    security_of,
    servers_of,
    values_of,
)

_STRATEGIES = ("subscribe", "subscribePattern", "assign")
_SEARCH = "kafka.default.api.timeout.ms bounds the search for offsets, and kafka.retry.backoff.ms is its pause"
# Options of Spark's connector that change nothing here, with the reason.
_WITHOUT_EFFECT = {
    "fetchoffset.numretries": _SEARCH,
    "fetchoffset.retryintervalms": _SEARCH,
    "topic": "it belongs to writing",
    "includetimestamp": "the timestamp is a column",
}
_ENDINGS = {each.lower(): each for each in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")}
_IDEMPOTENCE = (
    "kafka.acks=all, kafka.enable.idempotence=true and at most"
    f" {MAX_IDEMPOTENT_IN_FLIGHT} kafka.max.in.flight.requests.per.connection"
)


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
    # The schema registry that has the schemas of formats in Avro.
    registry: RegistryOptions | None = field(default=None, compare=False)
    # What the user should know, a sentence each.
    warnings: tuple[str, ...] = field(default=(), compare=False)


def parse_options(given: Mapping[str, str], *, streaming: bool = False) -> SourceOptions:
    """Return the options, checked, from their texts by name. Raises OptionError, which names the option."""
    texts = {name.lower(): text for name, text in given.items()}
    takers = ("source", "stream" if streaming else "batch")
    warnings = check_names(texts, takers, "source", partial(_reason_without_effect, streaming=streaming))
    values = values_of(texts, "source", "batch", "stream")
    return SourceOptions(
        client=_client(texts, values),
        subscription=_subscription(values),
        starting=_starting(values, streaming=streaming),
        ending=_ending(values),
        fail_on_data_loss=values["failOnDataLoss"],
        include_headers=values["includeHeaders"],
        min_partitions=values["minPartitions"],
        max_records_per_partition=values["maxRecordsPerPartition"],
        poll_timeout_ms=values["kafkaConsumer.pollTimeoutMs"],
        arrow_batch_rows=values["arrowBatchRows"],
        slice=Slice(*(values[each] for each in ("minOffset", "maxOffset", "minTimestamp", "maxTimestamp", "limit"))),
        stream=_stream(values, streaming=streaming),
        formats=_formats(values, has_mode="mode" in texts),
        registry=parse_registry(values),
        path=ReadPath(values["path"]),
        warnings=tuple(warnings),
    )


def parse_client(given: Mapping[str, str]) -> ClientOptions:
    """Return the options of connections alone, from texts by name. Raises OptionError."""
    texts = {name.lower(): text for name, text in given.items()}
    return _client(texts, values_of(texts, "source"))


def _reason_without_effect(name: str, *, streaming: bool) -> str | None:
    if streaming and name in _ENDINGS:
        raise OptionError(_ENDINGS[name], "ending offset not valid in streaming queries")
    other = "batch" if streaming else "stream"
    if any(name == each.lower() and row.is_of(other) for each, row in SPARK_OPTIONS.items()):
        return f"it belongs to {'batch' if streaming else 'streaming'} reads"
    return _WITHOUT_EFFECT.get(name)


def _client(texts: Mapping[str, str], values: Mapping[str, Any]) -> ClientOptions:
    given = {name.removeprefix("kafka."): value for name, value in values.items() if name.startswith("kafka.")}
    return client_options(servers_of(texts), SecurityOptions(**security_of(texts)), given)


def _subscription(values: Mapping[str, Any]) -> Subscription:
    given = [name for name in _STRATEGIES if values[name] is not None]
    if len(given) != 1:
        names = ", ".join(f"'{name}'" for name in _STRATEGIES)
        if not given:
            raise OptionError("subscribe", f"one of the options {names} must be specified")
        raise OptionError(given[-1], f"only one of the options {names} can be specified")
    name = given[0]
    text = values[name].strip()
    indexes = _indexes(values["partitions"])
    if name == "assign":
        named = parse_assign(name, text)
        return Subscription(partitions=tuple(each for each in named if indexes is None or each.partition in indexes))
    if name == "subscribePattern":
        return Subscription(pattern=compile_pattern(name, text), indexes=indexes)
    topics = tuple(sorted({topic.strip() for topic in text.split(",") if topic.strip()}))
    if not topics:
        raise OptionError(name, f"'{text}' names no topic")
    return Subscription(topics=topics, indexes=indexes)


def _indexes(text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    found = [each.strip() for each in text.split(",")]
    if not all(each.isdecimal() for each in found):
        raise OptionError("partitions", f"'{text}' is no list of partitions, as 0,2")
    return frozenset(map(int, found))


def _starting(values: Mapping[str, Any], *, streaming: bool) -> OffsetLimit:
    is_lenient = values["startingOffsetsByTimestampStrategy"] == "latest"
    by_time = _by_time(values, "starting", otherwise=LATEST if is_lenient else None)
    if by_time is not None:
        return by_time
    text = values["startingOffsets"]
    limit = parse_limit("startingOffsets", ("latest" if streaming else "earliest") if text is None else text)
    return limit if streaming else _checked(limit, LATEST, "starting", "latest")


def _ending(values: Mapping[str, Any]) -> OffsetLimit:
    by_time = _by_time(values, "ending", otherwise=LATEST)
    if by_time is not None:
        return by_time
    return _checked(parse_limit("endingOffsets", values["endingOffsets"]), EARLIEST, "ending", "earliest")


def _checked(limit: OffsetLimit, other: int, end: str, name: str) -> OffsetLimit:
    """Return a limit of a batch read, which must not be the other end of the log."""
    if limit.everywhere == other:
        raise OptionError(f"{end}Offsets", f"{end} offset can't be {name} for batch queries on Kafka")
    for (topic, partition), offset in limit.specific.items():
        if offset == other:
            raise OptionError(f"{end}Offsets", f"{topic}-{partition} can't be {name} for batch queries on Kafka")
    return limit


def _by_time(values: Mapping[str, Any], end: str, *, otherwise: int | None) -> OffsetLimit | None:
    """Return the limit that the options by time give; one time for all takes precedence over times by partition."""
    everywhere = values[f"{end}Timestamp"]
    if everywhere is not None:
        return OffsetLimit(everywhere, {}, is_time=True, without_record=otherwise)
    option = f"{end}OffsetsByTimestamp"
    if values[option] is None:
        return None
    return OffsetLimit(None, parse_times(option, values[option]), is_time=True, without_record=otherwise)


def _stream(values: Mapping[str, Any], *, streaming: bool) -> StreamOptions:
    least, most = values["minOffsetsPerTrigger"], values["maxOffsetsPerTrigger"]
    if streaming and least is not None and most is not None and least > most:
        raise OptionError("minOffsetsPerTrigger", f"{least} is more than the {most} of maxOffsetsPerTrigger")
    others = ("maxTriggerDelay", "groupIdPrefix", "commitOffsets")
    return StreamOptions(most, values["maxBytesPerTrigger"], least, *(values[each] for each in others))


def _formats(values: Mapping[str, Any], *, has_mode: bool) -> dict[str, Format]:
    """Return the formats of the columns that have one."""
    found = {column: _format(values, column) for column in ("key", "value")}
    formats = {column: each for column, each in found.items() if each is not None}
    if has_mode and not formats:
        raise OptionError("mode", "needs valueFormat or keyFormat: bytes are never malformed")
    return formats


def _format(values: Mapping[str, Any], column: str) -> Format | None:
    name, schema = format_of(values, column), values[f"{column}Schema"]
    if name is None:
        return None
    by_registry = name in REGISTERED and values["schemaRegistry"] is not None
    if by_registry and values[f"{column}AvroSchema"] is not None:
        raise OptionError(
            f"{column}AvroSchema", "is not for a read with schemaRegistry, which has the writers' schemas"
        )
    if (schema is None) != (name == "string") and not (by_registry and schema is None):
        missing = f"must be given for {name}: fields and types, as 'id BIGINT'"
        raise OptionError(f"{column}Schema", missing if schema is None else "is not for strings")
    return Format(name, values["mode"], schema, values[f"{column}AvroSchema"])


# -- Writes


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """All options of a write."""

    # It takes precedence over the column `topic`. None: the column decides.
    topic: str | None
    # A column that holds the timestamps of records, which the JVM sink cannot set. None: the time of sending.
    timestamp_column: str | None
    # The keyword arguments of the producer, without those of `security`.
    producer: Mapping[str, Any]
    # auto: exactly once where the broker is Odradek; required: fail where it is not; never: at least once.
    transactional: str = "auto"
    # How the columns `key` and `value` become bytes. None: they are bytes or text.
    formats: Mapping[str, str] = field(default_factory=dict[str, str])
    # The schemas of columns in Avro and by JSON Schema, in JSON.
    schemas: Mapping[str, str] = field(default_factory=dict[str, str])
    # The schemas of a registry by which such columns are written.
    registered: Mapping[str, RegisteredWriter] = field(default_factory=dict[str, RegisteredWriter], compare=False)
    # The arguments of TLS and SASL, which every client takes. Secrets are not in the options' text.
    security: SecurityArguments = field(default_factory=SecurityArguments, repr=False)
    # What the user should know, a sentence each.
    warnings: tuple[str, ...] = field(default=(), compare=False)


def parse_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Return the options, checked, from their texts by name. Raises OptionError, which names the option."""
    texts = {name.lower(): text for name, text in given.items()}
    warnings = check_names(texts, ("sink",), "sink", _reject)
    values = values_of(texts, "sink")
    if values["topic"] == "":
        raise OptionError("topic", "is empty")
    formats = {column: found for column in ("key", "value") if (found := format_of(values, column))}
    producer = _producer(texts, values)
    transactional = _transactional(values["transactional"], producer, warnings)
    security = security_of(texts)
    _check_producer(producer, security)
    schemas = {column: values[f"{column}AvroSchema"] or values[f"{column}JsonSchema"] for column in formats}
    return SinkOptions(
        topic=values["topic"],
        timestamp_column=values["timestampColumn"],
        producer=producer,
        transactional=transactional,
        formats=formats,
        schemas=schemas,
        registered=writers_of(formats, schemas, parse_registry(values), values["topic"]),
        security=security,
        warnings=tuple(warnings),
    )


def _reject(name: str) -> None:
    """Raise OptionError for an option that would change what the sink promises."""
    if name == "kafka.transactional.id":
        raise OptionError(name, "is not supported: each task gets its own from the broker")
    if name == "path":
        raise OptionError("path", "save() takes no path: name the topic with the option 'topic'")


def _producer(texts: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the producer."""
    servers_of(texts)
    arguments = {row.name: values[name] for name, row in NAMES.items() if name in values and row.name in OPTIONS}
    if arguments["acks"] != "all":
        arguments["acks"] = int(arguments["acks"])
    if "kafka.enable.idempotence" not in texts and not _may_be_idempotent(arguments):
        arguments["enable_idempotence"] = False  # as Java's producer does where nobody asks for it
    return arguments


def _may_be_idempotent(arguments: Mapping[str, Any]) -> bool:
    in_flight = arguments["max_in_flight_requests_per_connection"]
    return arguments["acks"] in ("all", -1) and in_flight <= MAX_IDEMPOTENT_IN_FLIGHT


def _transactional(wanted: str, producer: Mapping[str, Any], warnings: list[str]) -> str:
    """Return the option `transactional`. Other settings may rule transactions out."""
    if producer["enable_idempotence"]:
        return wanted
    if wanted == "required":
        raise OptionError("transactional", f"'required' needs {_IDEMPOTENCE}")
    if wanted == "auto":
        warnings.append(f"rows are written at least once: transactions need {_IDEMPOTENCE}")
    return "never"


def _check_producer(producer: Mapping[str, Any], security: SecurityArguments) -> None:
    """Raise OptionError, on the driver, for what the producer of each task would reject."""
    from ..producer.producer import Producer  # heavy, and reads have none

    try:
        Producer(**producer, **security)
    except InvalidOption as error:
        # The producer says `linger_ms` where a user of Spark has written `kafka.linger.ms`.
        raise OptionError("kafka.*", in_words_of_kafka(error.message, "kafka.")) from None


def reject_mode(overwrite: bool, *, is_stream: bool) -> None:
    """Raise OptionError for a mode that is not append. Spark itself rejects those that reach no Python sink."""
    if overwrite and is_stream:
        why = "complete is not supported, because it replaces what was written: use outputMode('append')"
        raise OptionError("outputMode", why)
    if overwrite:
        raise OptionError("mode", "overwrite is not supported: records are appended to topics; use mode('append')")
