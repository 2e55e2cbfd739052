"""A broker without room on its disk, among others that have some: they lead until it has room again."""

from __future__ import annotations

from dataclasses import replace

from odradek.broker import Broker
from odradek.protocol.errors import ErrorCode
from odradek.tests.broker.cluster.test_changes import assign, view
from odradek.tests.broker.cluster.test_member import until
from odradek.tests.support.full_disk import FullDisk, is_journal
from odradek.tests.support.members import Members
from odradek.tests.support.raw import batch_of


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
    disk.is_full = is_journal
    assert (await assign(raw, [[2, 1], [2, 1]])).error_code == 0
    for index in (0, 1):
        await until(lambda index=index: view(controller, "t", index).leader == 1)
        assert (await raw.produce("t", batch_of(b"x"), partition=index)).error_code == int(ErrorCode.NONE)
    assert view(controller, "old").leader == 2
    disk.free()
    await until(lambda: set(view(controller).isr) == set(view(controller, "t", 1).isr) == {1, 2})
    assert len(broker.topics.partitions()) == 3
