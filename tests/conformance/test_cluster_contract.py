"""What a cluster promises its clients, asked on the wire of three brokers of ours and of three of Apache Kafka 3.9.1.

Both must answer the same, so a test that fails on Kafka is itself wrong. Kafka needs Java and its jars (KAFKA39_LIB).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.clusters.cluster import ClusterProcesses, cluster_processes
from odradek.tests.support.clusters.zookeeper import why_missing

pytestmark = pytest.mark.skipif(bool(why_missing()), reason=why_missing() or "ZooKeeper is here")

WAIT_S = 30
LOOK_S = 0.05
TOPIC, BROKER = 2, 4
EVERYONE = (1, 2, 3)
# Replica ids of clients.
CONSUMER, DEBUGGING = -1, -2


@pytest.fixture(scope="module", params=["odradek", "kafka-3.9.1"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    is_kafka = request.param != "odradek"
    if is_kafka and not os.environ.get("KAFKA39_LIB"):
        pytest.skip("set KAFKA39_LIB to a folder with the jars of Kafka 3.9.1")
    with cluster_processes(tmp_path_factory.mktemp("cluster"), kafka=EVERYONE if is_kafka else ()) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: ClusterProcesses) -> Cluster:
    return Cluster(running)


@dataclass
class Cluster:
    """Requests to brokers by number."""

    processes: ClusterProcesses
    # Brokers that run and answer nothing.
    paused: set[int] = field(default_factory=set)

    async def ask(self, number: int, key: ApiKey, version: int, request: Any) -> Any:
        """Ask a broker, or with 0 the controller of the moment."""
        number = number or await self.controller()
        async with await Raw.connect(self.processes.brokers[number].address, WAIT_S) as raw:
            return await raw.ask(key, version, request)

    async def metadata(self, number: int, topic: str | None = None) -> Any:
        topics = None if topic is None else [MetadataRequestTopic(name=topic)]
        return await self.ask(number, ApiKey.METADATA, 12, MetadataRequest(topics, allow_auto_topic_creation=False))

    async def partition(self, topic: str, index: int = 0, number: int = 0) -> Any:
        """A partition as a broker shows it, by default the controller; None where it shows none."""
        found = (await self.metadata(number or await self.controller(), topic)).topics[0]
        return next((each for each in found.partitions if each.partition_index == index), None)

    async def controller(self) -> int:
        """The controller, as the first broker that runs and knows one says."""
        found = 0

        async def is_known() -> bool:
            nonlocal found
            running = [number for number, each in self.processes.brokers.items() if each.is_running]
            first = next(number for number in running if number not in self.paused)
            answer = await self.metadata(first, "no-such-topic")
            found = answer.controller_id
            return found in {each.node_id for each in answer.brokers} and self.processes.brokers[found].is_running

        await until(is_known)
        return found

    async def other(self) -> int:
        """A broker that is not the controller."""
        controller = await self.controller()
        return next(each for each in EVERYONE if each != controller)

    async def create(self, topic: str, placement: Iterable[Iterable[int]], **configs: str) -> int:
        """Create a topic with these replicas; return the error."""
        assignments = [CreatableReplicaAssignment(index, list(to)) for index, to in enumerate(placement)]
        made = CreatableTopic(topic, -1, -1, assignments)
        request = CreateTopicsRequest([made], timeout_ms=WAIT_S * 1000)
        answer = await self.ask(0, ApiKey.CREATE_TOPICS, 7, request)
        if configs:
            await self.alter(TOPIC, topic, configs)
        return answer.topics[0].error_code

    async def alter(self, kind: int, name: str, configs: dict[str, str], number: int = 0) -> None:
        """Set configs, with `_` for `.` in their names."""
        changes = [AlterableConfig(each.replace("_", "."), 0, value) for each, value in configs.items()]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, changes)])
        answer = await self.ask(number, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
        assert answer.responses[0].error_code == 0, answer

    async def produce(self, topic: str, records: bytes, number: int = 0, **rest: Any) -> Any:
        """Produce to partition 0 at its leader, or at a broker."""
        if not number:
            number = (await self.partition(topic)).leader_id
        async with await Raw.connect(self.processes.brokers[number].address, WAIT_S) as raw:
            return await raw.produce(topic, records, **{"timeout_ms": 20_000, **rest})

    async def fetch(self, topic: str, number: int, offset: int = 0, epoch: int = -1, **asker: int) -> Any:
        """Fetch from partition 0 of a broker. `asker` may be `version` and `replica_id`."""
        wanted = FetchPartition(0, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic, partitions=[wanted])]
        request = FetchRequest(replica_id=asker.get("replica_id", -1), max_wait_ms=0, max_bytes=1 << 20, topics=topics)
        return (await self.ask(number, ApiKey.FETCH, asker.get("version", 11), request)).responses[0].partitions[0]

    async def end_offset(self, topic: str, number: int, replica_id: int) -> tuple[int, int]:
        """Ask a broker where the log of partition 0 ends; return the error and the offset."""
        wanted = [ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=-1)])]
        answer = await self.ask(number, ApiKey.LIST_OFFSETS, 5, ListOffsetsRequest(replica_id, topics=wanted))
        found = answer.topics[0].partitions[0]
        return found.error_code, found.offset

    async def elect(self, topic: str, kind: int = 0, number: int = 0) -> int:
        """Ask for an election of partition 0; return the error."""
        request = ElectLeadersRequest(kind, [TopicPartitions(topic, [0])], WAIT_S * 1000)
        answer = await self.ask(number, ApiKey.ELECT_LEADERS, 2, request)
        results = [each for found in answer.replica_election_results for each in found.partition_result]
        return answer.error_code or results[0].error_code

    async def reassign(self, topic: str, to: list[int] | None, index: int = 0, number: int = 0) -> int:
        """Ask for other replicas of a partition; return the error."""
        topics = [ReassignableTopic(topic, [ReassignablePartition(index, to)])]
        request = AlterPartitionReassignmentsRequest(WAIT_S * 1000, topics=topics)
        controller = number or await self.controller()
        answer = await self.ask(controller, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, request)
        return answer.error_code or answer.responses[0].partitions[0].error_code

    async def until_isr(self, topic: str, isr: Iterable[int], leader: int = 0) -> Any:
        """Wait until partition 0 has this ISR, and this leader; return it."""
        wanted = set(isr)

        async def is_so() -> bool:
            found = await self.partition(topic)
            return found is not None and set(found.isr_nodes) == wanted and leader in (0, found.leader_id)

        await until(is_so)
        return await self.partition(topic)


async def until(is_true: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something holds, with a bound that only a hanging test meets."""
    async with asyncio.timeout(WAIT_S):
        while not await is_true():
            await asyncio.sleep(LOOK_S)


async def test_every_broker_describes_the_same_cluster(cluster: Cluster) -> None:
    async def is_known() -> bool:
        request = DescribeClusterRequest()
        answers = [await cluster.ask(number, ApiKey.DESCRIBE_CLUSTER, 1, request) for number in EVERYONE]
        brokers = [sorted((each.broker_id, each.rack, f"{each.host}:{each.port}") for each in answer.brokers)
                   for answer in answers]  # fmt: skip
        wanted = [(number, f"r{number}", cluster.processes.brokers[number].address) for number in EVERYONE]
        same = {(answer.error_code, answer.cluster_id, answer.controller_id) for answer in answers}
        return brokers == [wanted] * 3 and len(same) == 1 and answers[0].controller_id in EVERYONE

    await until(is_known)


async def test_topics_are_placed_grown_and_deleted(cluster: Cluster) -> None:
    wide = CreateTopicsRequest([CreatableTopic("placed", 3, 3)], timeout_ms=WAIT_S * 1000)
    refused = await cluster.ask(await cluster.other(), ApiKey.CREATE_TOPICS, 7, wide)
    assert refused.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert (await cluster.ask(0, ApiKey.CREATE_TOPICS, 7, wide)).topics[0].error_code == 0
    partitions = [await cluster.partition("placed", index) for index in range(3)]
    assert {each.leader_id for each in partitions} == set(EVERYONE), "each broker leads one"
    assert all(set(each.replica_nodes) == set(EVERYONE) for each in partitions)
    assert all(each.replica_nodes[0] == each.leader_id for each in partitions)
    for topic, count, factor, code in (
        ("placed", 1, 1, ErrorCode.TOPIC_ALREADY_EXISTS),
        ("too-wide", 1, 4, ErrorCode.INVALID_REPLICATION_FACTOR),
        ("none", 0, 1, ErrorCode.INVALID_PARTITIONS),
    ):
        request = CreateTopicsRequest([CreatableTopic(topic, count, factor)])
        assert (await cluster.ask(0, ApiKey.CREATE_TOPICS, 7, request)).topics[0].error_code == code
    assert await cluster.create("twice", [[1, 1]]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    for count, code in ((3, ErrorCode.INVALID_PARTITIONS), (2, ErrorCode.INVALID_PARTITIONS), (4, ErrorCode.NONE)):
        request = CreatePartitionsRequest([CreatePartitionsTopic("placed", count, None)], WAIT_S * 1000)
        answer = await cluster.ask(0, ApiKey.CREATE_PARTITIONS, 3, request)
        assert answer.results[0].error_code == code
    grown = await cluster.partition("placed", 3)
    assert len(grown.isr_nodes) == 3
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState("placed")], timeout_ms=WAIT_S * 1000)
    assert (await cluster.ask(await cluster.other(), ApiKey.DELETE_TOPICS, 6, deletion)).responses[0].error_code == (
        ErrorCode.NOT_CONTROLLER
    )
    assert (await cluster.ask(0, ApiKey.DELETE_TOPICS, 6, deletion)).responses[0].error_code == 0

    async def is_gone() -> bool:
        codes = {(await cluster.metadata(each, "placed")).topics[0].error_code for each in EVERYONE}
        folders = [each for broker in cluster.processes.brokers.values() for each in broker.data_dir.glob("placed-?")]
        return codes == {int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)} and not folders

    await until(is_gone)


async def test_configs_that_are_set_at_one_broker_are_in_use_at_every_broker(cluster: Cluster) -> None:
    assert await cluster.create("configured", [[1, 2, 3]]) == 0

    async def is_created() -> bool:
        return await cluster.partition("configured", number=2) is not None

    await until(is_created)
    await cluster.alter(TOPIC, "configured", {"retention_ms": "77000"}, number=2)
    await cluster.alter(BROKER, "", {"message_max_bytes": "900000"}, number=3)

    async def value(number: int, kind: int, name: str, config: str) -> tuple[str | None, int]:
        request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, [config])])
        answer = await cluster.ask(number, ApiKey.DESCRIBE_CONFIGS, 4, request)
        found = answer.results[0].configs[0]
        return found.value, found.config_source

    async def are_known() -> bool:
        topics = {await value(number, TOPIC, "configured", "retention.ms") for number in EVERYONE}
        brokers = {await value(number, BROKER, str(number), "message.max.bytes") for number in EVERYONE}
        # 1: of the topic. 3: of every broker, at run time.
        return (topics, brokers) == ({("77000", 1)}, {("900000", 3)})

    await until(are_known)


async def test_partitions_move_to_other_brokers(cluster: Cluster) -> None:
    assert await cluster.create("moved", [[1, 2]]) == 0
    # The leader hears of a new topic a moment after the client does.
    await cluster.until_isr("moved", [1, 2], leader=1)
    assert (await cluster.produce("moved", batch_of(b"x", b"y"))).error_code == 0
    controller = await cluster.controller()
    other = next(each for each in EVERYONE if each != controller)
    assert await cluster.reassign("moved", [2, 3], number=other) == ErrorCode.NOT_CONTROLLER
    assert await cluster.reassign("moved", None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert await cluster.reassign("moved", [9]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert await cluster.reassign("moved", [3, 3]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert await cluster.reassign("moved", []) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert await cluster.reassign("moved", [1], index=7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await cluster.reassign("moved", [3, 2]) == 0

    async def has_moved() -> bool:
        found = await cluster.partition("moved")
        left = await cluster.ask(
            await cluster.controller(), ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, ListPartitionReassignmentsRequest()
        )
        return (found.replica_nodes, set(found.isr_nodes), left.topics) == ([3, 2], {2, 3}, [])

    await until(has_moved)
    moved = await cluster.partition("moved")
    assert moved.leader_id in (2, 3)
    assert len((await cluster.fetch("moved", moved.leader_id)).records) > 0
    folder = cluster.processes.brokers[1].data_dir / "moved-0"

    async def is_removed() -> bool:
        return not folder.exists()

    await until(is_removed)
    assert await cluster.elect("moved") == (ErrorCode.ELECTION_NOT_NEEDED if moved.leader_id == 3 else 0)


async def test_a_move_that_is_held_back_is_listed_and_can_be_cancelled(cluster: Cluster) -> None:
    """Meanwhile the copy's offset lag is 0: it compares with what the replica itself knows to be committed."""
    assert await cluster.create("held", [[1]], follower_replication_throttled_replicas="*") == 0
    await cluster.until_isr("held", [1])
    await cluster.alter(BROKER, "2", {"follower_replication_throttled_rate": "1"}, number=2)
    for _ in range(4):
        assert (await cluster.produce("held", batch_of(bytes(800_000)))).error_code == 0
    assert await cluster.reassign("held", [2]) == 0

    async def copied() -> list[tuple[int, int]]:
        topics = [DescribableLogDirTopic("held", [0])]
        answer = await cluster.ask(2, ApiKey.DESCRIBE_LOG_DIRS, 1, DescribeLogDirsRequest(topics))
        found = [each for result in answer.results for topic in result.topics for each in topic.partitions]
        return [(each.partition_size, each.offset_lag) for each in found]

    async def has_begun() -> bool:
        return any(size for size, _ in await copied())

    async def moves() -> list[tuple[list[int], list[int]]]:
        request = ListPartitionReassignmentsRequest()
        answer = await cluster.ask(0, ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, request)
        found = [each for topic in answer.topics for each in topic.partitions]
        return [(each.adding_replicas, each.removing_replicas) for each in found]

    await until(has_begun)
    [(size, lag)] = await copied()
    assert 0 < size < 4 * 900_000 and lag == 0
    assert await moves() == [([2], [1])]
    assert await cluster.reassign("held", None) == 0

    async def is_back() -> bool:
        found = await cluster.partition("held")
        return (found.replica_nodes, found.isr_nodes, found.leader_id, await moves()) == ([1], [1], 1, [])

    await until(is_back)
    folder = cluster.processes.brokers[2].data_dir / "held-0"

    async def is_removed() -> bool:
        return not folder.exists()

    await until(is_removed)
    await cluster.alter(BROKER, "2", {"follower_replication_throttled_rate": str(2**62)}, number=2)


async def test_acks_all_needs_as_many_replicas_in_sync_as_the_topic_says_now(cluster: Cluster) -> None:
    controller = await cluster.controller()
    # The controller must stay to change the ISR, and the leader to answer.
    paused = next(each for each in EVERYONE if each != controller)
    order = [controller, *(each for each in EVERYONE if each != controller)]
    assert await cluster.create("strict", [order], min_insync_replicas="3") == 0
    await cluster.until_isr("strict", EVERYONE)

    async def is_accepted() -> bool:
        return (await cluster.produce("strict", batch_of(b"x"), controller)).error_code == 0

    await until(is_accepted)
    cluster.processes.brokers[paused].pause()
    cluster.paused.add(paused)
    try:
        # Something to lag behind.
        assert (await cluster.produce("strict", batch_of(b"y"), controller, acks=1)).error_code == 0
        await cluster.until_isr("strict", set(EVERYONE) - {paused})
        refused = await cluster.produce("strict", batch_of(b"z"), controller)
        assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        await cluster.alter(TOPIC, "strict", {"min_insync_replicas": "2"}, number=controller)
        await until(is_accepted)
    finally:
        cluster.processes.brokers[paused].go_on()
        cluster.paused.clear()
    await cluster.until_isr("strict", EVERYONE)
    await cluster.alter(TOPIC, "strict", {"min_insync_replicas": "3"}, number=controller)
    await until(is_accepted)


async def test_a_debugging_consumer_asks_each_replica_for_its_own_log(cluster: Cluster) -> None:
    """Its replica id is -2. ListOffsets tells it the end of each log, from which the lag of a replica follows."""
    leader = await cluster.controller()
    behind, near = (each for each in EVERYONE if each != leader)
    assert await cluster.create("debugged", [[leader, near, behind]], min_insync_replicas="1") == 0
    await cluster.until_isr("debugged", EVERYONE, leader)

    async def is_copied() -> bool:
        awake = set(EVERYONE) - cluster.paused
        ends = [await cluster.end_offset("debugged", each, DEBUGGING) for each in awake]
        return set(ends) == {(0, expected)}

    assert (await cluster.produce("debugged", batch_of(b"x"), leader)).error_code == 0
    expected = 1
    await until(is_copied)
    for follower in (near, behind):
        assert (await cluster.end_offset("debugged", follower, CONSUMER))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        # To a fetch it is a consumer as any other, which may read from followers from version 11 on.
        answer = await cluster.fetch("debugged", follower, version=10, replica_id=DEBUGGING)
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.processes.brokers[behind].pause()
    cluster.paused.add(behind)
    try:
        assert (await cluster.produce("debugged", batch_of(b"y"), leader, acks=1)).error_code == 0
        expected = 2
        # At once: the high watermark still waits for the paused broker.
        assert await cluster.end_offset("debugged", leader, DEBUGGING) == (0, 2)
        await until(is_copied)
    finally:
        cluster.processes.brokers[behind].go_on()
        cluster.paused.clear()
    await until(is_copied)
    await cluster.until_isr("debugged", EVERYONE)


async def test_another_replica_leads_when_the_leader_is_killed(cluster: Cluster) -> None:
    controller = await cluster.controller()
    killed, second = (each for each in EVERYONE if each != controller)
    assert await cluster.create("failing", [[killed, second, controller]]) == 0
    whole = await cluster.until_isr("failing", EVERYONE, killed)
    batch = batch_of(b"once", producer_id=7000, producer_epoch=0, base_sequence=0)
    first = await cluster.produce("failing", batch)
    assert (first.error_code, first.base_offset) == (0, 0)
    assert await cluster.elect("failing") == ErrorCode.ELECTION_NOT_NEEDED
    cluster.processes.brokers[killed].kill()
    try:
        led = await cluster.until_isr("failing", {second, controller})
        assert led.leader_id == second and led.leader_epoch > whole.leader_epoch
        assert led.offline_replicas == [killed]
        # The producer state has moved with the leader.
        again = await cluster.produce("failing", batch, second)
        assert (again.error_code, again.base_offset) == (0, 0)
        assert (await cluster.produce("failing", batch_of(b"next"), second)).base_offset == 1
        assert await cluster.elect("failing") == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        for epoch, code in (
            (whole.leader_epoch, ErrorCode.FENCED_LEADER_EPOCH),
            (led.leader_epoch + 9, ErrorCode.UNKNOWN_LEADER_EPOCH),
            (led.leader_epoch, ErrorCode.NONE),
        ):
            assert (await cluster.fetch("failing", second, epoch=epoch)).error_code == code
        wanted = OffsetForLeaderPartition(0, led.leader_epoch, whole.leader_epoch)
        request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic("failing", [wanted])])
        ended = (await cluster.ask(second, ApiKey.OFFSET_FOR_LEADER_EPOCH, 3, request)).topics[0].partitions[0]
        assert (ended.error_code, ended.leader_epoch, ended.end_offset) == (0, whole.leader_epoch, 1)
    finally:
        cluster.processes.brokers[killed].start()
    await cluster.until_isr("failing", EVERYONE)
    assert (await cluster.produce("failing", batch_of(b"x"), killed)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await cluster.elect("failing") == 0
    assert (await cluster.until_isr("failing", EVERYONE, killed)).leader_epoch > led.leader_epoch


async def test_a_broker_that_is_stopped_gives_its_leaders_away_first(cluster: Cluster) -> None:
    controller = await cluster.controller()
    stopped = next(each for each in EVERYONE if each != controller)
    rest = [each for each in EVERYONE if each != stopped]
    assert await cluster.create("handed", [[stopped, *rest]]) == 0
    assert await cluster.create("alone", [[stopped]]) == 0
    await cluster.until_isr("handed", EVERYONE, stopped)
    cluster.processes.brokers[stopped].stop()
    try:
        # As clients are told at the very moment at which the process ends: nobody had to wait for its session.
        assert (await cluster.partition("handed")).leader_id in rest
        assert (await cluster.produce("handed", batch_of(b"x"))).error_code == 0

        async def is_leaderless() -> bool:
            return (await cluster.partition("alone")).leader_id == -1

        await until(is_leaderless)
    finally:
        cluster.processes.brokers[stopped].start()
    await cluster.until_isr("handed", EVERYONE)
    await cluster.until_isr("alone", {stopped}, stopped)
