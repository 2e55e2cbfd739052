"""The `kafka.` options: every setting of Kafka's own clients by name, and what becomes of it here.

A setting is acted on, or it has no effect here and one warning says why, or it is rejected because ignoring it would
change what is read: those that Spark's own connector rejects. Security is read by `network/security_configs.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ..core.addresses import Address, bootstrap_addresses
from ..core.security import SECURITY_CONFIGS, SecurityArguments, SecurityOptions, security_arguments
from ..errors import InvalidOption
from .errors import OptionError


class Setting(NamedTuple):
    """The default and the range of a `kafka.` option that is a whole number."""

    default: int
    minimum: int
    maximum: int


DAY_MS = 24 * 3600 * 1000
INT32_MAX = 2**31 - 1
# Kafka's names, and Kafka's defaults but where a comment says otherwise.
KAFKA_SETTINGS = {
    "fetch.min.bytes": Setting(1, 0, INT32_MAX),
    "fetch.max.wait.ms": Setting(500, 0, DAY_MS),
    "fetch.max.bytes": Setting(50 * 1024 * 1024, 1, INT32_MAX),
    # Kafka: 1 MiB. A task reads one partition alone, and fewer round trips are faster.
    "max.partition.fetch.bytes": Setting(4 * 1024 * 1024, 1, INT32_MAX),
    "request.timeout.ms": Setting(30_000, 1, DAY_MS),
    "socket.connection.setup.timeout.ms": Setting(10_000, 1, DAY_MS),
    "default.api.timeout.ms": Setting(60_000, 1, DAY_MS),
    "retry.backoff.ms": Setting(100, 0, DAY_MS),
    "retry.backoff.max.ms": Setting(1_000, 0, DAY_MS),
    # Of the connections that a stream's driver keeps; -1 keeps them for ever.
    "connections.max.idle.ms": Setting(540_000, -1, DAY_MS),
    # -1: the operating system's own size, which it adapts. (Kafka: 64 KiB and 128 KiB.)
    "receive.buffer.bytes": Setting(-1, -1, INT32_MAX),
    "send.buffer.bytes": Setting(-1, -1, INT32_MAX),
}
KAFKA_TEXTS = ("bootstrap.servers", "client.id", "group.id", "isolation.level", "check.crcs", "security.protocol")

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
_ROWS = "rows come in Arrow batches: set arrowBatchRows"
_SHORT = "a connection lives as long as its task, and metadata are read for every plan"
_METRICS = "there is no Java client whose metrics could be reported"
_ADDRESSES = "every address of a name is tried"
_NEVER = "a read never creates topics"
_FETCHING = "partitions are read from their leaders"
_PRODUCER = "it is a setting of producers"
_SHARE = "it is a setting of share groups"
_JAVA_SECURITY = "it is about TLS or SASL of the Java client; Python's own has its part of it"
_JVM = "it is about classes of the Java client"
_INTERNAL = "internal topics are read only where a query names them"
# Settings of Kafka's clients that change nothing here, with the reason.
NO_EFFECT = {
    **dict.fromkeys(
        (
            "auto.commit.interval.ms", "group.instance.id", "group.protocol", "group.remote.assignor",
            "heartbeat.interval.ms", "max.poll.interval.ms", "partition.assignment.strategy", "session.timeout.ms",
            "internal.throw.on.fetch.stable.offset.unsupported", "internal.leave.group.on.close",
        ),
        _MEMBER,
    ),
    "max.poll.records": _ROWS,
    **dict.fromkeys(
        (
            "metadata.max.age.ms", "metadata.max.idle.ms", "metadata.recovery.strategy",
            "metadata.recovery.rebootstrap.trigger.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms",
            "socket.connection.setup.timeout.max.ms", "bootstrap.controllers",
        ),
        _SHORT,
    ),
    **dict.fromkeys(
        (
            "enable.metrics.push", "metric.reporters", "metrics.num.samples", "metrics.recording.level",
            "metrics.sample.window.ms", "auto.include.jmx.reporter",
        ),
        _METRICS,
    ),
    "client.dns.lookup": _ADDRESSES,
    "allow.auto.create.topics": _NEVER,
    "client.rack": _FETCHING,
    "exclude.internal.topics": _INTERNAL,
    "config.providers": _JVM,
    "security.providers": _JVM,
    **dict.fromkeys(("share.acknowledgement.mode", "share.acquire.mode"), _SHARE),
    **dict.fromkeys(
        (
            "acks", "batch.size", "buffer.memory", "compression.gzip.level", "compression.lz4.level",
            "compression.type", "compression.zstd.level", "delivery.timeout.ms", "enable.idempotence", "linger.ms",
            "max.block.ms", "max.in.flight.requests.per.connection", "max.request.size",
            "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms", "partitioner.class",
            "partitioner.ignore.keys", "retries", "transaction.timeout.ms", "transaction.two.phase.commit.enable",
            "transactional.id",
        ),
        _PRODUCER,
    ),
}  # fmt: skip
# Those of them that are flags, and those that are whole numbers beside all whose names end with `.ms`.
_FLAGS = frozenset(
    (
        "enable.metrics.push", "auto.include.jmx.reporter", "allow.auto.create.topics", "exclude.internal.topics",
        "enable.idempotence", "partitioner.adaptive.partitioning.enable", "partitioner.ignore.keys",
        "transaction.two.phase.commit.enable",
    )
)  # fmt: skip
_NUMBERS = frozenset(
    (
        "max.poll.records", "metrics.num.samples", "batch.size", "buffer.memory", "compression.gzip.level",
        "compression.lz4.level", "compression.zstd.level", "max.in.flight.requests.per.connection",
        "max.request.size", "retries",
    )
)  # fmt: skip
# The beginnings of names that concern encryption and authentication, of which Kafka has a hundred.
_SECURITY = ("ssl.", "sasl.")


def reason_for_no_effect(name: str, protocol: str = "PLAINTEXT") -> str | None:
    """Return why a setting of Kafka's clients changes nothing here; None where it does, or where it is no setting."""
    if not name.startswith(_SECURITY):
        return NO_EFFECT.get(name)
    used = protocol.endswith("SSL") if name.startswith("ssl.") else protocol.startswith("SASL_")
    if not used:
        return f"connections are {protocol}"
    return None if name in SECURITY_CONFIGS else _JAVA_SECURITY


def check_without_effect(texts: Mapping[str, str]) -> None:
    """Raise OptionError for a setting without effect whose text Kafka's clients reject. Names are in lower case."""
    for name in NO_EFFECT:
        text = texts.get(f"kafka.{name}", "").strip()
        if not text:
            continue
        if name in _FLAGS and text.lower() not in ("true", "false"):
            raise OptionError(f"kafka.{name}", f"'{text}' is neither true nor false")
        if (name in _NUMBERS or name.endswith(".ms")) and not re.fullmatch(r"[+-]?\d+", text):
            raise OptionError(f"kafka.{name}", f"'{text}' is not a whole number")
        if name == "max.poll.records" and int(text) < 1:
            raise OptionError(f"kafka.{name}", f"'{text}' is below 1")


def servers_of(texts: Mapping[str, str]) -> tuple[Address, ...]:
    """Return the bootstrap servers that options, by name in lower case, name. Raises OptionError."""
    servers = texts.get("kafka.bootstrap.servers")
    if servers is None:
        raise OptionError("kafka.bootstrap.servers", "must be given: HOST:PORT[,HOST:PORT...]")
    try:
        return tuple(bootstrap_addresses(servers))
    except InvalidOption as error:
        raise OptionError("kafka.bootstrap.servers", error.message) from None


def protocol_of(texts: Mapping[str, str]) -> str:
    """Return the security protocol that options, by name in lower case, ask for."""
    return texts.get("kafka.security.protocol", "PLAINTEXT").strip().upper()


def security_of(texts: Mapping[str, str]) -> SecurityArguments:
    """Return the arguments of TLS and SASL that options, by name in lower case, mean. Raises OptionError.

    Settings of TLS or SASL without it are left out, as in Java.
    """
    protocol = protocol_of(texts)
    given = {
        name.removeprefix("kafka."): text
        for name, text in texts.items()
        if name.startswith("kafka.") and reason_for_no_effect(name.removeprefix("kafka."), protocol) is None
    }
    try:
        arguments = security_arguments(given | {"security.protocol": protocol})
        SecurityOptions(**arguments)
    except InvalidOption as error:
        raise OptionError("kafka.security.protocol", f"{protocol}: {error.message}") from None
    return arguments
