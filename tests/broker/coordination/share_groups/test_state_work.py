"""The states of a share group's partitions: they are not begun after they were deleted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from odradek.tests.broker.coordination.classic.world import FakeContext, World


def beat(world: World, member_id: str, epoch: int = 0, topics: list[str] | None = None) -> None:
    request = ShareGroupHeartbeatRequest("g", member_id, epoch, None, topics)
    assert not world.groups.share.heartbeat(FakeContext(1), request).error_code


async def test_what_a_member_wanted_is_not_begun_after_its_group_was_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.groups.start()
    append, begin, soon = world.log.append, world.persister.initialize, asyncio.get_running_loop().call_soon

    def append_that_they_have_begun(*args: Any) -> None:
        """Let a member come and go before the deletion, which waits for this work, has its turn."""
        monkeypatch.undo()
        soon(beat, world, "a", 0, ["t"])
        soon(beat, world, "a", -1)
        append(*args)

    async def initialize(*args: Any) -> None:
        monkeypatch.setattr(world.log, "append", append_that_they_have_begun)
        await begin(*args)

    monkeypatch.setattr(world.persister, "initialize", initialize)
    topic = AlterShareGroupOffsetsRequestTopic("t", [AlterShareGroupOffsetsRequestPartition(0, 7)])
    altering = world.groups.share.alter_offsets(FakeContext(0), AlterShareGroupOffsetsRequest("g", [topic]))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(altering)
        await asyncio.sleep(0)
        assert [each.error_code for each in (await world.delete("g")).results] == [0]
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)
    assert (world.persister.states, world.groups.groups) == ({}, {})
