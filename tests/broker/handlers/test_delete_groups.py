"""DeleteGroups at every version; what it means is in the transcripts."""

from __future__ import annotations

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.protocol.errors import ErrorCode
from odradek.tests.broker.coordination.groups.wire_requests import (
    commit,
    delete_groups,
    describe,
    enter,
    fetch,
    join,
    lead,
    leave,
    list_groups,
)
from odradek.tests.support.clients.raw import Raw


@pytest.mark.parametrize("version", range(4))
async def test_an_empty_group_goes_with_its_offsets_and_the_others_are_answered_one_by_one(
    raw: Raw, version: int
) -> None:
    await raw.create_topic("t", 2)
    leader = await lead(raw)
    await commit(raw, {0: 5}, version=8, member_id=leader, generation_id_or_member_epoch=1)
    await commit(raw, {0: 7, 1: 8}, version=8, group_id="simple")
    wanted = {"g": ErrorCode.NON_EMPTY_GROUP, "simple": 0, "nobody": ErrorCode.GROUP_ID_NOT_FOUND}
    assert await delete_groups(raw, "g", "simple", "nobody", version=version) == wanted
    await leave(raw, leader)
    assert await delete_groups(raw, "g", "g", version=version) == {"g": 0}
    assert await delete_groups(raw, "g", version=version) == {"g": ErrorCode.GROUP_ID_NOT_FOUND}
    assert await list_groups(raw) == []
    for group in ("g", "simple"):
        (topic,) = (await fetch(raw, version=7, group=group)).topics
        assert [each.committed_offset for each in topic.partitions] == [-1, -1]


@pytest.mark.parametrize("version", range(4))
async def test_no_groups_and_a_group_without_a_name(raw: Raw, version: int) -> None:
    assert await delete_groups(raw, version=version) == {}
    assert await delete_groups(raw, "", version=version) == {"": ErrorCode.GROUP_ID_NOT_FOUND}


async def test_a_deleted_group_stays_deleted_and_its_name_can_be_used_again(config: BrokerConfig) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        leader = await lead(raw)
        await commit(raw, {0: 5}, version=8, member_id=leader, generation_id_or_member_epoch=1)
        await commit(raw, {0: 6}, version=8, group_id="kept")
        await leave(raw, leader)
        assert await delete_groups(raw, "g") == {"g": 0}
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert [group[0] for group in await list_groups(raw)] == ["kept"]
        assert (await describe(raw)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert (await enter(raw)).generation_id == 1


async def test_a_member_that_was_only_given_an_id_does_not_hold_the_group(raw: Raw) -> None:
    member_id = (await join(raw)).member_id
    assert await delete_groups(raw, "g") == {"g": 0}
    assert (await join(raw, member_id)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
