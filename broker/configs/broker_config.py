"""The broker's configs: the one table of what `--config` and `--set` accept, each under Kafka's name and acted on.

`BrokerConfig()` is a broker with every default; `BrokerConfig.parse({"log.segment.bytes": "1048576"})` reads texts.
A field `log_segment_bytes` is the config `log.segment.bytes`; types, ranges and defaults are those of Kafka 4.3.1 (a
test compares them), but for a few that are listed there with the reason.

Promise: a config in this table changes what the broker does. Kafka's other names are warnings that say so, because a
server.properties file written for Kafka should start Odradek; only what would be unsafe to leave out is refused.
"""

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ...storage.retention import STANDARD, PolicyError, policy_named
from .settings import ConfigEntry, ConfigError, Kind, Setting, Source, Synonym, Value, setting, settings_of

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
CLEANUP_POLICIES = ("compact", "delete")
COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

_ENDPOINT = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)://(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\s:/\[\]]*)):(?P<port>\d{1,5})"
)
_ANY_HOST = ("", "0.0.0.0", "::")


class Endpoint(NamedTuple):
    """A listener: its name, the host (empty: every interface) and the port (0: a free one)."""

    name: str
    host: str
    port: int

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_endpoint(text: str) -> Endpoint:
    """`NAME://HOST:PORT`, an IPv6 host in brackets. ValueError is never raised: ConfigError is."""
    match = _ENDPOINT.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise ConfigError("listeners", text, "must be NAME://HOST:PORT with a port from 0 to 65535")
    return Endpoint(match["name"].upper(), match["v6"] or match["host"] or "", int(match["port"]))


def _check_endpoints(texts: tuple[str, ...]) -> str | None:
    try:
        names = [parse_endpoint(text).name for text in texts]
    except ConfigError as error:
        return error.reason
    return None if len(set(names)) == len(names) else "each listener needs a name of its own"


def _check_dirs(dirs: tuple[str, ...]) -> str | None:
    if not dirs or not all(dirs):
        return "must name a directory"
    return None if len({Path(each).absolute() for each in dirs}) == len(dirs) else "must name each directory once"


def _check_retention(given: int | None) -> str | None:
    return "must be 1 or more; -1: records are kept for ever" if given == 0 else None


def _check_policy(name: str) -> str | None:
    try:
        policy_named(name)
    except PolicyError as error:
        return str(error)
    return None


def check_gzip_level(level: int) -> str | None:
    """Why a level is none of gzip's, or None: 0, which stores without compressing, is not among Kafka's."""
    return "must be from 1 to 9, or -1" if level == 0 else None


def _check_protocol_map(text: str) -> str | None:
    pairs = [pair.split(":") for pair in text.split(",")] if text else []
    return None if all(len(pair) == 2 and all(pair) for pair in pairs) else "must be NAME:PROTOCOL, separated by commas"


@dataclass(slots=True)
class Dynamic:
    """Configs that were changed while the broker runs, by name: for this broker, and for every broker of the cluster.

    They are stronger than what the broker was started with, `started`, which holds the values that they took over.
    """

    broker: Mapping[str, str] = field(default_factory=dict[str, str])
    cluster: Mapping[str, str] = field(default_factory=dict[str, str])
    started: dict[str, Value] = field(default_factory=dict[str, Value])


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Every config of a broker, checked. Raises ConfigError where a value, or two together, cannot be used."""

    # -- who and where
    node_id: int = setting(Kind.INT, 1, "The number that names this broker to clients.", low=0)
    broker_id: int = setting(Kind.INT, -1, "The older name of node.id; -1 where only node.id is used.", low=-1)
    broker_rack: str | None = setting(Kind.STRING, None, "The rack or zone of this broker, told by Metadata.")
    listeners: tuple[str, ...] = setting(
        Kind.LIST,
        ("PLAINTEXT://127.0.0.1:9092",),
        "Where the broker listens: NAME://HOST:PORT. No host means every interface, port 0 takes a free one.",
        check=_check_endpoints,
    )
    advertised_listeners: tuple[str, ...] | None = setting(
        Kind.LIST,
        None,
        "The addresses that clients are told, by listener name. Unset, a client is told the one that it used itself.",
        check=_check_endpoints,
    )
    listener_security_protocol_map: str = setting(
        Kind.STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Which protocol a listener's name stands for. Only PLAINTEXT can be listened on yet.",
        check=_check_protocol_map,
    )
    controller_listener_names: tuple[str, ...] = setting(
        Kind.LIST, (), "Listeners of a Kafka controller. Odradek has none: those named here are not opened."
    )
    # -- the data
    log_dir: tuple[str, ...] = setting(
        Kind.LIST, ("./odradek-data",), "The data directories, where log.dirs is not set.", check=_check_dirs
    )
    log_dirs: tuple[str, ...] | None = setting(
        Kind.LIST,
        None,
        "The data directories. A new partition goes to the one with the fewest; one that fails takes only its own.",
        check=_check_dirs,
    )
    metadata_log_dir: str | None = setting(
        Kind.STRING, None, "Where the topics and ids are written down; unset: in the first of log.dirs."
    )
    log_segment_bytes: int = setting(
        Kind.INT, 1 << 30, "A segment file is closed and the next begun at this size.", low=1 << 20, dynamic=True
    )
    log_roll_ms: int | None = setting(
        Kind.LONG,
        None,
        "A segment is closed when its first record is this old. Stronger than log.roll.hours.",
        low=1,
        dynamic=True,
    )
    log_roll_hours: int = setting(Kind.INT, 168, "A segment is closed when its first record is this old.", low=1)
    log_roll_jitter_ms: int | None = setting(
        Kind.LONG,
        None,
        "Each segment is closed by up to so much earlier. Stronger than log.roll.jitter.hours.",
        low=0,
        dynamic=True,
    )
    log_roll_jitter_hours: int = setting(Kind.INT, 0, "Each segment is closed by up to so much earlier.", low=0)
    log_index_interval_bytes: int = setting(
        Kind.INT, 4096, "An index entry is written about every so many bytes of records.", low=0, dynamic=True
    )
    log_index_size_max_bytes: int = setting(
        Kind.INT, 10 << 20, "A segment is closed when its index has reached this size.", low=4, dynamic=True
    )
    log_flush_interval_messages: int = setting(
        Kind.LONG,
        LONG_MAX,
        "Records of a partition are forced to disk (fsync) after so many of them.",
        low=1,
        dynamic=True,
    )
    log_flush_interval_ms: int | None = setting(
        Kind.LONG,
        None,
        "Records of a partition are forced to disk (fsync) when the oldest has waited this long.",
        dynamic=True,
    )
    log_flush_offset_checkpoint_interval_ms: int = setting(
        Kind.INT, 60_000, "How often it is noted up to where each partition is on disk for certain.", low=0
    )
    log_message_timestamp_type: str = setting(
        Kind.STRING,
        "CreateTime",
        "A record's timestamp: the producer's (CreateTime) or the moment of the append (LogAppendTime).",
        choices=("CreateTime", "LogAppendTime"),
        dynamic=True,
    )
    log_message_timestamp_before_max_ms: int = setting(
        Kind.LONG,
        LONG_MAX,
        "How far behind the broker's clock a producer's timestamp may lie. Any but the default has every record read.",
        low=0,
        dynamic=True,
    )
    log_message_timestamp_after_max_ms: int = setting(
        Kind.LONG, 3_600_000, "How far ahead of the broker's clock a producer's timestamp may lie.", low=0, dynamic=True
    )
    compression_type: str = setting(
        Kind.STRING,
        "producer",
        "The codec of what is stored: the producer's own, or one that the broker compresses with where it is another.",
        choices=COMPRESSION_TYPES,
        dynamic=True,
    )
    compression_gzip_level: int = setting(
        Kind.INT,
        -1,
        "The level where the broker compresses with gzip; -1 is zlib's own.",
        low=-1,
        high=9,
        check=check_gzip_level,
        dynamic=True,
    )
    compression_lz4_level: int = setting(
        Kind.INT, 9, "The level where the broker compresses with lz4.", low=1, high=17, dynamic=True
    )
    compression_zstd_level: int = setting(
        Kind.INT, 3, "The level where the broker compresses with zstd.", low=-131072, high=22, dynamic=True
    )
    message_max_bytes: int = setting(
        Kind.INT, (1 << 20) + 12, "The largest record batch that is accepted.", low=0, dynamic=True
    )
    # -- retention
    log_retention_ms: int | None = setting(
        Kind.LONG,
        None,
        "Segments whose newest record is older are deleted; negative: never. Stronger than minutes, these than hours.",
        check=_check_retention,
        dynamic=True,
    )
    log_retention_minutes: int | None = setting(
        Kind.INT, None, "Segments whose newest record is older are deleted; negative: never.", check=_check_retention
    )
    log_retention_hours: int = setting(
        Kind.INT, 168, "Segments whose newest record is older are deleted; negative: never.", check=_check_retention
    )
    log_retention_bytes: int = setting(
        Kind.LONG,
        -1,
        "The oldest segments of a partition are deleted as long as this much remains; negative: never.",
        dynamic=True,
    )
    log_retention_check_interval_ms: int = setting(
        Kind.LONG, 300_000, "How often the partitions are searched for segments to delete.", low=1
    )
    log_retention_policy: str = setting(
        Kind.STRING,
        STANDARD,
        "What decides: standard (by time, then by bytes), time, bytes, or package.module:function of your own.",
        check=_check_policy,
    )
    log_scrub_interval_ms: int = setting(
        Kind.LONG,
        0,
        "Closed segments are read again this often, in idle time, to find what the disk has lost; 0: never.",
        low=0,
    )
    log_segment_delete_delay_ms: int = setting(
        Kind.LONG,
        60_000,
        "How long the files of deleted segments and topics stay on disk, for those who still read them.",
        low=0,
        dynamic=True,
    )
    # -- compaction
    log_cleanup_policy: tuple[str, ...] = setting(
        Kind.LIST,
        ("delete",),
        "Old segments are deleted (delete), keep only the last record of each key (compact), or both; empty: neither.",
        choices=CLEANUP_POLICIES,
        dynamic=True,
    )
    log_cleaner_enable: bool = setting(Kind.BOOLEAN, True, "Compacted topics are cleaned.")
    log_cleaner_threads: int = setting(
        Kind.INT,
        1,
        "Processes that clean. One: partitions are cleaned one after the other.",
        low=0,
        high=1,
    )
    log_cleaner_backoff_ms: int = setting(
        Kind.LONG, 15_000, "How long the cleaner rests when there is nothing to clean.", low=0, dynamic=True
    )
    log_cleaner_dedupe_buffer_size: int = setting(
        Kind.LONG,
        128 << 20,
        "Memory for the keys of one cleaning, 24 bytes each; where they do not fit, it takes several.",
        low=1 << 20,
        dynamic=True,
    )
    log_cleaner_io_max_bytes_per_second: float = setting(
        Kind.DOUBLE, sys.float_info.max, "How much the cleaner may read and write together in a second.", dynamic=True
    )
    log_cleaner_min_cleanable_ratio: float = setting(
        Kind.DOUBLE,
        0.5,
        "A compacted partition is cleaned once more than this share of its bytes was not looked at yet.",
        low=0,
        high=1,
        dynamic=True,
    )
    log_cleaner_min_compaction_lag_ms: int = setting(
        Kind.LONG, 0, "The shortest that a record stays as it is in a compacted topic.", low=0, dynamic=True
    )
    log_cleaner_max_compaction_lag_ms: int = setting(
        Kind.LONG,
        LONG_MAX,
        "The longest that a record waits for compaction, whatever the dirty ratio; segments are closed by it, too.",
        low=1,
        dynamic=True,
    )
    log_cleaner_delete_retention_ms: int = setting(
        Kind.LONG,
        86_400_000,
        "How long a compacted topic keeps its tombstones, and the markers of transactions that left nothing else.",
        low=0,
        dynamic=True,
    )
    # -- topics
    num_partitions: int = setting(Kind.INT, 1, "Partitions of a topic that was created without a number.", low=1)
    default_replication_factor: int = setting(
        Kind.INT, 1, "Replicas of a topic that was created without a number. One broker holds one.", low=1, high=1
    )
    auto_create_topics_enable: bool = setting(
        Kind.BOOLEAN, True, "A topic that a client asks for and allows to be created is created."
    )
    delete_topic_enable: bool = setting(Kind.BOOLEAN, True, "Topics may be deleted.")
    max_request_partition_size_limit: int = setting(
        Kind.INT, 2000, "Partitions that one DescribeTopicPartitions answer holds at most.", low=1
    )
    # -- the wire
    socket_request_max_bytes: int = setting(
        Kind.INT, 100 << 20, "A request that announces more than this closes its connection.", low=1
    )
    socket_receive_buffer_bytes: int = setting(
        Kind.INT, -1, "SO_RCVBUF of each connection; -1 leaves it to the system.", low=-1
    )
    socket_send_buffer_bytes: int = setting(
        Kind.INT, -1, "SO_SNDBUF of each connection; -1 leaves it to the system.", low=-1
    )
    socket_listen_backlog_size: int = setting(
        Kind.INT, 1024, "How many connections may wait to be accepted (the system may bound it lower).", low=1
    )
    num_network_threads: int = setting(
        Kind.INT, 3, "Processors: each owns its share of the connections and takes their requests in turn.", low=1
    )
    connections_max_idle_ms: int = setting(
        Kind.LONG, 600_000, "A connection with no request for this long is closed. Negative: never."
    )
    max_connections: int = setting(Kind.INT, INT_MAX, "Connections over this number are refused.", low=0, dynamic=True)
    max_connections_per_ip: int = setting(
        Kind.INT, INT_MAX, "Connections from one address over this number are refused.", low=0, dynamic=True
    )
    fetch_max_bytes: int = setting(
        Kind.INT, 55 << 20, "A fetch is answered with no more than this, but for its first batch.", low=1024
    )
    max_incremental_fetch_session_cache_slots: int = setting(
        Kind.INT, 1000, "Fetch sessions that are kept (KIP-227); 0 keeps none.", low=0
    )
    # -- groups and producers
    group_min_session_timeout_ms: int = setting(
        Kind.INT, 6000, "The shortest session timeout that a member of a group may ask for."
    )
    group_max_session_timeout_ms: int = setting(
        Kind.INT, 1_800_000, "The longest session timeout that a member of a group may ask for."
    )
    group_initial_rebalance_delay_ms: int = setting(
        Kind.INT, 3000, "How long an empty group waits for more members before its first assignment."
    )
    group_max_size: int = setting(Kind.INT, INT_MAX, "Members that a group may have.", low=1)
    offset_metadata_max_bytes: int = setting(Kind.INT, 4096, "The longest text that may go with a committed offset.")
    offsets_topic_num_partitions: int = setting(
        Kind.INT, 50, "Partitions of __consumer_offsets; fixed once the topic exists.", low=1
    )
    offsets_topic_segment_bytes: int = setting(Kind.INT, 100 << 20, "Segment size of __consumer_offsets.", low=1 << 20)
    offsets_retention_minutes: int = setting(
        Kind.INT, 10_080, "Offsets of a group without members are dropped after this long.", low=1
    )
    offsets_retention_check_interval_ms: int = setting(
        Kind.LONG, 600_000, "How often the groups are searched for offsets to drop.", low=1
    )
    transaction_max_timeout_ms: int = setting(
        Kind.INT, 900_000, "The longest time-out that a producer may ask for its transactions.", low=1
    )
    transactional_id_expiration_ms: int = setting(
        Kind.INT, 604_800_000, "A transactional id is forgotten when nothing happened to it for this long.", low=1
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = setting(
        Kind.INT, 10_000, "How often open transactions are searched for those whose time-out is over.", low=1
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        Kind.INT, 3_600_000, "How often the transactional ids are searched for those to forget.", low=1
    )
    transaction_state_log_num_partitions: int = setting(
        Kind.INT, 50, "Partitions of __transaction_state; fixed once the topic exists.", low=1
    )
    transaction_state_log_segment_bytes: int = setting(
        Kind.INT, 100 << 20, "Segment size of __transaction_state.", low=1 << 20
    )
    transaction_partition_verification_enable: bool = setting(
        Kind.BOOLEAN,
        True,
        "A transactional batch of an older client is refused where its partition was not added to the transaction. "
        "Without it, one that comes late can keep a partition's readers waiting until it is aborted by hand.",
        dynamic=True,
    )
    producer_id_expiration_ms: int = setting(
        Kind.INT,
        86_400_000,
        "A producer's sequence numbers are forgotten after it was silent for this long.",
        low=1,
        dynamic=True,
    )
    producer_id_expiration_check_interval_ms: int = setting(
        Kind.INT, 600_000, "How often the partitions are searched for producers to forget.", low=1
    )
    # Invariant: the names that were given as texts, for DescribeConfigs' sources; a subset of the table's names.
    given: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    # What was changed while the broker runs. Invariant: `alter` alone writes it, and the fields that follow it.
    dynamic: Dynamic = field(default_factory=Dynamic, repr=False, compare=False)

    def __post_init__(self) -> None:
        for declared in SETTINGS.values():
            value = getattr(self, declared.attribute)
            if value != declared.default:
                declared.validate(value)
        self._unite_ids()
        self._check_listeners()
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ConfigError(
                "group.min.session.timeout.ms",
                self.group_min_session_timeout_ms,
                f"must be at most group.max.session.timeout.ms, {self.group_max_session_timeout_ms}",
            )

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> tuple["BrokerConfig", list[str]]:
        """The config that `texts` (name -> text) describe, and a warning line for each name that nothing acts on."""
        values: dict[str, Any] = {}
        warnings: list[str] = []
        for name, text in texts.items():
            declared = SETTINGS.get(name)
            if declared is not None:
                values[declared.attribute] = declared.parse(text)
            else:
                warnings.append(_warn_of(name, text))
        return cls(**values, given=frozenset(texts.keys() & SETTINGS.keys())), warnings

    @property
    def data_dirs(self) -> tuple[Path, ...]:
        """Where partitions are."""
        return tuple(map(Path, self.log_dirs or self.log_dir))

    @property
    def data_dir(self) -> Path:
        """Where the metadata journal is."""
        return Path(self.metadata_log_dir) if self.metadata_log_dir else self.data_dirs[0]

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The listeners to open, in the order given."""
        skipped = {name.upper() for name in self.controller_listener_names}
        return tuple(each for each in map(parse_endpoint, self.listeners) if each.name not in skipped)

    @property
    def advertised(self) -> Mapping[str, Endpoint]:
        """By listener name the address that clients are told; one that is missing tells the client's own."""
        return {each.name: each for each in map(parse_endpoint, self.advertised_listeners or ())}

    def alter(self, broker: Mapping[str, str], cluster: Mapping[str, str]) -> set[str]:
        """Takes over what is changed for this broker and for the cluster: from here on these alone are.

        The names whose value is another now. ConfigError where one, or two together, cannot be: nothing has changed.
        """
        texts = {**cluster, **broker}
        values = {**self.dynamic.started, **{name: _dynamic(name, text).parse(text) for name, text in texts.items()}}
        altered = replace(self, **{SETTINGS[name].attribute: value for name, value in values.items()})
        changed = {name for name in values if values[name] != getattr(self, SETTINGS[name].attribute)}
        started = {name: self._started(name) for name in texts}
        self.dynamic.broker, self.dynamic.cluster, self.dynamic.started = dict(broker), dict(cluster), started
        for name in changed:
            attribute = SETTINGS[name].attribute
            object.__setattr__(self, attribute, getattr(altered, attribute))
        return changed

    def source(self, name: str) -> Source:
        """Where the value of a config comes from."""
        if name in self.dynamic.broker:
            return Source.DYNAMIC_BROKER_CONFIG
        if name in self.dynamic.cluster:
            return Source.DYNAMIC_DEFAULT_BROKER_CONFIG
        given = name in self.given or self._started(name) != SETTINGS[name].default
        return Source.STATIC_BROKER_CONFIG if given else Source.DEFAULT_CONFIG

    def _started(self, name: str) -> Value:
        return self.dynamic.started.get(name, getattr(self, SETTINGS[name].attribute))

    def describe(self, names: Iterable[str] | None = None) -> list[ConfigEntry]:
        """The configs as DescribeConfigs shows them: all, or those of `names` that exist."""
        wanted = SETTINGS.keys() if names is None else [name for name in names if name in SETTINGS]
        return [self._entry(SETTINGS[name]) for name in wanted]

    def describe_cluster(self, names: Iterable[str] | None = None) -> list[ConfigEntry]:
        """What is changed for every broker of the cluster, as DescribeConfigs shows it."""
        source = Source.DYNAMIC_DEFAULT_BROKER_CONFIG
        return [
            ConfigEntry(name, text, source, declared.kind, declared.doc, (Synonym(name, text, source),), False)
            for name, text in self.dynamic.cluster.items()
            if (declared := SETTINGS[name]) and (names is None or name in names)
        ]

    def synonyms(self, name: str) -> tuple[Synonym, ...]:
        """Where the value of a config could come from, strongest first: as changed, as given, then the default."""
        declared = SETTINGS[name]
        found: list[Synonym] = []
        if name in self.dynamic.broker:
            found.append(Synonym(name, self.dynamic.broker[name], Source.DYNAMIC_BROKER_CONFIG))
        if name in self.dynamic.cluster:
            found.append(Synonym(name, self.dynamic.cluster[name], Source.DYNAMIC_DEFAULT_BROKER_CONFIG))
        started = self._started(name)
        if name in self.given or started != declared.default:
            found.append(Synonym(name, declared.format(started), Source.STATIC_BROKER_CONFIG))
        if declared.default is not None:
            found.append(Synonym(name, declared.format(declared.default), Source.DEFAULT_CONFIG))
        return tuple(found)

    def _entry(self, declared: Setting) -> ConfigEntry:
        value: Value = getattr(self, declared.attribute)
        name = declared.name
        text, synonyms = declared.format(value), self.synonyms(name)
        return ConfigEntry(
            name, text, self.source(name), declared.kind, declared.doc, synonyms, read_only=not declared.dynamic
        )

    def _unite_ids(self) -> None:
        """node.id and broker.id are one number under two names, as in Kafka."""
        if self.broker_id == -1:
            object.__setattr__(self, "broker_id", self.node_id)
        elif self.node_id == SETTINGS["node.id"].default and "node.id" not in self.given:
            object.__setattr__(self, "node_id", self.broker_id)
        elif self.node_id != self.broker_id:
            raise ConfigError("broker.id", self.broker_id, f"must equal node.id, {self.node_id}, where both are set")

    def _check_listeners(self) -> None:
        protocols = dict(pair.split(":") for pair in self.listener_security_protocol_map.split(",") if pair)
        protocols = {name.strip().upper(): protocol.strip().upper() for name, protocol in protocols.items()}
        if not self.endpoints:
            raise ConfigError("listeners", ",".join(self.listeners), "must have one that is not a controller's")
        for endpoint in self.endpoints:
            protocol = protocols.get(endpoint.name)
            if protocol is None:
                reason = f"listener {endpoint.name} is missing in listener.security.protocol.map"
                raise ConfigError("listeners", ",".join(self.listeners), reason)
            if protocol != "PLAINTEXT":
                reason = f"listener {endpoint.name} asks for {protocol}: only PLAINTEXT can be listened on yet"
                raise ConfigError("listeners", ",".join(self.listeners), reason)
        self._check_advertised({each.name for each in map(parse_endpoint, self.listeners)})

    def _check_advertised(self, names: set[str]) -> None:
        for endpoint in self.advertised.values():
            if endpoint.name not in names:
                reason = f"{endpoint.name} is not one of the listeners {', '.join(sorted(names))}"
            elif endpoint.host in _ANY_HOST or endpoint.port == 0:
                reason = "must have a host and a port that clients can connect to"
            else:
                continue
            raise ConfigError("advertised.listeners", f"{endpoint.name}://{endpoint.address}", reason)


SETTINGS: Mapping[str, Setting] = settings_of(BrokerConfig)


def _dynamic(name: str, text: str) -> Setting:
    declared = SETTINGS.get(name)
    if declared is None or not declared.dynamic:
        raise ConfigError(name, text, "cannot be changed while the broker runs")
    return declared


def _warn_of(name: str, text: str) -> str:
    from .kafka_names import verdict  # a long table, needed only where a file has names of other brokers

    return verdict(name, text)
