"""ElectLeaders, reassignments and AlterReplicaLogDirs of a broker that is alone answer as Kafka 4.4.0 does."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from odradek.storage.errors import DiskError
from odradek.tests.support.clients.raw import Raw

UNKNOWN, NOT_NEEDED = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.ELECTION_NOT_NEEDED
NOT_PREFERRED, NOT_ELIGIBLE = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


async def elect(raw: Raw, named: dict[str, list[int]] | None, kind: int = 0, version: int = 2) -> dict[str, int]:
    """The error of each partition."""
    topics = None if named is None else [TopicPartitions(topic, indexes) for topic, indexes in named.items()]
    response = await raw.ask(ApiKey.ELECT_LEADERS, version, ElectLeadersRequest(kind, topics, 5000))
    assert response.error_code == 0
    return {
        f"{topic.topic}-{each.partition_id}": each.error_code
        for topic in response.replica_election_results
        for each in topic.partition_result
    }


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_no_leader_needs_an_election(raw: Raw, version: int) -> None:
    await raw.create_topic("t", 2)
    named = {"t": [0, 1, 7, -1], "missing": [0]}
    expected = {"t-0": NOT_NEEDED, "t-1": NOT_NEEDED, "t-7": UNKNOWN, "t--1": UNKNOWN, "missing-0": UNKNOWN}
    assert await elect(raw, named, version=version) == expected
    if version:
        assert await elect(raw, {"t": [0]}, kind=1, version=version) == {"t-0": NOT_NEEDED}
    assert await elect(raw, None, version=version) == {} == await elect(raw, {"t": []}, version=version)


async def test_an_unknown_kind_of_election_is_rejected(raw: Raw) -> None:
    invalid = ErrorCode.INVALID_REQUEST
    for topics, code, results in (
        (None, invalid, []),
        ([TopicPartitions("t", [0, 9])], invalid, [("t", [(0, invalid), (9, invalid)])]),
        ([TopicPartitions("t", [])], invalid, [("t", [])]),
        ([], ErrorCode.NONE, []),
    ):
        response = await raw.ask(ApiKey.ELECT_LEADERS, 2, ElectLeadersRequest(2, topics, 5000))
        found = [
            (each.topic, [(one.partition_id, one.error_code) for one in each.partition_result])
            for each in response.replica_election_results
        ]
        assert (response.error_code, found) == (code, results)


async def test_a_partition_without_a_disk_has_nobody_to_lead_it(raw: Raw, broker: Broker) -> None:
    await raw.create_topic("t")
    topic = broker.topics.get("t")
    assert topic is not None
    partition = topic.partitions[0]
    partition.go_offline(DiskError("write", partition.log.directory, OSError(errno.EIO, "gone")))
    assert await elect(raw, {"t": [0]}) == {"t-0": NOT_PREFERRED}
    assert await elect(raw, {"t": [0]}, kind=1) == {"t-0": NOT_ELIGIBLE}


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("topic", "index", "replicas", "code"),
    [
        ("t", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("t", 0, [0], ErrorCode.NONE),
        ("t", 0, [0, 99], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [99], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [0, 0], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 7, [0], UNKNOWN),
        ("t", 7, None, UNKNOWN),
        ("missing", 0, None, UNKNOWN),
    ],
)
async def test_replicas_cannot_move(
    shared: Raw, version: int, topic: str, index: int, replicas: list[int] | None, code: ErrorCode
) -> None:
    await shared.create_topic("t")
    wanted = None if replicas is None else [each or 1 for each in replicas]
    topics = [ReassignableTopic(topic, [ReassignablePartition(index, wanted)])]
    request = AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=topics)
    response = await shared.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, request)
    assert (response.error_code, response.responses[0].partitions[0].error_code) == (0, code)


async def test_no_reassignment_at_all_has_an_empty_message(shared: Raw) -> None:
    request = AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=[])
    response = await shared.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request)
    assert (response.error_code, response.error_message) == (0, "")


async def test_no_replica_is_moving(raw: Raw) -> None:
    await raw.create_topic("t")
    for topics in (None, [], [ListPartitionReassignmentsTopics("t", [0, 7])]):
        request = ListPartitionReassignmentsRequest(timeout_ms=5000, topics=topics)
        response = await raw.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, request)
        assert (response.error_code, response.topics) == (0, [])


async def placed(raw: Raw, version: int, *wanted: tuple[str, str, int]) -> dict[str, int]:
    """The error of each partition that AlterReplicaLogDirs names with a directory."""
    dirs = [AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(topic, [index])]) for path, topic, index in wanted]
    response = await raw.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, version, AlterReplicaLogDirsRequest(dirs))
    return {
        f"{topic.topic_name}-{each.partition_index}": each.error_code
        for topic in response.results
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", [1, 2])
async def test_a_partition_stays_in_its_directory_and_moves_to_no_other(
    config: BrokerConfig, tmp_path: Path, version: int
) -> None:
    folders = [str(tmp_path / name) for name in ("a", "b")]
    async with Broker(replace(config, log_dirs=tuple(folders))) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 2)
        here = {each.index: str(each.log.directory.parent) for each in broker.topics.partitions() if each.topic == "t"}
        other = next(each for each in folders if each != here[1])
        wanted = (here[0], "t", 0), (other, "t", 1), (here[0], "t", 7), (here[0], "missing", 0), ("/nowhere", "none", 0)
        assert await placed(raw, version, *wanted) == {
            "t-0": 0,
            "t-1": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "t-7": UNKNOWN,
            "missing-0": UNKNOWN,
            "none-0": ErrorCode.LOG_DIR_NOT_FOUND,
        }
        assert await placed(raw, version, (other, "t", 1), (here[1], "t", 1)) == {"t-1": 0}
        assert await placed(raw, version) == {}
