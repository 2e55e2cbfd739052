"""The tables of the configs of a cluster (the controller, controlled shutdown), and of a secure ZooKeeper."""

from __future__ import annotations

from .definition import BOOLEAN, INT, LIST, LONG, LONG_MAX, PASSWORD, SHORT, STRING, ConfigError, ConfigTable, define

# The rate of replication that is not throttled.
NO_LIMIT = LONG_MAX
_VERSIONS = ("TLSv1.2", "TLSv1.3")


class ClusterTable(ConfigTable):
    """Configs of a broker as a member of a cluster, one row each. They act where zookeeper.connect is set."""

    # fmt: off
    # -- Membership
    zookeeper_connect: str | None = define(STRING, None,
        doc="HOST:PORT,HOST:PORT/CHROOT of the ZooKeeper of the cluster to join. Unset: the broker is alone.")
    zookeeper_session_timeout_ms: int = define(INT, 18_000, low=1,
        doc="A broker that ZooKeeper has not heard of for this long counts as dead.")
    zookeeper_connection_timeout_ms: int | None = define(INT, None,
        doc="How long a start waits for ZooKeeper. Unset: zookeeper.session.timeout.ms.")
    broker_id_generation_enable: bool = define(BOOLEAN, True,
        doc="In a cluster, a broker without broker.id gets the next free number above reserved.broker.max.id.")
    reserved_broker_max_id: int = define(INT, 1000, low=0,
        doc="The highest number that may be chosen as broker.id.")

    # -- Internal topics
    offsets_topic_replication_factor: int = define(SHORT, 3, low=1,
        doc="Replicas of __consumer_offsets in a cluster. It is not created while fewer brokers are alive. A broker "
            "that is alone holds one.")
    transaction_state_log_replication_factor: int = define(SHORT, 3, low=1,
        doc="Replicas of __transaction_state in a cluster. It is not created while fewer brokers are alive. A broker "
            "that is alone holds one.")
    transaction_state_log_min_isr: int = define(INT, 2, low=1,
        doc="min.insync.replicas of __transaction_state; at most as many as there are replicas.")

    # -- Throttled replication
    leader_replication_throttled_rate: int = define(LONG, NO_LIMIT, low=0, dynamic=True,
        doc="Bytes a second that this broker sends to followers of replicas in leader.replication.throttled.replicas. "
            "Followers in sync never wait.")
    follower_replication_throttled_rate: int = define(LONG, NO_LIMIT, low=0, dynamic=True,
        doc="Bytes a second that this broker fetches of replicas in follower.replication.throttled.replicas. Replicas "
            "in sync never wait.")
    replication_quota_window_num: int = define(INT, 11, low=1,
        doc="Samples over which the rates of throttled replication are measured.")
    replication_quota_window_size_seconds: int = define(INT, 1, low=1,
        doc="How long each of these samples is.")

    # -- The controller
    controller_socket_timeout_ms: int = define(INT, 30_000,
        doc="A request of the controller to a broker, or of a broker to the controller, that gets no response for "
            "this long is given up.")
    unclean_leader_election_enable: bool = define(BOOLEAN, False, topic="unclean.leader.election.enable", dynamic=True,
        doc="Where all in-sync replicas are dead, a replica that lacks records may lead: acknowledged records are "
            "lost. A broker that is alone elects nothing.")
    auto_leader_rebalance_enable: bool = define(BOOLEAN, True,
        doc="The controller makes preferred replicas leaders again from time to time.")
    leader_imbalance_check_interval_seconds: int = define(LONG, 300, low=1,
        doc="How often the controller looks for preferred replicas that do not lead.")
    leader_imbalance_per_broker_percentage: int = define(INT, 10,
        doc="The controller moves leaders back to a broker that lacks more than this share of those that it should "
            "lead.")

    # -- Stop
    controlled_shutdown_enable: bool = define(BOOLEAN, True,
        doc="A broker that stops first has the controller move its leaders to other brokers.")
    controlled_shutdown_max_retries: int = define(INT, 3,
        doc="How often a broker that stops asks again while it still leads partitions.")
    controlled_shutdown_retry_backoff_ms: int = define(LONG, 5000,
        doc="How long a broker that stops waits before it asks again.")
    # fmt: on


def _check_identification(name: str) -> str | None:
    return None if name.lower() in ("", "https") else "must be HTTPS, or empty for no check of the host name"


class ZooKeeperTable(ConfigTable):
    """Configs of the session with a secure ZooKeeper, one row each. They act where zookeeper.connect is set."""

    # fmt: off
    zookeeper_ssl_client_enable: bool = define(BOOLEAN, False,
        doc="ZooKeeper is reached by TLS, at its secureClientPort.")
    zookeeper_ssl_keystore_location: str | None = define(STRING, None,
        doc="A PEM file with the key and the certificate that ZooKeeper is shown. Unset: none.")
    zookeeper_ssl_keystore_password: str | None = define(PASSWORD, None,
        doc="The password of an encrypted key in zookeeper.ssl.keystore.location.")
    zookeeper_ssl_keystore_type: str | None = define(STRING, None,
        doc="The type of that key store: PEM is the only one that can be read. Unset: PEM if the name ends with .pem.")
    zookeeper_ssl_truststore_location: str | None = define(STRING, None,
        doc="A PEM file with the certificates of the authorities that sign ZooKeeper's. Unset: those of the system.")
    zookeeper_ssl_truststore_password: str | None = define(PASSWORD, None,
        doc="Rejected: a PEM file has no password.")
    zookeeper_ssl_truststore_type: str | None = define(STRING, None,
        doc="The type of that trust store: PEM is the only one that can be read. Unset: PEM if the name ends with "
            ".pem.")
    zookeeper_ssl_protocol: str = define(STRING, "TLSv1.2", choices=_VERSIONS,
        doc="The version of TLS that is spoken with ZooKeeper, where zookeeper.ssl.enabled.protocols is empty.")
    zookeeper_ssl_enabled_protocols: tuple[str, ...] = define(LIST, (), choices=_VERSIONS,
        doc="The versions of TLS that may be spoken with ZooKeeper.")
    zookeeper_ssl_cipher_suites: tuple[str, ...] = define(LIST, (),
        doc="The cipher suites that may be used with ZooKeeper, by IANA's names. Empty: those of OpenSSL.")
    zookeeper_ssl_endpoint_identification_algorithm: str = define(STRING, "HTTPS", check=_check_identification,
        doc="HTTPS: ZooKeeper's certificate must name the host of zookeeper.connect. Empty: any name will do.")
    zookeeper_set_acl: bool = define(BOOLEAN, False,
        doc="Only who makes a znode may change it, and read it where users or configs of brokers are in it. All "
            "brokers of a cluster need the same identity at ZooKeeper, by TLS or by a login.")
    java_security_auth_login_config: str | None = define(STRING, None,
        doc="A JAAS file. Its section Client has the login at ZooKeeper, by DIGEST-MD5. Java takes this as a property "
            "of its own (-Djava.security.auth.login.config in KAFKA_OPTS).")
    # fmt: on


def check_zookeeper(table: ZooKeeperTable) -> None:
    """Raise ConfigError where znodes should have an owner and this broker has no identity."""
    has_certificate = table.zookeeper_ssl_client_enable and table.zookeeper_ssl_keystore_location is not None
    if table.zookeeper_set_acl and not has_certificate and table.java_security_auth_login_config is None:
        why = (
            "needs an identity at ZooKeeper: zookeeper.ssl.client.enable with zookeeper.ssl.keystore.location, or "
            "java.security.auth.login.config with a section Client"
        )
        raise ConfigError("zookeeper.set.acl", "true", why)
