"""The tables of the configs of the broker itself (id, listeners, connections, what new topics get), and of quotas."""

from __future__ import annotations

from .definition import BOOLEAN, INT, INT_MAX, LIST, LONG, STRING, ConfigError, ConfigTable, define
from .endpoint import check_address_limits, check_endpoints, check_http_listener, check_protocol_map

# Kafka's names of the two rules by which a leader tells a consumer where to read.
LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def _check_selector(name: str) -> str | None:
    known = (LEADER_SELECTOR, RACK_AWARE_SELECTOR)
    return None if name in known else f"must be one of {', '.join(known)}"


class ServerTable(ConfigTable):
    """Configs of the broker itself, one row each."""

    # fmt: off
    # -- Identity and listeners
    node_id: int = define(INT, 1, low=0,
        doc="The number that names this broker to clients.")
    broker_id: int = define(INT, -1, low=-1,
        doc="The older name of node.id; -1: only node.id is used.")
    broker_rack: str | None = define(STRING, None,
        doc="The rack or zone of this broker, which Metadata tells clients.")
    listeners: tuple[str, ...] = define(LIST, ("PLAINTEXT://127.0.0.1:9092",), check=check_endpoints,
        doc="The addresses to listen on: NAME://HOST:PORT. No host means every interface, port 0 takes a free one.")
    advertised_listeners: tuple[str, ...] | None = define(LIST, None, check=check_endpoints,
        doc="The addresses that clients are told, by listener name. Unset: the host in listeners, or "
            "where that is every interface, the address that the client used.")
    listener_security_protocol_map: str = define(STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", check=check_protocol_map,
        doc="The security protocol of each listener name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.")
    controller_listener_names: tuple[str, ...] = define(LIST, (),
        doc="Listeners of a controller of KRaft. Odradek has none and does not open them.")

    # -- Metrics and health
    http_listener: str = define(STRING, "", check=check_http_listener,
        doc="HOST:PORT of an HTTP endpoint for /live, /ready and /metrics (Prometheus). A port alone listens on "
            "127.0.0.1, port 0 takes a free one; empty: none. It has no authentication. Kafka has no such config.")
    metrics_max_topics: int = define(INT, 1000, low=0,
        doc="Topics with metrics of their own; all others are summed under one label. Kafka has no such limit.")
    metrics_max_groups: int = define(INT, 1000, low=0,
        doc="Consumer groups with metrics of their own; all others are summed. Kafka has no such limit.")

    # -- Topics
    num_partitions: int = define(INT, 1, low=1,
        doc="Partitions of a new topic, if its creator names no number.")
    default_replication_factor: int = define(INT, 1, low=1,
        doc="Replicas of a new topic in a cluster, if its creator names no number. A broker that is alone holds one.")
    auto_create_topics_enable: bool = define(BOOLEAN, True,
        doc="Create a missing topic when a client asks for its metadata and allows that.")
    delete_topic_enable: bool = define(BOOLEAN, True,
        doc="Allow clients to delete topics.")
    max_request_partition_size_limit: int = define(INT, 2000, low=1,
        doc="The most partitions in one DescribeTopicPartitions response.")

    # -- Replication, in a cluster
    num_replica_fetchers: int = define(INT, 1, low=1,
        doc="Connections over which this broker fetches from each leader that it follows.")
    replica_fetch_min_bytes: int = define(INT, 1,
        doc="A follower's fetch waits at the leader until there is so much.")
    replica_fetch_wait_max_ms: int = define(INT, 500,
        doc="A follower's fetch waits at the leader no longer than this. At most replica.socket.timeout.ms and "
            "replica.lag.time.max.ms.")
    replica_fetch_max_bytes: int = define(INT, 1 << 20, low=0,
        doc="The most bytes of one partition in a response to a follower. The first batch may be larger.")
    replica_fetch_response_max_bytes: int = define(INT, 10 << 20, low=0,
        doc="The most bytes in a response to a follower. The first batch may be larger.")
    replica_fetch_backoff_ms: int = define(INT, 1000, low=0,
        doc="A follower waits so long after an error before it fetches again.")
    replica_socket_timeout_ms: int = define(INT, 30_000,
        doc="A request to another broker that gets no response for this long is given up.")
    replica_lag_time_max_ms: int = define(LONG, 30_000,
        doc="A follower that has not caught up for this long leaves the ISR.")
    replica_high_watermark_checkpoint_interval_ms: int = define(LONG, 5000,
        doc="How often the broker writes down the high watermarks.")
    replica_selector_class: str | None = define(STRING, None, check=_check_selector,
        doc="Which replica consumers are told to read from: the leader, or one in their own rack (KIP-392).")

    # -- Connections
    socket_request_max_bytes: int = define(INT, 100 << 20, low=1,
        doc="The largest request. A connection that announces a larger one is closed.")
    queued_max_request_bytes: int = define(LONG, 256 << 20, low=-1,
        doc="Memory for requests that are still arriving, over all connections. Without room, connections wait; "
            "a request that arrives for 10 seconds then loses its connection. -1: no bound.")
    queued_max_response_bytes: int = define(LONG, 256 << 20, low=-1,
        doc="Memory for responses that clients have not read, over all connections. Without room, requests wait whose "
            "responses may be large; a client that reads nothing for 10 seconds then loses its connection. -1: no "
            "bound. Kafka has no such limit.")
    socket_receive_buffer_bytes: int = define(INT, -1, low=-1,
        doc="SO_RCVBUF of each connection; -1: the operating system decides.")
    socket_send_buffer_bytes: int = define(INT, 102400, low=-1,
        doc="SO_SNDBUF of each connection; -1: the operating system decides.")
    socket_listen_backlog_size: int = define(INT, 1024, low=1,
        doc="How many connections may wait to be accepted. The operating system may allow fewer.")
    num_network_threads: int = define(INT, 3, low=1,
        doc="Processors. Each owns its share of the connections and takes their requests in turn.")
    connections_max_idle_ms: int = define(LONG, 600_000,
        doc="A connection without a request for this long is closed; negative: never.")
    max_connections: int = define(INT, INT_MAX, low=1, dynamic=True,
        doc="Connections above this number are refused.")
    max_connections_per_ip: int = define(INT, INT_MAX, low=0, dynamic=True,
        doc="Connections from one address above this number are refused.")
    max_connections_per_ip_overrides: str = define(STRING, "", check=check_address_limits, dynamic=True,
        doc="ADDRESS:NUMBER, separated by commas: addresses with another number than max.connections.per.ip.")
    fetch_max_bytes: int = define(INT, 55 << 20, low=1024,
        doc="The most bytes of records in a Fetch response. Its first batch may be larger.")
    max_incremental_fetch_session_cache_slots: int = define(INT, 1000, low=0,
        doc="The most fetch sessions that the broker remembers (KIP-227); 0: none.")

    # -- Direct read
    direct_read_max_leases: int = define(INT, 1000, low=0,
        doc="The most leases of segments that readers on this machine may hold at a time; 0: they must fetch.")
    direct_read_lease_ms: int = define(LONG, 60_000, low=100,
        doc="A lease that its reader does not renew for so long ends, and its files may go.")
    direct_read_lease_max_ms: int = define(LONG, 3_600_000, low=100,
        doc="A lease ends after this time at the latest, so that no reader holds disk space for ever.")
    # fmt: on


class QuotaTable(ConfigTable):
    """How quotas are counted, one row each. What they are is set by AlterClientQuotas."""

    # fmt: off
    quota_window_num: int = define(INT, 11, low=1,
        doc="The samples over which the rates of clients' quotas are counted.")
    quota_window_size_seconds: int = define(INT, 1, low=1,
        doc="The time of one of these samples.")
    controller_quota_window_num: int = define(INT, 11, low=1,
        doc="How many times controller.quota.window.size.seconds a client may save up of controller_mutation_rate.")
    controller_quota_window_size_seconds: int = define(INT, 1, low=1,
        doc="See controller.quota.window.num.")
    # fmt: on


def check_connections(table: ServerTable) -> None:
    """Raise ConfigError where no address may connect."""
    if not table.max_connections_per_ip and not table.max_connections_per_ip_overrides:
        why = "can be 0 only with max.connections.per.ip.overrides"
        raise ConfigError("max.connections.per.ip", 0, why)


def check_fetch_wait(table: ServerTable) -> None:
    """Raise ConfigError where followers that have nothing to fetch would lag or be given up, as Kafka does."""
    wait_ms = table.replica_fetch_wait_max_ms
    for limit_ms, name in (
        (table.replica_socket_timeout_ms, "replica.socket.timeout.ms"),
        (table.replica_lag_time_max_ms, "replica.lag.time.max.ms"),
    ):
        if wait_ms > limit_ms:
            raise ConfigError("replica.fetch.wait.max.ms", wait_ms, f"must be at most {name}, {limit_ms}")
