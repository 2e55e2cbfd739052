"""The tables of the configs of groups, committed offsets, transactions, producer ids, and share groups (KIP-932)."""

from __future__ import annotations

from ...storage.config import LogConfig
from .definition import BOOLEAN, INT, INT_MAX, LIST, LONG, SHORT, STRING, ConfigTable, define

_MIGRATION_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")


def _check_policy(value: str) -> str | None:
    return None if value.lower() in _MIGRATION_POLICIES else "must be one of " + ", ".join(_MIGRATION_POLICIES)


def _check_assignors(value: tuple[str, ...]) -> str | None:
    return None if value and len(set(value)) == len(value) else "must name an assignor, and each once"


def _check_rebalance_protocols(value: tuple[str, ...]) -> str | None:
    return None if "classic" in value else "must name classic: Kafka's older clients know no other protocol"


class CoordinatorTable(ConfigTable):
    """Configs of the coordinators and of producers, one row each."""

    # fmt: off
    # -- Groups
    group_min_session_timeout_ms: int = define(INT, 6000,
        doc="The shortest session timeout that a member of a group may ask for.")
    group_max_session_timeout_ms: int = define(INT, 1_800_000,
        doc="The longest session timeout that a member of a group may ask for.")
    group_initial_rebalance_delay_ms: int = define(INT, 3000,
        doc="How long an empty group waits for more members before its first assignment.")
    group_max_size: int = define(INT, INT_MAX, low=1,
        doc="The most members of a group.")

    # -- Consumer groups of KIP-848
    group_consumer_session_timeout_ms: int = define(INT, 45_000, low=1,
        doc="How long a member of a consumer group may send no heartbeat before it is removed.")
    group_consumer_heartbeat_interval_ms: int = define(INT, 5000, low=1,
        doc="How often the members of a consumer group are told to send a heartbeat.")
    group_consumer_assignment_interval_ms: int = define(INT, 1000, low=0, dynamic=True,
        doc="The least time between two assignments of a consumer group. Members that come meanwhile share the next.")
    group_consumer_min_session_timeout_ms: int = define(INT, 45_000, low=1,
        doc="The shortest consumer.session.timeout.ms of a group.")
    group_consumer_max_session_timeout_ms: int = define(INT, 60_000, low=1,
        doc="The longest consumer.session.timeout.ms of a group.")
    group_consumer_min_heartbeat_interval_ms: int = define(INT, 5000, low=1,
        doc="The shortest consumer.heartbeat.interval.ms of a group.")
    group_consumer_max_heartbeat_interval_ms: int = define(INT, 15_000, low=1,
        doc="The longest consumer.heartbeat.interval.ms of a group.")
    group_consumer_min_assignment_interval_ms: int = define(INT, 0, low=0,
        doc="The shortest consumer.assignment.interval.ms of a group.")
    group_consumer_max_assignment_interval_ms: int = define(INT, 15_000, low=0,
        doc="The longest consumer.assignment.interval.ms of a group.")
    group_consumer_regex_refresh_interval_ms: int = define(INT, 600_000, low=10_000,
        doc="How often the topics that match the regular expressions of a consumer group are looked up again, though "
            "no topic and no ACL has changed.")
    group_consumer_assignors: tuple[str, ...] = define(LIST, ("uniform", "range"), choices=("uniform", "range"),
        check=_check_assignors,
        doc="The assignors of consumer groups. The first one is for groups whose members ask for none.")
    group_consumer_migration_policy: str = define(STRING, "bidirectional", check=_check_policy,
        doc="How a group with members may change its kind: upgrade (a first member of the consumer protocol makes a "
            "classic group a consumer group), downgrade (when its last one leaves), bidirectional or disabled.")
    group_coordinator_rebalance_protocols: tuple[str, ...] = define(LIST, ("classic", "consumer"),
        choices=("classic", "consumer"), check=_check_rebalance_protocols,
        doc="The protocols that members of groups may use. Without consumer, ConsumerGroupHeartbeat and "
            "ConsumerGroupDescribe are answered UNSUPPORTED_VERSION.")
    group_consumer_max_size: int = define(INT, INT_MAX, low=1,
        doc="The most members of a consumer group.")

    # -- Committed offsets
    offset_metadata_max_bytes: int = define(INT, 4096,
        doc="The longest metadata text of a committed offset.")
    offsets_topic_num_partitions: int = define(INT, 50, low=1,
        doc="Partitions of __consumer_offsets; fixed once the topic exists.")
    offsets_topic_segment_bytes: int = define(INT, 100 << 20, low=1 << 20,
        doc="Segment size of __consumer_offsets.")
    offsets_retention_minutes: int = define(INT, 10_080, low=1,
        doc="How long the offsets of a group without members are kept.")
    offsets_retention_check_interval_ms: int = define(LONG, 600_000, low=1,
        doc="How often the broker looks for offsets that have expired.")

    # -- Transactions
    transaction_max_timeout_ms: int = define(INT, 900_000, low=1,
        doc="The longest transaction timeout that a producer may ask for.")
    transactional_id_expiration_ms: int = define(INT, 604_800_000, low=1,
        doc="How long a transactional id is kept after its last use.")
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = define(INT, 10_000, low=1,
        doc="How often the broker looks for transactions that have timed out, to abort them.")
    transaction_remove_expired_transaction_cleanup_interval_ms: int = define(INT, 3_600_000, low=1,
        doc="How often the broker looks for transactional ids that have expired.")
    transaction_state_log_num_partitions: int = define(INT, 50, low=1,
        doc="Partitions of __transaction_state; fixed once the topic exists.")
    transaction_state_log_segment_bytes: int = define(INT, 100 << 20, low=1 << 20,
        doc="Segment size of __transaction_state.")
    transaction_partition_verification_enable: bool = define(BOOLEAN, True, dynamic=True,
        doc="Reject a transactional batch of an older client if its partition was not added to the transaction. "
            "Without this check, a late batch can block the partition's readers until someone aborts it by hand.")

    add_partitions_to_txn_retry_backoff_ms: int = define(INT, 20, low=1,
        doc="How long a leader waits before it asks the coordinator on another broker again to add a partition to a "
            "transaction, while the producer's last one ends.")
    add_partitions_to_txn_retry_backoff_max_ms: int = define(INT, 100, low=0,
        doc="How long a request about a transaction waits at most for the end of the producer's last one, before the "
            "producer is told to try again.")

    # -- Producers
    producer_id_expiration_ms: int = define(INT, LogConfig().producer_id_expiration_ms, low=1, dynamic=True,
        doc="How long the sequence numbers of a silent producer are kept.")
    max_producer_ids: int = define(INT, 250_000, low=1,
        doc="How many producer ids all partitions together remember, at half a KiB or more each. Past the limit, a "
            "batch of an id that is new to its partition gets THROTTLING_QUOTA_EXCEEDED, and producers that were "
            "silent for 15 minutes are forgotten. Kafka has no such limit.")
    producer_id_expiration_check_interval_ms: int = define(INT, 600_000, low=1,
        doc="How often the broker looks for producers that have expired.")
    # fmt: on


class ShareTable(ConfigTable):
    """Configs of share groups, one row each."""

    # fmt: off
    # -- Members
    group_share_session_timeout_ms: int = define(INT, 45_000, low=1,
        doc="How long a member of a share group may send no heartbeat before it is removed.")
    group_share_heartbeat_interval_ms: int = define(INT, 5000, low=1,
        doc="How often the members of a share group are told to send a heartbeat.")
    group_share_assignment_interval_ms: int = define(INT, 1000, low=0, dynamic=True,
        doc="The least time between two assignments of a share group. Members that come meanwhile share the next.")
    group_share_min_session_timeout_ms: int = define(INT, 45_000, low=1,
        doc="The shortest share.session.timeout.ms of a group.")
    group_share_max_session_timeout_ms: int = define(INT, 60_000, low=1,
        doc="The longest share.session.timeout.ms of a group.")
    group_share_min_heartbeat_interval_ms: int = define(INT, 5000, low=1,
        doc="The shortest share.heartbeat.interval.ms of a group.")
    group_share_max_heartbeat_interval_ms: int = define(INT, 15_000, low=1,
        doc="The longest share.heartbeat.interval.ms of a group.")
    group_share_min_assignment_interval_ms: int = define(INT, 0, low=0,
        doc="The shortest share.assignment.interval.ms of a group.")
    group_share_max_assignment_interval_ms: int = define(INT, 15_000, low=0,
        doc="The longest share.assignment.interval.ms of a group.")

    group_share_max_share_sessions: int = define(INT, 2000, low=1,
        doc="How many members of share groups may fetch from this broker at the same time.")

    group_share_assignors: tuple[str, ...] = define(LIST, ("simple",), choices=("simple",),
        check=lambda value: None if len(value) == 1 else "must name one assignor",
        doc="The assignor of share groups.")
    group_share_max_size: int = define(INT, 200, low=1, high=1000,
        doc="The most members of a share group.")

    # -- Records in flight
    group_share_record_lock_duration_ms: int = define(INT, 30_000, low=1000, high=3_600_000,
        doc="How long a member of a share group has a record for itself before others may get it.")
    group_share_min_record_lock_duration_ms: int = define(INT, 15_000, low=1000, high=30_000,
        doc="The shortest share.record.lock.duration.ms of a group.")
    group_share_max_record_lock_duration_ms: int = define(INT, 60_000, low=30_000, high=3_600_000,
        doc="The longest share.record.lock.duration.ms of a group.")
    group_share_delivery_count_limit: int = define(INT, 5, low=2, high=10,
        doc="How often a record is delivered to a share group before it is given up.")
    group_share_min_delivery_count_limit: int = define(INT, 2, low=2, high=5,
        doc="The lowest share.delivery.count.limit of a group.")
    group_share_max_delivery_count_limit: int = define(INT, 10, low=5, high=25,
        doc="The highest share.delivery.count.limit of a group.")
    group_share_partition_max_record_locks: int = define(INT, 2000, low=100, high=10_000,
        doc="How many records of a partition may be in flight in a share group.")
    group_share_min_partition_max_record_locks: int = define(INT, 100, low=100, high=2000,
        doc="The lowest share.partition.max.record.locks of a group.")
    group_share_max_partition_max_record_locks: int = define(INT, 4000, low=2000, high=10_000,
        doc="The highest share.partition.max.record.locks of a group.")

    # -- Dead letters
    errors_deadletterqueue_auto_create_topics_enable: bool = define(BOOLEAN, False, dynamic=True,
        doc="Whether the topic of a share group's dead letters is created with the first of them.")
    errors_deadletterqueue_topic_name_prefix: str = define(STRING, "dlq.", dynamic=True,
        doc="What the name of a topic of dead letters begins with; empty: every name will do.")

    # -- The share coordinator
    share_coordinator_state_topic_num_partitions: int = define(INT, 50, low=1,
        doc="Partitions of __share_group_state; fixed once the topic exists.")
    share_coordinator_state_topic_segment_bytes: int = define(INT, 100 << 20, low=1 << 20,
        doc="Segment size of __share_group_state.")
    share_coordinator_state_topic_replication_factor: int = define(SHORT, 3, low=1,
        doc="Replicas of __share_group_state in a cluster. Until as many brokers are there, the topic is not created.")
    share_coordinator_state_topic_min_isr: int = define(SHORT, 2, low=1,
        doc="How many replicas of __share_group_state must be in sync for a write in a cluster.")
    share_coordinator_snapshot_update_records_per_snapshot: int = define(INT, 500, low=0, high=500,
        doc="After how many updates the state of a partition is written as a whole.")
    share_coordinator_state_topic_prune_interval_ms: int = define(INT, 300_000, low=1,
        doc="How often the records of __share_group_state that no state needs any more are deleted.")
    share_coordinator_cold_partition_snapshot_interval_ms: int = define(INT, 300_000, low=1,
        doc="How long a state may be unchanged before it is written again as a whole, so that what is older can go.")
    # fmt: on
