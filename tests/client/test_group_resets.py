"""A reset of a group's offsets, where a leader does not say all."""

from __future__ import annotations

from odradek.client import Admin, TopicPartition
from odradek.client.admin.group_resets import resets
from odradek.testing import Record, kafka


async def test_a_reset_by_time_leaves_alone_what_nobody_tells() -> None:
    places = [TopicPartition("t", number) for number in range(2)]
    with kafka() as one:
        one.create_topic("t", partitions=2)
        one.put("t", [Record(b"v", partition=number) for number in range(2)])
        async with Admin(one.address) as admin:
            with one.fail("ListOffsets", "UNKNOWN_SERVER_ERROR", topic="t", partition=0, skip=2, must_fire=True):
                found = await resets(admin, places, {}, "time", 0)
    assert found == {places[1]: (0, 1, 0)}
