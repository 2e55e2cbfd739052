"""OffsetDelete, which has one version; what it means is in the transcripts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_protocol import ConsumerProtocolSubscription, encode_versioned
from odradek.protocol.messages.join_group import JoinGroupRequestProtocol
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.storage.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINT
from odradek.tests.broker.coordination.groups.wire_requests import (
    commit,
    delete_offsets,
    enter,
    fetch,
    join,
    leave,
    sync,
)
from odradek.tests.support.clients.raw import Raw

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
SUBSCRIBED = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
READS_T = [JoinGroupRequestProtocol("range", encode_versioned(ConsumerProtocolSubscription(topics=["t"]), 1))]


async def lead(raw: Raw, **options: object) -> str:
    """A stable group of one, that reads t."""
    member_id = (await enter(raw, **{"protocols": READS_T, **options})).member_id
    names = {"protocol_type": options["protocol_type"]} if "protocol_type" in options else {}
    assert (await sync(raw, member_id, 1, assign={member_id: b""}, **names)).error_code == 0
    return member_id


async def names(raw: Raw) -> list[str]:
    """Return the topics of which the group has offsets."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
    response = await raw.ask(ApiKey.OFFSET_FETCH, 8, request)
    return [each.name for each in response.groups[0].topics if each.partitions]


async def offsets(raw: Raw, topic: str) -> list[int]:
    (found,) = (await fetch(raw, version=7, topic=topic)).topics
    return [each.committed_offset for each in found.partitions]


async def test_a_live_consumer_group_gives_up_what_it_does_not_subscribe(raw: Raw) -> None:
    await raw.create_topic("t", 2)
    await raw.create_topic("u", 2)
    member = {"member_id": await lead(raw), "generation_id_or_member_epoch": 1}
    await commit(raw, {0: 5, 1: 6}, version=8, topic="t", **member)
    await commit(raw, {0: 7}, version=8, topic="u", **member)
    assert await delete_offsets(raw, t=[0, 7], u=[0, 1, 9], missing=[0]) == (
        0,
        {"t": {0: SUBSCRIBED, 7: UNKNOWN}, "u": {0: 0, 1: 0, 9: UNKNOWN}, "missing": {0: UNKNOWN}},
    )
    assert (await offsets(raw, "t"), await offsets(raw, "u")) == ([5, 6], [-1, -1])
    await leave(raw, member["member_id"])
    assert await delete_offsets(raw, t=[0]) == (0, {"t": {0: 0}})
    assert await offsets(raw, "t") == [-1, 6]


async def test_offsets_of_a_group_of_another_protocol_type_are_not_deleted(raw: Raw) -> None:
    await raw.create_topic("t")
    leader = await lead(raw, protocol_type="connect")
    assert await delete_offsets(raw, t=[0]) == (ErrorCode.NON_EMPTY_GROUP, {})
    await leave(raw, leader)
    assert await delete_offsets(raw, t=[0]) == (0, {"t": {0: 0}})


async def test_a_consumer_that_cannot_be_read_subscribes_everything(raw: Raw) -> None:
    await raw.create_topic("t")
    await lead(raw, protocols=[JoinGroupRequestProtocol("range", b"x")])
    assert await delete_offsets(raw, t=[0]) == (0, {"t": {0: SUBSCRIBED}})
    assert await delete_offsets(raw, t=[]) == (0, {})


@pytest.mark.parametrize("asked", [{}, {"t": [0]}, {"missing": [0]}])
async def test_an_unknown_group_is_one_error_for_all_partitions(raw: Raw, asked: dict[str, list[int]]) -> None:
    await raw.create_topic("t")
    assert await delete_offsets(raw, **asked) == (ErrorCode.GROUP_ID_NOT_FOUND, {})
    assert await delete_offsets(raw, group="", **asked) == (ErrorCode.INVALID_GROUP_ID, {})


async def test_a_group_that_only_gave_out_an_id(raw: Raw) -> None:
    await raw.create_topic("t")
    await join(raw)
    assert await delete_offsets(raw, t=[0]) == (0, {"t": {0: 0}})


async def test_deleted_offsets_stay_deleted(config: BrokerConfig) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 2)
        await commit(raw, {0: 5, 1: 6}, version=8)
        assert await delete_offsets(raw, t=[0]) == (0, {"t": {0: 0}})
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert await offsets(raw, "t") == [-1, 6]


async def test_a_deleted_topic_takes_its_offsets_with_it_also_across_a_restart(config: BrokerConfig) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 2)
        await raw.create_topic("u", 2)
        await commit(raw, {0: 5, 1: 6}, version=8)
        await commit(raw, {1: 7}, version=8, topic="u")
        await raw.delete_topic("t")
        await raw.create_topic("t", 2)
        assert (await offsets(raw, "t"), await offsets(raw, "u")) == ([-1, -1], [-1, 7])
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert (await offsets(raw, "t"), await offsets(raw, "u")) == ([-1, -1], [-1, 7])


def copy_offsets(source: Path, target: Path) -> None:
    """Copy `__consumer_offsets` from one data directory to another, in the place of what is there."""
    for path in source.glob("__consumer_offsets-*"):
        shutil.rmtree(target / path.name, ignore_errors=True)
        shutil.copytree(path, target / path.name)


async def test_the_group_without_a_name_is_refused_also_where_it_has_offsets(raw: Raw) -> None:
    await raw.create_topic("t")
    assert await delete_offsets(raw, group="", t=[0]) == (ErrorCode.INVALID_GROUP_ID, {})
    await commit(raw, {0: 5}, version=8, group_id="")
    assert await delete_offsets(raw, group="", t=[0]) == (ErrorCode.INVALID_GROUP_ID, {})


@pytest.mark.parametrize("made_again", [False, True])
async def test_a_power_cut_right_after_a_deletion_brings_no_offsets_back(
    config: BrokerConfig, tmp_path: Path, made_again: bool
) -> None:
    data = config.data_dir
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 2)
        await raw.create_topic("u", 2)
        await commit(raw, {0: 5, 1: 6}, version=8)
        await commit(raw, {1: 7}, version=8, topic="u")
    before = tmp_path / "before"
    copy_offsets(data, before)
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.delete_topic("t")
        if made_again:
            await raw.create_topic("t", 2)
    # The deletion was journalled with an fsync, and the tombstones of its offsets were not on disk yet.
    copy_offsets(before, data)
    for name in (CLEAN_SHUTDOWN, RECOVERY_POINT):
        (data / name).unlink()
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        # Not even stored: a client that names no topic would see them while there is no topic of that name.
        assert await names(raw) == ["u"]
        if not made_again:
            await raw.create_topic("t", 2)
        assert (await offsets(raw, "t"), await offsets(raw, "u")) == ([-1, -1], [-1, 7])
