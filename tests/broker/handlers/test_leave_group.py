"""LeaveGroup at every version; what it means is in the transcripts."""

from __future__ import annotations

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.tests.broker.coordination.groups.wire_requests import describe, lead, leave
from odradek.tests.support.clients.raw import Raw


@pytest.mark.parametrize("version", range(6))
async def test_the_last_member_leaves_an_empty_group(raw: Raw, version: int) -> None:
    leader = await lead(raw)
    answer = await leave(raw, leader, version=version)
    assert answer.error_code == 0
    assert [(m.member_id, m.error_code) for m in answer.members] == ([(leader, 0)] if version >= 3 else [])
    assert (await describe(raw)).group_state == "Empty"


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("exists", [True, False])
async def test_a_stranger_cannot_leave(raw: Raw, version: int, exists: bool) -> None:
    if exists:
        await lead(raw)
    answer = await leave(raw, "nobody", version=version)
    codes = [m.error_code for m in answer.members] if version >= 3 else [answer.error_code]
    assert codes == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert (await leave(raw, "nobody", version=version, group="")).error_code == ErrorCode.INVALID_GROUP_ID


async def test_an_empty_list_of_members_may_leave_an_unknown_group(raw: Raw) -> None:
    answer = await leave(raw)
    assert (answer.error_code, answer.members) == (0, [])
