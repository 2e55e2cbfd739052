"""OffsetCommit: what is taken, what is refused partition by partition, what every version can say."""

from __future__ import annotations

import pytest
from odradek.broker import Broker
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.tests.broker.coordination.groups.wire_requests import commit, fetch, lead
from odradek.tests.support.clients.raw import Raw

VERSIONS = range(11)


@pytest.fixture(autouse=True)
async def topic(broker: Broker, raw: Raw) -> bytes:
    await raw.create_topic("t", 2)
    found = broker.topics.get("t")
    assert found is not None
    return found.id


@pytest.mark.parametrize("version", VERSIONS)
async def test_from_outside_of_any_group(raw: Raw, topic: bytes, version: int) -> None:
    name = topic if version >= 10 else "t"
    assert await commit(raw, {0: 7, 1: 8}, version, name, "note") == [0, 0]
    (found,) = (await fetch(raw)).groups[0].topics
    epoch = 3 if version >= 6 else -1
    assert [(p.committed_offset, p.committed_leader_epoch, p.metadata) for p in found.partitions] == [
        (7, epoch, "note"),
        (8, epoch, "note"),
    ]


@pytest.mark.parametrize("version", VERSIONS[1:])
async def test_by_a_member(raw: Raw, topic: bytes, version: int) -> None:
    name = topic if version >= 10 else "t"
    member = {"member_id": await lead(raw), "generation_id_or_member_epoch": 1}
    assert await commit(raw, {0: 7}, version, name, **member) == [0]
    assert await commit(raw, {0: 9}, version, name) == [ErrorCode.UNKNOWN_MEMBER_ID]
    stale = {**member, "generation_id_or_member_epoch": 0}
    assert await commit(raw, {0: 9}, version, name, **stale) == [ErrorCode.ILLEGAL_GENERATION]
    assert (await fetch(raw)).groups[0].topics[0].partitions[0].committed_offset == 7


async def test_a_group_that_does_not_exist_has_no_generations(raw: Raw) -> None:
    claim = {"member_id": "m", "generation_id_or_member_epoch": 5}
    assert await commit(raw, {0: 1}, 8, **claim) == [ErrorCode.ILLEGAL_GENERATION]
    assert await commit(raw, {0: 1}, 9, **claim) == [ErrorCode.GROUP_ID_NOT_FOUND]


async def test_an_unknown_partition_is_rejected_and_the_others_are_committed(raw: Raw, topic: bytes) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await commit(raw, {0: 1, 9: 1, -1: 1}) == [0, unknown, unknown]
    assert await commit(raw, {0: 1}, topic="nothing") == [unknown]
    assert await commit(raw, {0: 1}, 10, b"\x07" * 16) == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert await commit(raw, {5: 1}, 10, topic) == [unknown]


async def test_metadata_is_bounded_in_java_characters(raw: Raw) -> None:
    too_large = [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert await commit(raw, {0: 1}, metadata="x" * 4096) == [0]
    assert await commit(raw, {0: 2}, metadata="x" * 4097) == too_large
    assert await commit(raw, {0: 3}, metadata="🚀" * 2048) == [0]
    assert await commit(raw, {0: 4}, metadata="🚀" * 2048 + "x") == too_large
    assert await commit(raw, {0: 5}, metadata=None) == [0]
    (partition, _) = (await fetch(raw)).groups[0].topics[0].partitions
    assert (partition.committed_offset, partition.metadata) == (5, "")


async def test_a_retention_time_goes_into_the_record(broker: Broker, raw: Raw) -> None:
    assert await commit(raw, {0: 1}, 4, retention_time_ms=60_000) == [0]
    value = broker.services.groups.groups["g"].state.offsets.get("t", 0)
    assert value is not None
    assert value.expire_timestamp - value.commit_timestamp == 60_000


async def test_version_1_dates_its_commits(broker: Broker, raw: Raw) -> None:
    partition = OffsetCommitRequestPartition(0, 5, commit_timestamp=1_700_000_000_000, committed_metadata="")
    request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=[partition])])
    assert (await raw.ask(ApiKey.OFFSET_COMMIT, 1, request)).topics[0].partitions[0].error_code == 0
    value = broker.services.groups.groups["g"].state.offsets.get("t", 0)
    assert value is not None
    assert (value.offset, value.commit_timestamp) == (5, 1_700_000_000_000)


async def test_a_topic_without_partitions_is_left_out_of_the_answer(raw: Raw) -> None:
    topics = [OffsetCommitRequestTopic("t", partitions=[]), OffsetCommitRequestTopic("nothing", partitions=[])]
    answered = (await raw.ask(ApiKey.OFFSET_COMMIT, 9, OffsetCommitRequest("g", topics=topics))).topics
    assert [each.name for each in answered] == ["nothing"]


async def test_the_empty_group_id_is_a_name_like_any_other(raw: Raw) -> None:
    assert await commit(raw, {0: 1}, group_id="") == [0]
    assert (await fetch(raw, group="")).groups[0].topics[0].partitions[0].committed_offset == 1
