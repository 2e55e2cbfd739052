"""DescribeGroups: a group in each state, as every version can say it."""

from __future__ import annotations

import pytest
from odradek.broker import Broker
from odradek.protocol.errors import ErrorCode
from odradek.tests.broker.coordination.groups.wire_requests import commit, describe, enter, join, lead
from odradek.tests.support.clients.raw import Raw


@pytest.mark.parametrize("version", range(7))
async def test_a_stable_group(raw: Raw, version: int) -> None:
    member_id = await lead(raw)
    group = await describe(raw, version=version)
    assert (group.error_code, group.group_id, group.group_state) == (0, "g", "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "raw", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (b"topics", b"all")
    assert group.authorized_operations == -(2**31)


async def test_a_group_on_its_way_names_members_but_no_protocol(raw: Raw) -> None:
    await enter(raw, group_instance_id="i")
    group = await describe(raw)
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("CompletingRebalance", "consumer", "")
    (member,) = group.members
    assert (member.group_instance_id, member.member_metadata, member.member_assignment) == ("i", b"", b"")


async def test_a_group_of_offsets_alone(raw: Raw) -> None:
    await raw.create_topic("t")
    await commit(raw, {0: 1})
    group = await describe(raw)
    assert (group.error_code, group.group_state, group.protocol_type, group.members) == (0, "Empty", "", [])


@pytest.mark.parametrize("version", range(7))
async def test_an_unknown_group(raw: Raw, version: int) -> None:
    group = await describe(raw, "nobody", version)
    assert (group.group_id, group.group_state) == ("nobody", "Dead")
    assert group.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    assert group.error_message == ("Group nobody not found." if version >= 6 else None)


async def test_authorized_operations_are_returned_on_request(raw: Raw) -> None:
    await join(raw)
    # READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS: what a Kafka without an authorizer says.
    assert (await describe(raw, operations=True)).authorized_operations == 3400
    assert (await describe(raw, "nobody", operations=True)).authorized_operations == -(2**31)


async def test_a_group_of_another_coordinator(broker: Broker, raw: Raw) -> None:
    broker.services.groups.stop()
    assert (await describe(raw)).error_code == ErrorCode.NOT_COORDINATOR
