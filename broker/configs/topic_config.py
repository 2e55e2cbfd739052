"""TopicConfig: the effective configs of one topic, its own and those that it inherits from the broker.

A topic config takes its default from the rows of the broker's tables that name it: `segment.ms` from `log.roll.ms`,
else from `log.roll.hours`. Type and range are those of the strongest row; documentation and default are those of the
weakest.

The rows that stand here are those of topics alone, and the unsupported ones: such a config is shown with its default,
which is true today. Any other value is rejected, and its row says why.

Promise: a topic that was created with a config behaves as the config says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ...storage.config import LogConfig
from .broker_config import BROKER_CONFIGS, BrokerConfig
from .definition import BOOLEAN, INT, LIST, LONG, ConfigDef, ConfigError, Value, suggestion

# Stands for all replicas of a topic.
EVERY_REPLICA = "*"
_REPLICA = re.compile(r"(0|[1-9][0-9]*):(0|[1-9][0-9]*)")
_NO_REMOTE = "there is no remote storage"
_GROWING = "segment files grow as they are written"


def _check_replicas(entries: tuple[str, ...]) -> str | None:
    """As Kafka's ThrottledReplicaListValidator."""
    if entries == (EVERY_REPLICA,) or all(not each or _REPLICA.fullmatch(each) for each in entries):
        return None
    return "must be the literal '*' or a list of replicas: [partitionId]:[brokerId],[partitionId]:[brokerId],..."


# fmt: off
_ROWS = (
    ConfigDef("local.retention.bytes", LONG, -2, low=-2, unsupported=_NO_REMOTE,
        broker_synonyms=("log.local.retention.bytes",),
        doc="Bytes kept here when older segments are stored remotely."),
    ConfigDef("local.retention.ms", LONG, -2, low=-2, unsupported=_NO_REMOTE,
        broker_synonyms=("log.local.retention.ms",),
        doc="Time kept here when older segments are stored remotely."),
    ConfigDef("preallocate", BOOLEAN, False, unsupported=_GROWING,
        broker_synonyms=("log.preallocate",),
        doc="Segment files get their full size when they are made."),
    ConfigDef("remote.copy.lag.bytes", LONG, -1, low=-1, unsupported=_NO_REMOTE,
        broker_synonyms=("log.remote.copy.lag.bytes",),
        doc="Bytes of closed segments that are not copied to remote storage yet."),
    ConfigDef("remote.copy.lag.ms", LONG, 0, low=-1, unsupported=_NO_REMOTE,
        broker_synonyms=("log.remote.copy.lag.ms",),
        doc="How long a closed segment stays before it is copied to remote storage."),
    ConfigDef("remote.log.copy.disable", BOOLEAN, False, unsupported=_NO_REMOTE,
        doc="Remote storage takes no new segments."),
    ConfigDef("remote.log.delete.on.disable", BOOLEAN, False, unsupported=_NO_REMOTE,
        doc="Remote segments are deleted when remote storage is switched off."),
    ConfigDef("remote.storage.enable", BOOLEAN, False, unsupported=_NO_REMOTE,
        doc="Older segments are stored remotely."),
)
# fmt: on

INTERNAL_SEGMENT_BYTES = ConfigDef(
    "internal.segment.bytes", INT, None, doc="Segment size without the lower bound of segment.bytes: for tests."
)
# Topic configs that no config of the broker gives a default.
OWN_TOPIC_CONFIGS: Mapping[str, ConfigDef] = {
    row.name: row
    for row in (
        INTERNAL_SEGMENT_BYTES,
        ConfigDef("follower.replication.throttled.replicas", LIST, (), check=_check_replicas,
            doc="Replicas that follower.replication.throttled.rate bounds: PARTITION:BROKER,... or * for all."),
        ConfigDef("errors.deadletterqueue.group.enable", BOOLEAN, False,
            doc="Whether brokers may write the dead letters of share groups to the topic."),
        ConfigDef("leader.replication.throttled.replicas", LIST, (), check=_check_replicas,
            doc="Replicas that leader.replication.throttled.rate bounds: PARTITION:BROKER,... or * for all."),
    )
}  # fmt: skip
UNSUPPORTED_TOPIC_CONFIGS: Mapping[str, ConfigDef] = {row.name: row for row in _ROWS}


# What brings a broker config's unit to the milliseconds of its topic config.
_UNITS_MS = {"hours": 3_600_000, "minutes": 60_000}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class TopicConfig:
    """The configs of one topic, resolved and checked. `resolve` makes it."""

    segment_bytes: int
    internal_segment_bytes: int | None
    segment_ms: int
    segment_jitter_ms: int
    index_interval_bytes: int
    segment_index_bytes: int
    max_message_bytes: int
    max_decompressed_message_bytes: int
    # The number of replicas caps it: an append waits for the one that there is.
    min_insync_replicas: int
    # The controller alone reads it, from ZooKeeper.
    unclean_leader_election_enable: bool
    leader_replication_throttled_replicas: tuple[str, ...]
    follower_replication_throttled_replicas: tuple[str, ...]
    errors_deadletterqueue_group_enable: bool
    flush_messages: int
    flush_ms: int
    message_timestamp_type: str
    retention_ms: int
    retention_bytes: int
    file_delete_delay_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    cleanup_policy: tuple[str, ...]
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    delete_retention_ms: int

    @classmethod
    def resolve(cls, broker: BrokerConfig, overrides: Mapping[str, str] | None = None) -> TopicConfig:
        """Return the configs of a topic with these overrides (name -> text) on this broker.

        ConfigError: an unknown name, a value out of range, or a value that Odradek does not support yet.
        """
        values: dict[str, Any] = {}
        for row in SUPPORTED_TOPIC_CONFIGS.values():
            inherited = inherited_values(broker, row)
            values[row.attribute] = inherited[0][1] if inherited else row.default
        for name, text in (overrides or {}).items():
            row, value = _parse_override(name, text)
            if not row.unsupported:
                values[row.attribute] = value
        return cls(**values)

    @property
    def is_compacted(self) -> bool:
        """Whether compaction keeps the last record of each key."""
        return "compact" in self.cleanup_policy

    def log_config(self, producer_id_expiration_ms: int) -> LogConfig:
        """Return what the log of a partition needs. The expiration of producer ids is a config of the broker."""
        values = {each.name: getattr(self, each.name) for each in _LOG_FIELDS}
        if self.internal_segment_bytes is not None:
            values["segment_bytes"] = self.internal_segment_bytes
        if self.is_compacted:
            # A record may not wait longer than this for compaction, which reads closed segments alone.
            values["segment_ms"] = min(self.segment_ms, self.max_compaction_lag_ms)
        return LogConfig(**values, producer_id_expiration_ms=producer_id_expiration_ms)


_LOG_FIELDS = [each for each in fields(LogConfig) if each.name != "producer_id_expiration_ms"]


def inherited_values(broker: BrokerConfig, row: ConfigDef) -> list[tuple[ConfigDef, Value]]:
    """Return what the broker's configs give to a topic config, strongest first, in the topic config's unit.

    Configs that are not set give nothing; nor do those that Odradek does not support.
    """
    if row.unsupported:
        return []
    rows = [BROKER_CONFIGS[name] for name in row.broker_synonyms]
    values = [(each, in_topic_unit(each, getattr(broker, each.attribute))) for each in rows]
    return [(each, value) for each, value in values if value is not None]


def in_topic_unit(row: ConfigDef, value: Value) -> Value:
    """Return a broker config's value in the unit of its topic config."""
    if row.topic == "retention.ms" and isinstance(value, int) and value < 0:
        return -1  # every negative number means: never
    unit_ms = _UNITS_MS.get(row.name.rpartition(".")[2])
    return value * unit_ms if unit_ms is not None and isinstance(value, int) else value


def _parse_override(name: str, text: str) -> tuple[ConfigDef, Value]:
    row = TOPIC_CONFIGS.get(name)
    if row is None:
        raise ConfigError(name, text, f"is not a topic config{suggestion(name, TOPIC_CONFIGS)}")
    value = row.parse(text)
    if row.unsupported and value != row.default:
        default = row.format(row.default) or "the empty value"
        effective = f"the effective value is {default}, because {row.unsupported}"
        raise ConfigError(name, text, f"Odradek does not act on it yet; {effective}")
    return row, value


def _row_of(name: str) -> ConfigDef:
    """Return the row of a topic config, made from the broker's rows that name it."""
    own = OWN_TOPIC_CONFIGS.get(name)
    if own is not None:
        return own
    rows = [row for row in BROKER_CONFIGS.values() if row.topic == name]
    strongest, weakest = rows[0], rows[-1]
    default = strongest.topic_default
    row = strongest._replace(
        name=name,
        doc=weakest.doc,
        default=in_topic_unit(weakest, weakest.default) if default is None else default,
        broker_synonyms=tuple(each.name for each in rows),
        topic="",
        dynamic=False,
    )
    return row if row.topic_low is None else row._replace(low=row.topic_low, high=None, check=None)


SUPPORTED_TOPIC_CONFIGS: Mapping[str, ConfigDef] = {
    name: _row_of(name) for name in (each.name.replace("_", ".") for each in fields(TopicConfig))
}
TOPIC_CONFIGS: Mapping[str, ConfigDef] = {**SUPPORTED_TOPIC_CONFIGS, **UNSUPPORTED_TOPIC_CONFIGS}
# Kafka does not list it either, unless it is set: it is for tests of the broker itself.
HIDDEN_TOPIC_CONFIGS = frozenset({INTERNAL_SEGMENT_BYTES.name})
