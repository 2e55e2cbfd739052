"""A broker without room on its disk, among others that have some: they lead until it has room again."""

from __future__ import annotations

from dataclasses import replace

from odradek.broker import Broker
from odradek.broker.topics.topic_names import OFFSETS_TOPIC
from odradek.client import Admin, TopicPartition
from odradek.protocol.errors import ErrorCode
from odradek.tests.broker.cluster.test_changes import assign, view
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clusters.members import Members
from odradek.tests.support.disks.ruled_disk import FullDisk, is_journal
from odradek.tests.support.waiting import until


async def start(cluster: Members, number: int, disk: FullDisk) -> Broker:
    """Start a broker with a disk of its own."""
    config = cluster.config(f"broker-{number}", broker_id=number)
    broker = Broker(replace(config, leader_imbalance_check_interval_seconds=1), disk=disk)
    await broker.start()
    cluster.stack.push_async_callback(broker.stop)
    return broker


async def test_another_broker_leads_what_one_cannot_note(cluster: Members) -> None:
    """Its journal has no room, so it holds no new partition. What it leads already stays where it is."""
    controller, disk = await cluster.start(1), FullDisk()
    broker = await start(cluster, 2, disk)
    raw = await cluster.raw(controller)
    assert (await assign(raw, [[2, 1]], topic="old")).error_code == 0
    replicas = broker.services.replicas
    assert replicas is not None
    await until(lambda: replicas.get("old", 0) is not None)
    disk.is_full = is_journal
    assert (await assign(raw, [[2, 1], [2, 1]])).error_code == 0
    for index in (0, 1):
        await until(lambda index=index: view(controller, "t", index).leader == 1)
        assert (await raw.produce("t", batch_of(b"x"), partition=index)).error_code == int(ErrorCode.NONE)
    assert view(controller, "old").leader == 2
    disk.free()
    await until(lambda: set(view(controller).isr) == set(view(controller, "t", 1).isr) == {1, 2})
    assert len(broker.topics.partitions()) == 3


async def written(cluster: Members, broker: Broker, index: int = 0) -> int:
    """The error of a record with acks=all."""
    raw = await cluster.raw(broker)
    return int((await raw.produce("t", batch_of(b"x"), partition=index, timeout_ms=20_000)).error_code)


async def test_leadership_leaves_a_full_disk_and_returns_when_it_has_room(cluster: Members) -> None:
    """The follower on the full disk leaves the ISR at once: nobody waits for replica.lag.time.max.ms."""
    first, disk = await cluster.start(1, leader_imbalance_check_interval_seconds=1), FullDisk()
    second, third = await start(cluster, 2, disk), await cluster.start(3)
    raw = await cluster.raw(first)
    assert (await assign(raw, [[2, 3, 1], [3, 2, 1]])).error_code == 0
    assert await written(cluster, second) == 0
    disk.fill()
    assert await written(cluster, second) == int(ErrorCode.KAFKA_STORAGE_ERROR)
    await until(lambda: view(first).leader == 3 and set(view(first).isr) == {1, 3})
    # Those that it follows, too.
    await until(lambda: set(view(first, "t", 1).isr) == {1, 3})
    for index in (0, 1):
        await until(lambda index=index: view(third, "t", index).leader == 3)
        assert await written(cluster, third, index) == 0
    # It can be elected by nobody, and is no offline replica.
    assert view(first).offline == ()
    disk.free()
    await until(lambda: view(first).leader == 2 and set(view(first).isr) == {1, 2, 3})
    await until(lambda: set(view(first, "t", 1).isr) == {1, 2, 3})
    await until(lambda: view(second).leader == 2)
    assert await written(cluster, second) == 0


async def test_a_full_controller_gives_its_partitions_away_and_where_all_are_full_one_is_read(cluster: Members) -> None:
    disks = {number: FullDisk() for number in (1, 2)}
    first, second = await start(cluster, 1, disks[1]), await start(cluster, 2, disks[2])
    raw = await cluster.raw(first)
    assert (await assign(raw, [[1, 2]])).error_code == 0
    assert await written(cluster, first) == 0
    disks[1].fill()
    assert await written(cluster, first) == int(ErrorCode.KAFKA_STORAGE_ERROR)
    await until(lambda: view(second).leader == 2)
    assert await written(cluster, second) == 0
    disks[2].fill()
    assert await written(cluster, second) == int(ErrorCode.KAFKA_STORAGE_ERROR)
    # Nobody else has the second record, and nobody leads without it.
    other = await cluster.raw(second)
    fetched = await other.fetch("t", 0)
    assert (fetched.error_code, fetched.high_watermark) == (0, 2)
    assert (view(second).leader, view(second).isr) == (2, (2,))
    # Room for the one out of sync: it copies what it lacks, and leads what the other cannot.
    disks[1].free()
    await until(lambda: view(first).leader == 1)
    assert await written(cluster, first) == 0
    disks[2].free()
    await until(lambda: set(view(first).isr) == {1, 2})


async def test_a_group_goes_on_while_the_disk_of_its_coordinator_is_full(cluster: Members) -> None:
    cluster.base = replace(cluster.base, offsets_topic_replication_factor=2)
    disks = {number: FullDisk() for number in (1, 2)}
    brokers = {number: await start(cluster, number, disk) for number, disk in disks.items()}
    assert (await (await cluster.raw(brokers[1])).create_topic("t", 1, 2)).error_code == 0
    addresses = [each.address for each in brokers.values()]
    async with Admin(addresses) as admin:
        place = TopicPartition("t", 0)
        await admin.alter_group_offsets("g", {place: 1})
        leader = view(brokers[1], OFFSETS_TOPIC).leader
        await until(lambda: set(view(brokers[leader], OFFSETS_TOPIC).isr) == {1, 2})
        disks[leader].fill()
        # The client is told NOT_COORDINATOR, looks for the other, and tries again.
        await admin.alter_group_offsets("g", {place: 2})
        assert view(brokers[leader], OFFSETS_TOPIC).leader == 3 - leader
        assert (await admin.list_group_offsets("g"))[place].offset == 2
    disks[leader].free()
