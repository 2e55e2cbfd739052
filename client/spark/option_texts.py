"""Options of the source and the sink as Spark hands them over: texts by name in lower case.

Names are those of Spark's own Kafka connector, and every setting of Kafka's clients with `kafka.` before it. A setting
is acted on, or it has no effect here and one warning says why, or it is rejected because ignoring it would change what
is read: those that Spark's own connector rejects. An unknown name is a warning, as existing jobs carry some, and an
error with `strictOptions=true`.

Texts that name offsets, partitions and topics:

    {"topic": {"0": 23, "1": -2}}     offsets: -2 is the earliest, -1 the latest
    {"topic": [0, 1]}                 partitions (`assign`)
    flights-.*                        topics (`subscribePattern`)
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib.util import find_spec
from json import loads
from typing import Any, cast

from ... import how_to_install
from ..core.option_table import CODECS, CONFIGS, SPARK_OPTIONS, Option
from ..core.option_values import SWITCH, Address, Number, Values, bootstrap_addresses, read_text
from ..core.security import SECURITY_CONFIGS, SecurityArguments, SecurityOptions, security_arguments
from ..errors import InvalidOption
from ..record import EARLIEST, LATEST, TopicPartition
from .columns import OptionError

# Every option of the table as Spark writes it.
NAMES: Mapping[str, Option] = SPARK_OPTIONS | {f"kafka.{name}": row for name, row in CONFIGS.items()}

# Settings that are rejected, with the reason. Spark's own connector rejects them too.
REJECTED = {
    "auto.offset.reset": "is not supported: set startingOffsets to say where to start",
    "enable.auto.commit": "is not supported: offsets are committed when a batch is complete",
    "interceptor.classes": "is not supported: there is no Java consumer that could load them",
    "key.deserializer": "is not supported: keys are read as bytes; decode them with DataFrame operations",
    "value.deserializer": "is not supported: values are read as bytes; decode them with DataFrame operations",
    "key.serializer": "is not supported: keys are bytes",
    "value.serializer": "is not supported: values are bytes",
}

_MEMBER = "a read is no member of a consumer group"
_PRODUCER = "it is a setting of producers"
# Why settings of Kafka's clients change nothing here.
_REASONS = {
    _MEMBER: """group.protocol group.remote.assignor partition.assignment.strategy
        internal.throw.on.fetch.stable.offset.unsupported internal.leave.group.on.close""",
    "rows come in Arrow batches: set arrowBatchRows": "max.poll.records",
    "a connection lives as long as its task, and metadata are read for every plan": """metadata.max.age.ms
        metadata.max.idle.ms metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms reconnect.backoff.ms
        reconnect.backoff.max.ms socket.connection.setup.timeout.max.ms bootstrap.controllers
        bootstrap.resolve.timeout.ms metadata.cluster.check.enable""",
    "there is no Java client whose metrics could be reported": """enable.metrics.push metric.reporters
        metrics.num.samples metrics.recording.level metrics.sample.window.ms auto.include.jmx.reporter""",
    "every address of a name is tried": "client.dns.lookup",
    "a read never creates topics": "allow.auto.create.topics",
    "partitions are read from their leaders": "client.rack",
    "internal topics are read only where a query names them": "exclude.internal.topics",
    "it is about classes of the Java client": "config.providers security.providers",
    "it is a setting of share groups": "share.acknowledgement.mode share.acquire.mode",
    _PRODUCER: """compression.gzip.level compression.lz4.level compression.zstd.level
        partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
        partitioner.ignore.keys partitioner.rack.aware buffer.memory.allocation.strategy retries
        transaction.two.phase.commit.enable""",
}
_OF_OTHERS = {
    name: _MEMBER if row.is_of("member") else _PRODUCER
    for name, row in CONFIGS.items()
    if row.is_of("member", "producer") and not (row.is_of("source") or not row.is_checked or name in REJECTED)
}
NO_EFFECT = _OF_OTHERS | {name: why for why, names in _REASONS.items() for name in names.split()}
# Those without a row that are flags, and those that are whole numbers beside all whose names end with `.ms`.
_FLAGS = (
    "enable.metrics.push", "auto.include.jmx.reporter", "exclude.internal.topics", "partitioner.ignore.keys",
    "partitioner.adaptive.partitioning.enable", "partitioner.rack.aware", "transaction.two.phase.commit.enable",
    "metadata.cluster.check.enable",
)  # fmt: skip
_NUMBERS = (
    "metrics.num.samples", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level", "retries",
)  # fmt: skip
_SENTINELS = {"earliest": EARLIEST, "latest": LATEST}

MAX_OFFSET = 2**63 - 1
MAX_PARTITION = 2**31 - 1
_MAX_DIGITS = len(str(MAX_PARTITION))
_OFFSETS_EXAMPLE = '{"topic": {"0": 23, "1": -2}}'
_ASSIGN_EXAMPLE = '{"topic": [0, 1]}'


# The pieces of a Java pattern.
_PIECE = re.compile(r"\\.?|\(\?(?:<[=!]|[^<]|<)|\[\^?\]?|\]|&&|\{,|.", re.DOTALL)
# Letters and digits behind a backslash, and what follows "(?", which mean the same in Java and Python.
_ESCAPES, _ESCAPES_OF_A_CLASS = frozenset("dDwWsSbB123456789tnrfax"), frozenset("dDwWsStnrfax")
_GROUPS = frozenset({"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i", "(?m", "(?s", "(?-"})

# -- Names

# Spark's Declarative Pipelines pass it to every source and sink.
_OF_SPARK = ("queryname",)


def check_names(
    texts: Mapping[str, str], takers: tuple[str, ...], kind: str, reason_of: Callable[[str], str | None]
) -> list[str]:
    """Return what is to be said of the names. Raises OptionError for those that are rejected.

    `reason_of` says why an option of that name changes nothing, None where it does something or is unknown; it raises
    OptionError, too.
    """
    _check_without_effect(texts)
    settings = (f"kafka.{name}" for name in (*NO_EFFECT, *SECURITY_CONFIGS))
    known = {name.lower(): name for name in (*(n for n, row in NAMES.items() if row.is_of(*takers)), *settings)}
    warnings: list[str] = []
    for name in texts:
        setting = name.removeprefix("kafka.") if name.startswith("kafka.") else ""
        if setting in REJECTED:
            raise OptionError(name, REJECTED[setting])
        reason = reason_of(name) or _why_no_effect(setting, takers[0], protocol_of(texts))
        if reason is not None:
            warnings.append(f"option '{name}' has no effect: {reason}")
        elif name not in known and name not in _OF_SPARK:
            close = get_close_matches(name, known, 1)
            hint = f"did you mean '{known[close[0]]}'?" if close else "docs/spark.md lists what is known"
            if value_of(texts, "strictOptions", "source"):
                raise OptionError(name, f"is not an option of this {kind}; {hint}")
            warnings.append(f"option '{name}' is unknown and has no effect; {hint}")
    return warnings


def _why_no_effect(setting: str, taker: str, protocol: str) -> str | None:
    """Return why a setting of Kafka's clients changes nothing here; None where it does, or where it is no setting."""
    if setting.startswith(("ssl.", "sasl.")):
        used = protocol.endswith("SSL") if setting.startswith("ssl.") else protocol.startswith("SASL_")
        if not used:
            return f"connections are {protocol}"
        java = "it is about TLS or SASL of the Java client; Python's own has its part of it"
        return None if setting in SECURITY_CONFIGS else java
    row = CONFIGS.get(setting)
    if row is not None and row.is_of(taker):
        return None
    return NO_EFFECT.get(setting) or ("it acts on reads alone" if row is not None and row.is_of("source") else None)


def _check_without_effect(texts: Mapping[str, str]) -> None:
    """Raise OptionError for a setting without effect whose text Kafka's clients reject."""
    for name in NO_EFFECT:
        text = texts.get(f"kafka.{name}", "").strip()
        values = CONFIGS[name].values if name in CONFIGS else None
        if not text:
            continue
        if (values is SWITCH or name in _FLAGS) and SWITCH.read(text) is None:
            raise OptionError(f"kafka.{name}", f"'{text}' is {SWITCH.rejection()}")
        is_number = isinstance(values, Number) or name in _NUMBERS or name.endswith(".ms")
        if is_number and not re.fullmatch(r"[+-]?\d+", text):
            raise OptionError(f"kafka.{name}", f"'{text}' is not a whole number")
        if name == "max.poll.records" and int(text) < 1:
            raise OptionError(f"kafka.{name}", f"'{text}' is below 1")


# -- Values


def values_of(texts: Mapping[str, str], *takers: str) -> dict[str, Any]:
    """Return the values of the options that `takers` take, by name: the defaults of the first where there is no text.

    Those of security are left to `security_of`. Raises OptionError.
    """
    return {
        name: value_of(texts, name, takers[0])
        for name, row in NAMES.items()
        if row.is_of(*takers) and row.name not in SecurityArguments.__annotations__
    }


def value_of(texts: Mapping[str, str], name: str, taker: str) -> Any:
    """Return the value of an option, its default without a text. Raises OptionError."""
    text, row = texts.get(name.lower()), NAMES[name]
    if text is None:
        return row.default_of(taker)
    if row.values is CODECS:
        return text  # the producer takes the same, and checks it
    # Java's clients have whole numbers alone.
    values: Values = replace(row.values, is_whole=True) if isinstance(row.values, Number) else row.values
    try:
        return read_text(values, text)
    except ValueError:
        raise OptionError(name, f"'{text}' is {values.rejection()}") from None


def servers_of(texts: Mapping[str, str]) -> tuple[Address, ...]:
    """Return the bootstrap servers. Raises OptionError."""
    servers = texts.get("kafka.bootstrap.servers")
    if servers is None:
        raise OptionError("kafka.bootstrap.servers", "must be given: HOST:PORT[,HOST:PORT...]")
    try:
        return tuple(bootstrap_addresses(servers))
    except InvalidOption as error:
        raise OptionError("kafka.bootstrap.servers", error.message) from None


def protocol_of(texts: Mapping[str, str]) -> str:
    """Return the security protocol."""
    return texts.get("kafka.security.protocol", "PLAINTEXT").strip().upper()


def security_of(texts: Mapping[str, str]) -> SecurityArguments:
    """Return the arguments of TLS and SASL. Raises OptionError.

    Settings of TLS or SASL without it are left out, as in Java.
    """
    protocol = protocol_of(texts)
    settings = {name.removeprefix("kafka."): text for name, text in texts.items() if name.startswith("kafka.")}
    given = {name: text for name, text in settings.items() if _why_no_effect(name, "source", protocol) is None}
    try:
        arguments = security_arguments(given | {"security.protocol": protocol})
        SecurityOptions(**arguments)
    except InvalidOption as error:
        raise OptionError("kafka.security.protocol", f"{protocol}: {error.message}") from None
    return arguments


# -- Typed keys and values


# The formats whose schemas a registry has, with the package that reads and writes them.
REGISTERED = {"avro": "fastavro", "json-schema": "jsonschema"}


def format_of(given: Mapping[str, Any], column: str) -> str | None:
    """Return the format of the column `key` or `value`, whose schemas must fit it. Raises OptionError."""
    name, has_registry = given[f"{column}Format"], given["schemaRegistry"] is not None
    if name is None:
        for option in (f"{column}{each}" for each in ("Schema", "AvroSchema", "JsonSchema", "Subject")):
            if given.get(option) is not None:
                raise OptionError(option, f"needs {column}Format")
        return None
    if given[f"{column}Subject"] is not None and not (name in REGISTERED and has_registry):
        raise OptionError(f"{column}Subject", f"needs schemaRegistry, and {column}Format=avro or json-schema")
    for option, owner in ((f"{column}AvroSchema", "avro"), (f"{column}JsonSchema", "json-schema")):
        _check_schema(option, given.get(option), name, owner)
    if name == "avro" and given[f"{column}AvroSchema"] is None and not has_registry:
        why = "must be given: the schema of the writer, in JSON; or schemaRegistry, which has it"
        raise OptionError(f"{column}AvroSchema", why)
    if name == "json-schema" and not has_registry:
        raise OptionError("schemaRegistry", f"must be given for {column}Format=json-schema")
    _check_library(column, name)
    return name


def _check_schema(option: str, schema: str | None, name: str, owner: str) -> None:
    if schema is None:
        return
    if name != owner:
        raise OptionError(option, f"is not for {name}")
    try:
        loads(schema)
    except ValueError as error:
        raise OptionError(option, f"is not JSON: {error}") from None


def _check_library(column: str, name: str) -> None:
    package = REGISTERED.get(name)
    if package is not None and find_spec(package) is None:
        why = f"{name} needs the package {package}: {how_to_install(name)}"
        raise OptionError(f"{column}Format", why)


# -- Offsets and partitions


@dataclass(frozen=True, slots=True)
class OffsetLimit:
    """The start or the end of a read: one sentinel or time for all partitions, or an offset, sentinel or time for each.

    A time in milliseconds means the first record at or after it.
    """

    everywhere: int | None
    specific: dict[TopicPartition, int]
    is_time: bool = False
    # What a time means in a partition that has no record at or after it: a sentinel, or None for an error.
    without_record: int | None = None

    def of(self, partition: TopicPartition) -> int:
        """Return the offset or sentinel of `partition`. Without `everywhere`, `specific` must hold it."""
        return self.specific[partition] if self.everywhere is None else self.everywhere


def parse_limit(option: str, text: str) -> OffsetLimit:
    """Return the limit that `text` means: `earliest`, `latest` or JSON. Raises OptionError."""
    sentinel = _SENTINELS.get(text.strip().lower())
    if sentinel is not None:
        return OffsetLimit(sentinel, {})
    what = "offset (-2 earliest, -1 latest, 0 and up)"
    return OffsetLimit(None, _numbers_by_partition(option, text, EARLIEST, what))


def parse_times(option: str, text: str) -> dict[TopicPartition, int]:
    """Return the milliseconds of each partition in JSON. Raises OptionError."""
    return _numbers_by_partition(option, text, 0, "time in milliseconds")


def _numbers_by_partition(option: str, text: str, least: int, what: str) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic, partitions in _json_object(option, text).items():
        if not isinstance(partitions, dict):
            raise OptionError(option, f"topic '{topic}' needs its partitions and numbers, as {_OFFSETS_EXAMPLE}")
        for index, number in cast("dict[str, object]", partitions).items():
            partition = TopicPartition(topic, _partition(option, topic, index))
            if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= MAX_OFFSET:
                raise OptionError(option, f"{topic}-{index}: {number!r} is no {what}")
            found[partition] = number
    return found


def parse_assign(option: str, text: str) -> tuple[TopicPartition, ...]:
    """Return the partitions in the JSON of `text`, sorted and each once. Raises OptionError."""
    found: set[TopicPartition] = set()
    for topic, numbers in _json_object(option, text).items():
        if not isinstance(numbers, list):
            raise OptionError(option, f"topic '{topic}' needs a list of partitions, as {_ASSIGN_EXAMPLE}")
        for number in cast("list[object]", numbers):
            if not isinstance(number, int) or isinstance(number, bool):
                raise OptionError(option, f"topic '{topic}': {number!r} is no partition")
            found.add(TopicPartition(topic, _partition(option, topic, number)))
    if not found:
        raise OptionError(option, f"no partitions to read; write them as {_ASSIGN_EXAMPLE}")
    return tuple(sorted(found))


def _json_object(option: str, text: str) -> dict[str, object]:
    example = _ASSIGN_EXAMPLE if option == "assign" else f"'earliest', 'latest' or JSON like {_OFFSETS_EXAMPLE}"
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:  # no JSON, a number of thousands of digits, or thousands of levels
        raise OptionError(option, f"'{text}' is not {example}: {error}") from None
    if not isinstance(value, dict):
        raise OptionError(option, f"'{text}' is not {example}")
    return cast("dict[str, object]", value)


def _partition(option: str, topic: str, number: str | int) -> int:
    # Texts are names in JSON; int() would also take "0_1" and " 1".
    is_number = isinstance(number, int) or (number.isdecimal() and len(number) <= _MAX_DIGITS)
    partition = int(number) if is_number else -1
    if not 0 <= partition <= MAX_PARTITION:
        raise OptionError(option, f"topic '{topic}': {number!r} is no partition")
    return partition


# -- Patterns of topics: the part of Java's regular expressions that Python shares. A pattern means the same in both, or
# it is rejected with the reason: one that quietly means something else would read the wrong topics. As in Spark's own
# connector, a pattern is searched anywhere in the name unless it is anchored.


def compile_pattern(option: str, text: str) -> re.Pattern[str]:
    """Return Python's pattern for Java's. `search` it. Raises OptionError."""
    if not text:
        raise OptionError(option, "the pattern is empty")
    for piece in _not_shared(text):
        raise OptionError(option, f"'{text}': Python does not read {piece} as Java does: write it in another way")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return re.compile(text, re.ASCII)
    except (re.error, OverflowError, FutureWarning, DeprecationWarning) as error:
        raise OptionError(option, f"'{text}' is not a regular expression: {error}") from None


def _not_shared(text: str) -> Iterator[str]:
    in_class = False
    for match in _PIECE.finditer(text):
        piece = match[0]
        if piece[0] == "\\":
            known = _ESCAPES_OF_A_CLASS if in_class else _ESCAPES
            if piece[1:].isalnum() and piece[1:] not in known:
                yield piece
        elif in_class:
            if piece[0] == "[" or piece == "&&":
                yield f"{piece} inside of []"
            in_class = piece != "]"
        elif piece[0] == "[":
            if piece[-1] == "]":
                yield piece
            in_class = True
        elif piece == "{," or (piece.startswith("(?") and piece not in _GROUPS):
            yield piece
