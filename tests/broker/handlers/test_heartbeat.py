"""Heartbeat at every version; what it means is in the transcripts."""

from __future__ import annotations

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.tests.broker.coordination.groups.wire_requests import heartbeat, lead
from odradek.tests.support.clients.raw import Raw


@pytest.mark.parametrize("version", range(5))
async def test_a_member_lives_and_strangers_do_not(raw: Raw, version: int) -> None:
    leader = await lead(raw)
    assert await heartbeat(raw, leader, 1, version) == 0
    assert await heartbeat(raw, leader, 2, version) == ErrorCode.ILLEGAL_GENERATION
    assert await heartbeat(raw, "nobody", 1, version) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await heartbeat(raw, leader, 1, version, "elsewhere") == ErrorCode.UNKNOWN_MEMBER_ID
    assert await heartbeat(raw, leader, 1, version, "") == ErrorCode.INVALID_GROUP_ID
