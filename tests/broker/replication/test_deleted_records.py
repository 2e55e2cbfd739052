"""Records that DeleteRecords has deleted stay deleted when all brokers die and any of them leads then."""

from __future__ import annotations

from odradek.client import Admin, NewTopic, Producer, TopicPartition
from odradek.testing import simulate

PLACE = TopicPartition("t", 0)


async def _write_and_delete(address: str) -> None:
    async with Admin(address) as admin:
        await admin.create_topics([NewTopic("t", assignments={0: (1, 2, 3)})])
        async with Producer(address) as producer:
            for number in range(10):
                await producer.send_and_wait("t", b"%d" % number)
        assert await admin.delete_records({PLACE: 5}) == {PLACE: 5}


async def _start(addresses: str) -> int:
    async with Admin(addresses) as admin:
        found = (await admin.list_offsets({PLACE: -2}))[PLACE]
        return found if isinstance(found, int) else found.offset


def test_deleted_records_stay_deleted_with_a_follower_that_died_at_the_same_time() -> None:
    with simulate(1, nodes=3) as world:
        world.run(_write_and_delete(world.address))
        for node in (1, 2, 3):
            world.kill(node)
        for node in (2, 3):
            world.start(node)
        assert world.run(_start(world.addresses)) == 5
