"""JoinGroup at every version; what it means is in the transcripts."""

from __future__ import annotations

import pytest
from odradek.broker import Broker
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.tests.broker.coordination.groups.wire_requests import enter, join, join_request, lead, sync
from odradek.tests.support.clients.raw import Raw


@pytest.mark.parametrize("version", range(10))
async def test_the_first_member_leads_and_is_told_of_itself(raw: Raw, version: int) -> None:
    answer = await enter(raw, version)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
    assert answer.leader == answer.member_id
    assert answer.member_id.startswith("raw-")
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    (member,) = answer.members
    assert (member.member_id, member.metadata) == (answer.member_id, b"topics")


@pytest.mark.parametrize("version", range(10))
async def test_the_id_comes_first_from_version_4_on(raw: Raw, version: int) -> None:
    answer = await join(raw, version=version)
    assert answer.error_code == (ErrorCode.MEMBER_ID_REQUIRED if version >= 4 else 0)
    assert answer.member_id


@pytest.mark.parametrize("version", range(10))
async def test_a_rejection_can_be_encoded_at_every_version(raw: Raw, version: int) -> None:
    answer = await join(raw, version=version, group_id="")
    assert answer.error_code == ErrorCode.INVALID_GROUP_ID
    assert answer.protocol_name == (None if version >= 7 else "")
    answer = await join(raw, version=version, session_timeout_ms=1)
    assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


async def test_a_parked_join_is_answered_when_the_others_have_joined(broker: Broker, raw: Raw) -> None:
    leader = await lead(raw)
    async with await Raw.connect(broker.address) as other:
        given = (await join(other)).member_id
        other.send(ApiKey.JOIN_GROUP, 9, join_request(given), "other")
        answer = await join(raw, leader)
        assert [member.member_id for member in answer.members] == [leader, given]
        answer = await other.receive(ApiKey.JOIN_GROUP, 9)
        assert (answer.error_code, answer.generation_id, answer.leader, answer.members) == (0, 2, leader, [])


@pytest.mark.parametrize(("version", "skips"), [(8, False), (9, True)])
async def test_a_static_leader_that_comes_back_need_not_assign(raw: Raw, version: int, skips: bool) -> None:
    first = (await join(raw, version=version, group_instance_id="i")).member_id
    await sync(raw, first, 1, assign={first: b"all"}, group_instance_id="i")
    answer = await join(raw, version=version, group_instance_id="i")
    assert answer.member_id.startswith("i-") and answer.member_id != first
    assert (answer.generation_id, answer.skip_assignment) == (1, skips)
    assert (answer.leader == answer.member_id) is skips
    assert (await sync(raw, answer.member_id, 1, group_instance_id="i")).assignment == b"all"


async def test_a_connection_that_ends_takes_no_one_with_it(broker: Broker, raw: Raw) -> None:
    leader = await lead(raw)
    async with await Raw.connect(broker.address) as other:
        given = (await join(other)).member_id
        other.send(ApiKey.JOIN_GROUP, 9, join_request(given))
        await raw.ask(ApiKey.JOIN_GROUP, 9, join_request("nobody"))
    answer = await join(raw, leader)
    assert answer.generation_id == 2
