"""SyncGroup at every version; what it means is in the transcripts."""

from __future__ import annotations

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.tests.broker.coordination.groups.wire_requests import enter, lead, sync
from odradek.tests.support.clients.raw import Raw


@pytest.mark.parametrize("version", range(6))
async def test_the_leaders_assignment_comes_back(raw: Raw, version: int) -> None:
    leader = (await enter(raw)).member_id
    answer = await sync(raw, leader, 1, version, assign={leader: b"mine", "stranger": b"theirs"})
    assert (answer.error_code, answer.assignment) == (0, b"mine")
    if version >= 5:
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


@pytest.mark.parametrize("version", range(6))
async def test_a_rejection_can_be_encoded_at_every_version(raw: Raw, version: int) -> None:
    assert (await sync(raw, "nobody", 1, version)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await sync(raw, "nobody", 1, version, group_id="")).error_code == ErrorCode.INVALID_GROUP_ID


async def test_from_version_5_on_the_protocol_must_be_named_and_right(raw: Raw) -> None:
    leader = await lead(raw)
    for names in ({"protocol_name": "other"}, {"protocol_type": "connect"}, {"protocol_name": None}):
        assert (await sync(raw, leader, 1, **names)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (await sync(raw, leader, 1)).assignment == b"all"
