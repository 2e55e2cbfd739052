"""The options of the sink: the topic, and the settings of Kafka's producer. TLS and SASL are read as the source's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..core.option_table import OPTIONS
from ..core.options import in_words_of_kafka
from ..core.security import SecurityArguments
from ..errors import InvalidOption
from ..producer.options import MAX_IDEMPOTENT_IN_FLIGHT
from ..producer.producer import Producer
from .errors import OptionError
from .option_texts import NAMES, check_names, format_of, security_of, servers_of, values_of
from .registered_columns import RegisteredWriter, parse_registry, writers_of

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
    try:
        Producer(**producer, **security)
    except InvalidOption as error:
        # The producer says `linger_ms` where a user of Spark has written `kafka.linger.ms`.
        raise OptionError("kafka.*", in_words_of_kafka(error.message, "kafka.")) from None
