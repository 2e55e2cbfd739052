"""A broker that cannot note what the controller says of its replicas: the error is that of the partitions concerned."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clusters.hand_cluster import HandCluster, State
from odradek.tests.support.disks.ruled_disk import FullDisk, is_journal
from odradek.tests.support.waiting import until

NO_ROOM = int(ErrorCode.KAFKA_STORAGE_ERROR)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[HandCluster]:
    made = HandCluster(tmp_path)
    made.disks[1] = FullDisk()
    async with made:
        yield made


def disk(cluster: HandCluster) -> FullDisk:
    found = cluster.disks[1]
    assert isinstance(found, FullDisk)
    return found


def plan(cluster: HandCluster, topic: str, index: int = 0, *, leader: int = 1) -> None:
    """Have the controller place a partition, of which it tells nobody yet."""
    cluster.controller.ids.setdefault(topic, topic.encode().ljust(16, b"-"))
    cluster.controller.states[topic, index] = State(leader, 0, (1, 2, 3), (1, 2, 3))


async def codes(cluster: HandCluster, *places: tuple[str, int]) -> list[int]:
    answer = await cluster.leader_and_isr(1, places)
    assert answer.error_code == 0
    return [each.error_code for topic in answer.topics for each in topic.partition_errors]


async def test_a_role_that_cannot_be_noted_is_refused_alone(cluster: HandCluster) -> None:
    await cluster.assign("old", leader=2)
    disk(cluster).is_full = is_journal
    plan(cluster, "new")
    cluster.controller.states["old", 0] = State(1, 1, (1, 2, 3), (1, 2, 3), 1)
    assert await codes(cluster, ("new", 0), ("old", 0)) == [NO_ROOM, 0]
    assert cluster.brokers[1].services.replicas is not None
    assert cluster.brokers[1].services.replicas.get("new", 0) is None
    async with await cluster.connect(1) as raw:
        assert (await raw.produce("old", batch_of(b"x"), acks=1)).error_code == 0
        assert (await raw.produce("new", batch_of(b"x"), acks=1)).error_code != 0
    # A second partition of a topic that is noted already is as new as another topic.
    plan(cluster, "old", 1)
    assert await codes(cluster, ("old", 1)) == [NO_ROOM]
    # The answer stays the same until there is room, and then the role is taken.
    assert await codes(cluster, ("new", 0)) == [NO_ROOM]
    disk(cluster).free()
    assert await codes(cluster, ("new", 0), ("old", 1)) == [0, 0]
    await cluster.stop(1)
    await cluster.start(1)
    assert {("new", 0), ("old", 0), ("old", 1)} <= {
        (each.topic, each.index) for each in cluster.brokers[1].topics.partitions()
    }


async def test_a_deletion_that_cannot_be_noted_is_told_and_is_done_with_the_next_request(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1)
    await cluster.assign("u", leader=1)
    disk(cluster).is_full = is_journal
    answer = await cluster.stop_replica(1, "t", delete=True)
    assert (answer.error_code, answer.partition_errors[0].error_code) == (0, NO_ROOM)
    answer = await cluster.stop_replica(1, "u", delete=False)
    assert (answer.error_code, answer.partition_errors[0].error_code) == (0, 0)
    answer = await cluster.stop_replica(1, "t", delete=True)
    assert answer.partition_errors[0].error_code == NO_ROOM
    disk(cluster).free()
    answer = await cluster.stop_replica(1, "t", delete=True)
    assert (answer.error_code, answer.partition_errors[0].error_code) == (0, 0)


async def test_metadata_is_taken_though_it_cannot_be_noted(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1, replicas=(1, 2), isr=(1, 2))
    disk(cluster).is_full = is_journal
    plan(cluster, "t", 1)
    plan(cluster, "u")
    await cluster.update_metadata()
    await until(lambda: "u" in cluster.brokers[1].services.replicas.view.topics)
    assert cluster.brokers[1].topics.get("u") is not None


@pytest.mark.parametrize("part", ["partition.metadata", ".log", "t-0"])
async def test_a_partition_that_could_not_be_made_leaves_nothing_behind(tmp_path: Path, part: str) -> None:
    """The next try may choose another directory. In two of them the partition would keep the broker from starting."""
    made = HandCluster(tmp_path, 1)
    made.disks[1] = FullDisk(lambda path: "one" in path.parts and part in path.name)
    homes = tmp_path / "one", tmp_path / "two"
    made.configs[1] = replace(made.configs[1], log_dirs=tuple(map(str, homes)))
    async with made as cluster:
        plan(cluster, "t")
        assert await codes(cluster, ("t", 0)) == [NO_ROOM]
        disk(cluster).free()
        assert await codes(cluster, ("t", 0)) == [0]
        found = [each for each in homes if (each / "t-0").exists()]
        assert found == [cluster.partition(1).log.directory.parent]
