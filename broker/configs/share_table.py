"""The table of the configs of share groups (KIP-932) and of their coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from .definition import INT, LIST, SHORT, define


# Never made by itself: BrokerConfig takes its fields, so that no methods are generated for it here.
@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class ShareTable:
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
