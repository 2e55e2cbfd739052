"""The table of what the broker serves: API keys and versions. It *is* the ApiVersions response."""

from __future__ import annotations

from typing import NamedTuple

from ...protocol.apis import ApiKey


class Route(NamedTuple):
    """The versions of an API that are served; `offered_from` is the lowest that ApiVersions names, where that is
    lower.
    """

    key: ApiKey
    min_version: int
    max_version: int
    offered_from: int | None = None

    @property
    def advertised_min(self) -> int:
        return self.min_version if self.offered_from is None else self.offered_from


# Adding a line here is the only way to offer an API; tests/broker/test_dispatch.py holds every pair against a test.
ROUTES = (
    # Produce 0-2, Fetch 0-3 and ListOffsets 0 are more than Kafka 4 has: message sets, for clients before 0.11.
    Route(ApiKey.PRODUCE, 0, 13),
    Route(ApiKey.FETCH, 0, 18),
    Route(ApiKey.LIST_OFFSETS, 0, 11),
    Route(ApiKey.METADATA, 0, 13),
    # The same clients' OffsetCommit 0 and 1 and OffsetFetch 0, which once went to ZooKeeper, go to the group's offsets.
    Route(ApiKey.OFFSET_COMMIT, 0, 10),
    Route(ApiKey.OFFSET_FETCH, 0, 10),
    Route(ApiKey.FIND_COORDINATOR, 0, 6),
    Route(ApiKey.JOIN_GROUP, 0, 9),
    Route(ApiKey.HEARTBEAT, 0, 4),
    Route(ApiKey.LEAVE_GROUP, 0, 5),
    Route(ApiKey.SYNC_GROUP, 0, 5),
    Route(ApiKey.DESCRIBE_GROUPS, 0, 6),
    Route(ApiKey.LIST_GROUPS, 0, 5),
    Route(ApiKey.API_VERSIONS, 0, 4),
    Route(ApiKey.CREATE_TOPICS, 2, 7),
    Route(ApiKey.DELETE_TOPICS, 1, 6),
    Route(ApiKey.DELETE_RECORDS, 0, 2),
    Route(ApiKey.INIT_PRODUCER_ID, 0, 5),
    Route(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4),
    Route(ApiKey.WRITE_TXN_MARKERS, 1, 2),
    Route(ApiKey.TXN_OFFSET_COMMIT, 0, 5),
    Route(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5),
    Route(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4),
    Route(ApiKey.END_TXN, 0, 5),
    Route(ApiKey.DESCRIBE_CONFIGS, 1, 4),
    Route(ApiKey.ALTER_CONFIGS, 0, 2),
    Route(ApiKey.CREATE_PARTITIONS, 0, 3),
    Route(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1),
    Route(ApiKey.LIST_CONFIG_RESOURCES, 0, 1),
    Route(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0),
    Route(ApiKey.DESCRIBE_LOG_DIRS, 1, 5),
    Route(ApiKey.DELETE_GROUPS, 0, 2),
    Route(ApiKey.OFFSET_DELETE, 0, 0),
    Route(ApiKey.UPDATE_FEATURES, 0, 2),
    Route(ApiKey.DESCRIBE_CLUSTER, 0, 2),
    Route(ApiKey.DESCRIBE_PRODUCERS, 0, 0),
    Route(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0),
    Route(ApiKey.LIST_TRANSACTIONS, 0, 2),
)
