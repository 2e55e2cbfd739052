"""The options of the sink: the topic, and the settings of Kafka's producer. TLS and SASL are read as the source's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from ..core.security import SECURITY_CONFIGS, SecurityArguments
from ..errors import InvalidOption
from ..producer.options import MAX_IDEMPOTENT_IN_FLIGHT
from ..producer.producer import Producer
from .errors import OptionError
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
    security_of,
    servers_of,
)
from .kafka_settings import reason_for_no_effect as reason_of_reader
from .option_values import flag, number
from .typed_options import check_avro

# Kafka's names of the producer's settings that are numbers; our producer has them in snake case.
NUMBERS = {
    "linger.ms": Setting(5, 0, DAY_MS),
    # Kafka: 16 KiB. A batch costs the task 0.1 ms of CPU whatever is in it: 4 times as large, 0.06 s less a M rows.
    "batch.size": Setting(524_288, 1, INT32_MAX),
    "buffer.memory": Setting(33_554_432, 1, INT32_MAX),
    "delivery.timeout.ms": Setting(120_000, 1, DAY_MS),
    "max.block.ms": Setting(60_000, 1, DAY_MS),
    "max.in.flight.requests.per.connection": Setting(5, 1, 1000),
    "max.request.size": Setting(1_048_576, 1, INT32_MAX),
    "request.timeout.ms": Setting(30_000, 1, DAY_MS),
    "retry.backoff.ms": Setting(100, 0, DAY_MS),
    "retry.backoff.max.ms": Setting(1_000, 0, DAY_MS),
    "metadata.max.age.ms": Setting(300_000, 1, DAY_MS),
    # Kafka: 60 s. A transaction lasts until the last task of its batch has ended. Brokers allow no more by default.
    "transaction.timeout.ms": Setting(900_000, 1, DAY_MS),
}
TEXTS = ("bootstrap.servers", "client.id", "acks", "compression.type", "enable.idempotence")
OPTIONS = (
    "topic",
    "timestampColumn",
    "keyFormat",
    "valueFormat",
    "keyAvroSchema",
    "valueAvroSchema",
    "transactional",
    "includeHeaders",
    "strictOptions",
    "checkpointLocation",
)
# auto: exactly once where the broker is Odradek; required: fail where it is not; never: at least once.
TRANSACTIONAL = ("auto", "required", "never")
FORMATS = ("json", "msgpack", "avro", "string")
# Settings that would change what the sink promises.
_REFUSED = {"transactional.id": "is not supported: each task gets its own from the broker"}
_READS = "it acts on reads alone"
_IDEMPOTENCE = (
    "kafka.acks=all, kafka.enable.idempotence=true and at most"
    f" {MAX_IDEMPOTENT_IN_FLIGHT} kafka.max.in.flight.requests.per.connection"
)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """All options of a write."""

    # It takes precedence over the column `topic`. None: the column decides.
    topic: str | None
    # A column that holds the timestamps of records, which the JVM sink cannot set. None: the time of sending.
    timestamp_column: str | None
    # The keyword arguments of the producer, without those of `security`.
    producer: Mapping[str, Any]
    # One of TRANSACTIONAL.
    transactional: str = "auto"
    # How the columns `key` and `value` become bytes, one of FORMATS. None: they are bytes or text.
    formats: Mapping[str, str] = field(default_factory=dict[str, str])
    # The schemas of columns in Avro, in JSON.
    avro_schemas: Mapping[str, str] = field(default_factory=dict[str, str])
    # The arguments of TLS and SASL, which every client takes. Secrets are not in the options' text.
    security: SecurityArguments = field(default_factory=SecurityArguments, repr=False)
    # What the user should know, a sentence each.
    warnings: tuple[str, ...] = field(default=(), compare=False)


def parse_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Return the options, checked, from their texts by name. Raises OptionError, which names the option."""
    texts = {name.lower(): text for name, text in given.items()}
    warnings = _check_names(texts)
    topic = texts.get("topic")
    if topic == "":
        raise OptionError("topic", "is empty")
    formats, avro_schemas = _formats(texts)
    producer = _producer(texts)
    transactional = _transactional(texts, producer, warnings)
    security = security_of(texts)
    _check_producer(producer, security)
    return SinkOptions(
        topic=topic,
        timestamp_column=texts.get("timestampcolumn"),
        producer=producer,
        transactional=transactional,
        formats=formats,
        avro_schemas=avro_schemas,
        security=security,
        warnings=tuple(warnings),
    )


def _formats(texts: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the formats and the schemas of Avro, by column."""
    formats: dict[str, str] = {}
    schemas: dict[str, str] = {}
    for name in ("key", "value"):
        schema = texts.get(f"{name}avroschema")
        if f"{name}format" in texts:
            formats[name] = _choice(f"{name}Format", texts[f"{name}format"], FORMATS)
            check_avro(name, formats[name], schema)
        elif schema is not None:
            raise OptionError(f"{name}AvroSchema", f"needs {name}Format")
        if schema is not None:
            schemas[name] = schema
    return formats, schemas


def _choice(name: str, text: str, choices: Sequence[str]) -> str:
    if text.strip().lower() not in choices:
        raise OptionError(name, f"'{text}' is none of {', '.join(choices)}")
    return text.strip().lower()


def _transactional(texts: Mapping[str, str], producer: Mapping[str, Any], warnings: list[str]) -> str:
    """Return the option `transactional`. Other settings may rule transactions out."""
    wanted = _choice("transactional", texts.get("transactional", "auto"), TRANSACTIONAL)
    is_weak = producer.get("enable_idempotence") is False
    if wanted == "required" and is_weak:
        raise OptionError("transactional", f"'required' needs {_IDEMPOTENCE}")
    if wanted == "auto" and is_weak:
        warnings.append(f"rows are written at least once: transactions need {_IDEMPOTENCE}")
        return "never"
    return wanted


def _check_names(texts: Mapping[str, str]) -> list[str]:
    settings = (*NUMBERS, *TEXTS, *SECURITY_CONFIGS)
    known = {each.lower(): each for each in (*OPTIONS, *(f"kafka.{name}" for name in settings))}
    strict = flag(texts, "strictOptions", False)
    check_without_effect(texts)
    warnings: list[str] = []
    for name in texts:
        setting = name.removeprefix("kafka.") if name.startswith("kafka.") else ""
        rejected = {**REJECTED, **_REFUSED}.get(setting)
        if rejected is not None:
            raise OptionError(name, rejected)
        if name == "path":
            raise OptionError("path", "save() takes no path: name the topic with the option 'topic'")
        if name in known and setting not in SECURITY_CONFIGS:
            continue
        reason = reason_of_reader(setting, protocol_of(texts)) if setting else None
        if reason is None and setting in SECURITY_CONFIGS:
            continue
        if reason is not None or setting in (*KAFKA_SETTINGS, *KAFKA_TEXTS, *NO_EFFECT):
            warnings.append(f"option '{name}' has no effect: {reason or _READS}")
            continue
        close = get_close_matches(name, known, 1)
        hint = f"did you mean '{known[close[0]]}'?" if close else "docs/spark.md lists what is known"
        if strict:
            raise OptionError(name, f"is not an option of this sink; {hint}")
        warnings.append(f"option '{name}' is unknown and has no effect; {hint}")
    return warnings


def _producer(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of the producer."""
    servers_of(texts)
    arguments: dict[str, Any] = {
        "bootstrap_servers": texts["kafka.bootstrap.servers"],
        "client_id": texts.get("kafka.client.id", "odradek-spark"),
        "compression_type": texts.get("kafka.compression.type", "none"),
        "batch_size": NUMBERS["batch.size"].default,
    }
    if "kafka.acks" in texts:
        text = _choice("kafka.acks", texts["kafka.acks"], ("all", "-1", "0", "1"))
        arguments["acks"] = text if text == "all" else int(text)
    for name, setting in NUMBERS.items():
        given = number(texts, f"kafka.{name}", None, setting.minimum, setting.maximum)
        if given is not None:
            arguments[name.replace(".", "_")] = given
    if "kafka.enable.idempotence" in texts:
        arguments["enable_idempotence"] = flag(texts, "kafka.enable.idempotence", True)
    elif not _may_be_idempotent(arguments):
        arguments["enable_idempotence"] = False  # as Java's producer does where nobody asks for it
    return arguments


def _may_be_idempotent(arguments: Mapping[str, Any]) -> bool:
    in_flight = arguments.get("max_in_flight_requests_per_connection", 0)
    return arguments.get("acks", "all") in ("all", -1) and in_flight <= MAX_IDEMPOTENT_IN_FLIGHT


def _check_producer(producer: Mapping[str, Any], security: SecurityArguments) -> None:
    """Raise OptionError, on the driver, for what the producer of each task would reject."""
    try:
        Producer(**producer, **security)
    except InvalidOption as error:
        # The producer says `linger_ms` where a user of Spark has written `kafka.linger.ms`.
        ours = {name.replace(".", "_"): f"kafka.{name}" for name in (*NUMBERS, *TEXTS)}
        why = re.sub(r"\w+", lambda word: ours.get(word[0], word[0]), error.message)
        raise OptionError("kafka.*", why) from None
