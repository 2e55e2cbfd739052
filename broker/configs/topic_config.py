"""A topic's configs: what CreateTopics accepts, what the broker's own configs give where it is silent, what is shown.

`TopicConfig` holds those that Odradek acts on; each takes its default from the broker configs named as its synonyms
(`segment.ms` from `log.roll.ms`, else from `log.roll.hours`). `NOT_YET` holds Kafka's others: they are shown with the
value that is true today, and asking for any other value is refused.

Promise: a topic that was created with a config behaves as the config says.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .broker_config import CLEANUP_POLICIES, COMPRESSION_TYPES, LONG_MAX, BrokerConfig, check_gzip_level
from .settings import ConfigEntry, ConfigError, Kind, Setting, Source, Synonym, Value, near, setting, settings_of

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The configs of one topic, resolved and checked."""

    segment_bytes: int = setting(
        Kind.INT,
        1 << 30,
        "A segment file is closed and the next begun at this size.",
        low=1 << 20,
        broker_synonyms=(("log.segment.bytes", 1),),
    )
    internal_segment_bytes: int | None = setting(
        Kind.INT, None, "Segment size without the lower bound of segment.bytes: for tests."
    )
    segment_ms: int = setting(
        Kind.LONG,
        168 * _HOUR_MS,
        "A segment is closed when its first record is this old.",
        low=1,
        broker_synonyms=(("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
    )
    segment_jitter_ms: int = setting(
        Kind.LONG,
        0,
        "Each segment is closed by up to so much earlier than segment.ms says, so that not all are at once.",
        low=0,
        broker_synonyms=(("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
    )
    index_interval_bytes: int = setting(
        Kind.INT,
        4096,
        "An index entry is written about every so many bytes of records.",
        low=0,
        broker_synonyms=(("log.index.interval.bytes", 1),),
    )
    segment_index_bytes: int = setting(
        Kind.INT,
        10 << 20,
        "A segment is closed when its index has reached this size.",
        low=4,
        broker_synonyms=(("log.index.size.max.bytes", 1),),
    )
    max_message_bytes: int = setting(
        Kind.INT,
        (1 << 20) + 12,
        "The largest record batch that is accepted.",
        low=0,
        broker_synonyms=(("message.max.bytes", 1),),
    )
    flush_messages: int = setting(
        Kind.LONG,
        LONG_MAX,
        "Records are forced to disk (fsync) after so many of them.",
        low=1,
        broker_synonyms=(("log.flush.interval.messages", 1),),
    )
    flush_ms: int = setting(
        Kind.LONG,
        LONG_MAX,
        "Records are forced to disk (fsync) when the oldest has waited this long.",
        low=0,
        broker_synonyms=(("log.flush.interval.ms", 1),),
    )
    message_timestamp_type: str = setting(
        Kind.STRING,
        "CreateTime",
        "A record's timestamp: the producer's (CreateTime) or the moment of the append (LogAppendTime).",
        choices=("CreateTime", "LogAppendTime"),
        broker_synonyms=(("log.message.timestamp.type", 1),),
    )
    retention_ms: int = setting(
        Kind.LONG,
        168 * _HOUR_MS,
        "Segments whose newest record is older than this are deleted; -1: never.",
        low=-1,
        broker_synonyms=(("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", _HOUR_MS)),
    )
    retention_bytes: int = setting(
        Kind.LONG,
        -1,
        "The oldest segments of a partition are deleted as long as this much remains; negative: never.",
        broker_synonyms=(("log.retention.bytes", 1),),
    )
    file_delete_delay_ms: int = setting(
        Kind.LONG,
        60_000,
        "How long the files of deleted segments, and of the deleted topic, stay on disk.",
        low=0,
        broker_synonyms=(("log.segment.delete.delay.ms", 1),),
    )
    message_timestamp_before_max_ms: int = setting(
        Kind.LONG,
        LONG_MAX,
        "How far behind the broker's clock a producer's timestamp may lie. Any but the default has every record read.",
        low=0,
        broker_synonyms=(("log.message.timestamp.before.max.ms", 1),),
    )
    message_timestamp_after_max_ms: int = setting(
        Kind.LONG,
        _HOUR_MS,
        "How far ahead of the broker's clock a producer's timestamp may lie.",
        low=0,
        broker_synonyms=(("log.message.timestamp.after.max.ms", 1),),
    )
    compression_type: str = setting(
        Kind.STRING,
        "producer",
        "The codec of what is stored: the producer's own, or one that the broker compresses with where it is another.",
        choices=COMPRESSION_TYPES,
        broker_synonyms=(("compression.type", 1),),
    )
    compression_gzip_level: int = setting(
        Kind.INT,
        -1,
        "The level where the broker compresses with gzip; -1 is zlib's own.",
        low=-1,
        high=9,
        check=check_gzip_level,
        broker_synonyms=(("compression.gzip.level", 1),),
    )
    compression_lz4_level: int = setting(
        Kind.INT,
        9,
        "The level where the broker compresses with lz4.",
        low=1,
        high=17,
        broker_synonyms=(("compression.lz4.level", 1),),
    )
    compression_zstd_level: int = setting(
        Kind.INT,
        3,
        "The level where the broker compresses with zstd.",
        low=-131072,
        high=22,
        broker_synonyms=(("compression.zstd.level", 1),),
    )
    cleanup_policy: tuple[str, ...] = setting(
        Kind.LIST,
        ("delete",),
        "Old segments are deleted (delete), keep only the last record of each key (compact), or both; empty: neither.",
        choices=CLEANUP_POLICIES,
        broker_synonyms=(("log.cleanup.policy", 1),),
    )
    min_cleanable_dirty_ratio: float = setting(
        Kind.DOUBLE,
        0.5,
        "A compacted partition is cleaned once more than this share of its bytes was not looked at yet.",
        low=0,
        high=1,
        broker_synonyms=(("log.cleaner.min.cleanable.ratio", 1),),
    )
    min_compaction_lag_ms: int = setting(
        Kind.LONG,
        0,
        "The shortest that a record stays as it is in a compacted topic.",
        low=0,
        broker_synonyms=(("log.cleaner.min.compaction.lag.ms", 1),),
    )
    max_compaction_lag_ms: int = setting(
        Kind.LONG,
        LONG_MAX,
        "The longest that a record waits for compaction, whatever the dirty ratio; segments are closed by it, too.",
        low=1,
        broker_synonyms=(("log.cleaner.max.compaction.lag.ms", 1),),
    )
    delete_retention_ms: int = setting(
        Kind.LONG,
        24 * _HOUR_MS,
        "How long a compacted topic keeps its tombstones, and the markers of transactions that left nothing else.",
        low=0,
        broker_synonyms=(("log.cleaner.delete.retention.ms", 1),),
    )

    @classmethod
    def resolve(cls, broker: BrokerConfig, overrides: Mapping[str, str] | None = None) -> "TopicConfig":
        """The configs of a topic that was created with `overrides` (name -> text) on this broker.

        ConfigError: an unknown name, a value out of range, or a value that Odradek does not act on yet.
        """
        values: dict[str, Any] = {}
        for declared in TOPIC_SETTINGS.values():
            inherited = _inherited(broker, declared)
            values[declared.attribute] = inherited[0].value if inherited else declared.default
        for name, text in (overrides or {}).items():
            values[name.replace(".", "_")] = _accept(name, text)
        return cls(**{name: value for name, value in values.items() if name in _ATTRIBUTES})

    @property
    def is_compacted(self) -> bool:
        """Whether the last record of each key is what it keeps."""
        return "compact" in self.cleanup_policy

    @property
    def segment_age_ms(self) -> int:
        """The age at which a segment is closed: what compaction may not leave alone for longer is closed by then."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms

    @property
    def segment_size_bytes(self) -> int:
        """The size at which a segment is closed."""
        return self.segment_bytes if self.internal_segment_bytes is None else self.internal_segment_bytes


@dataclass(frozen=True, slots=True)
class _Inherited:
    """What one of the broker's configs gives to a topic: its own name and source, the value in the topic's unit."""

    name: str
    value: Value
    source: Source


def describe_topic(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Iterable[str] | None = None
) -> list[ConfigEntry]:
    """A topic's configs as DescribeConfigs shows them: all, or those of `names` that exist."""
    if names is None:
        names = [name for name in EVERY_TOPIC_SETTING if name not in _HIDDEN or name in overrides]
    return [_entry(broker, EVERY_TOPIC_SETTING[name], overrides) for name in names if name in EVERY_TOPIC_SETTING]


def _entry(broker: BrokerConfig, declared: Setting, overrides: Mapping[str, str]) -> ConfigEntry:
    value, source = declared.default, Source.DEFAULT_CONFIG
    synonyms: list[Synonym] = []
    if not declared.acted_on:
        synonyms = [Synonym(name, declared.format(value), source) for name, _ in declared.broker_synonyms]
    for each in reversed(_inherited(broker, declared)):
        value, source = each.value, each.source
        synonyms = [*broker.synonyms(each.name), *synonyms]
    if declared.name in overrides:
        value, source = declared.parse(overrides[declared.name]), Source.DYNAMIC_TOPIC_CONFIG
        synonyms.insert(0, Synonym(declared.name, declared.format(value), source))
    text = declared.format(value)
    return ConfigEntry(declared.name, text, source, declared.kind, declared.doc, tuple(synonyms), read_only=False)


def _inherited(broker: BrokerConfig, declared: Setting) -> list[_Inherited]:
    """What the broker's configs give to a topic config, strongest first; those that are not set give nothing."""
    found: list[_Inherited] = []
    if not declared.acted_on:
        return found
    for name, factor in declared.broker_synonyms:
        value: Value = getattr(broker, name.replace(".", "_"))
        if value is not None:
            if isinstance(value, int) and factor != 1:
                # A negative one says "never" in every unit.
                value = value * factor if value >= 0 else -1
            elif name == "log.retention.ms":
                value = max(value, -1) if isinstance(value, int) else value
            found.append(_Inherited(name, value, broker.source(name)))
    return found


def _accept(name: str, text: str) -> Value:
    """The value of one override, or ConfigError. The policy for configs that are not acted on yet stands here."""
    declared = EVERY_TOPIC_SETTING.get(name)
    if declared is None:
        raise ConfigError(name, text, f"is not a topic config{near(name, EVERY_TOPIC_SETTING)}")
    value = declared.parse(text)
    if not declared.acted_on and value != declared.default:
        holds = declared.format(declared.default) or "the empty value"
        why = f"Odradek does not act on it yet; what holds is {holds}, as {WHY_NOT[name]}"
        raise ConfigError(name, text, why)
    return value


def _not_yet(name: str, kind: Kind, holds: Value, doc: str, synonym: str | None = None, **rest: Any) -> Setting:
    """`synonym` is the broker's config that gives a topic its value in Kafka: here both hold the same."""
    synonyms = ((synonym, 1),) if synonym is not None else ()
    return Setting(name, kind, holds, doc, acted_on=False, broker_synonyms=synonyms, **rest)


TOPIC_SETTINGS: Mapping[str, Setting] = settings_of(TopicConfig)
_ATTRIBUTES = frozenset(declared.attribute for declared in TOPIC_SETTINGS.values())
# Kafka does not list it either: it is for tests of the broker itself.
_HIDDEN = frozenset({"internal.segment.bytes"})

NOT_YET: Mapping[str, Setting] = {
    declared.name: declared
    for declared in (
        _not_yet("follower.replication.throttled.replicas", Kind.LIST, (), "Replicas whose copying is throttled."),
        _not_yet("leader.replication.throttled.replicas", Kind.LIST, (), "Replicas whose copying is throttled."),
        _not_yet(
            "local.retention.bytes",
            Kind.LONG,
            -2,
            "Bytes kept here where older segments are stored remotely.",
            "log.local.retention.bytes",
            low=-2,
        ),
        _not_yet(
            "local.retention.ms",
            Kind.LONG,
            -2,
            "Time kept here where older segments are stored remotely.",
            "log.local.retention.ms",
            low=-2,
        ),
        _not_yet(
            "min.insync.replicas",
            Kind.INT,
            1,
            "Replicas that must have a record before acks=all is answered.",
            "min.insync.replicas",
            low=1,
        ),
        _not_yet(
            "preallocate",
            Kind.BOOLEAN,
            False,
            "Segment files get their full size when they are made.",
            "log.preallocate",
        ),
        _not_yet("remote.log.copy.disable", Kind.BOOLEAN, False, "Remote storage takes no new segments."),
        _not_yet(
            "remote.log.delete.on.disable",
            Kind.BOOLEAN,
            False,
            "Remote segments go when remote storage is switched off.",
        ),
        _not_yet("remote.storage.enable", Kind.BOOLEAN, False, "Older segments are stored remotely."),
        _not_yet(
            "unclean.leader.election.enable",
            Kind.BOOLEAN,
            False,
            "A replica that lags may become leader.",
            "unclean.leader.election.enable",
        ),
    )
}

_NO_COPIES = "one broker holds the one replica: nothing is copied"
_NO_REMOTE = "there is no remote storage"
# Why a value other than the one that holds is refused.
WHY_NOT: Mapping[str, str] = {
    "follower.replication.throttled.replicas": _NO_COPIES,
    "leader.replication.throttled.replicas": _NO_COPIES,
    "min.insync.replicas": "one broker holds the one replica: no second one can be waited for",
    "unclean.leader.election.enable": "one broker holds the one replica: there is nothing to elect",
    "local.retention.bytes": _NO_REMOTE,
    "local.retention.ms": _NO_REMOTE,
    "remote.log.copy.disable": _NO_REMOTE,
    "remote.log.delete.on.disable": _NO_REMOTE,
    "remote.storage.enable": _NO_REMOTE,
    "preallocate": "segment files grow as they are written",
}

EVERY_TOPIC_SETTING: Mapping[str, Setting] = {**TOPIC_SETTINGS, **NOT_YET}
