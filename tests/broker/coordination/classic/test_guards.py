"""The table of guards is complete, and the rules that are easy to get wrong are those of Kafka."""

from __future__ import annotations

from typing import get_args

import pytest
from odradek.broker.coordination.classic.guards import GUARDS, find_error
from odradek.broker.coordination.classic.roster import Member
from odradek.broker.coordination.classic.states import GroupState
from odradek.broker.coordination.consumer.events import ConsumerHeartbeat
from odradek.broker.coordination.groups.events import CommitInTransaction, CommitOffsets, Heartbeat, Request, Sync
from odradek.broker.coordination.groups.group import Group, GroupLimits
from odradek.broker.coordination.share_groups.events import AlterStates, DeleteStates, ShareHeartbeat
from odradek.protocol.errors import ErrorCode
from odradek.tests.broker.coordination.classic.stage import is_open
from odradek.tests.broker.coordination.classic.world import FakeTopics

ALIVE = [state for state in GroupState if state is not GroupState.DEAD]
WITH_MEMBERS = [state for state in ALIVE if state is not GroupState.EMPTY]


def group_in(state: GroupState) -> Group:
    """A group in generation 5 with the static member m1 of instance `a`."""
    group = Group("g", GroupLimits(), FakeTopics())
    group.roster.add(Member("m1", "a", "client", "/host", 10_000, 60_000, (("range", b""),)))
    group.state, group.generation = state, 5
    return group


def test_every_request_has_an_entry_for_every_state() -> None:
    # What consumer groups and share groups reject stands in their own machines.
    others = {ConsumerHeartbeat, ShareHeartbeat, AlterStates, DeleteStates}
    assert set(GUARDS) == set(get_args(Request)) - others
    assert all(set(row) == set(GroupState) for row in GUARDS.values())


@pytest.mark.parametrize("state", ALIVE)
@pytest.mark.parametrize("generation", [4, 6])
def test_a_stale_generation_is_illegal_in_every_state(state: GroupState, generation: int) -> None:
    group = group_in(state)
    requests = (
        Sync(None, "m1", None, generation, {}),
        Heartbeat(None, "m1", None, generation),
        CommitOffsets(None, "m1", None, generation, []),
        CommitInTransaction(None, "m1", None, generation, [], (1, 0), is_open),
    )
    assert {find_error(group, request) for request in requests} == {ErrorCode.ILLEGAL_GENERATION}


@pytest.mark.parametrize("state", ALIVE)
def test_an_unknown_or_fenced_member_gets_its_error_before_the_generation_is_compared(state: GroupState) -> None:
    group = group_in(state)
    assert find_error(group, Heartbeat(None, "m2", None, 4)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert find_error(group, Heartbeat(None, "m1", "b", 4)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert find_error(group, Heartbeat(None, "m2", "a", 4)) is ErrorCode.FENCED_INSTANCE_ID


def test_a_commit_from_outside_passes_only_while_the_group_is_empty() -> None:
    commit = CommitOffsets(None, "", None, -1, [])
    assert find_error(group_in(GroupState.EMPTY), commit) is ErrorCode.NONE
    assert {find_error(group_in(state), commit) for state in WITH_MEMBERS} == {ErrorCode.UNKNOWN_MEMBER_ID}


@pytest.mark.parametrize("state", ALIVE)
def test_a_producer_that_names_no_member_may_commit(state: GroupState) -> None:
    assert find_error(group_in(state), CommitInTransaction(None, "", None, -1, [], (1, 0), is_open)) is ErrorCode.NONE


def test_only_members_must_wait_with_a_commit_until_the_assignment_is_there() -> None:
    group = group_in(GroupState.COMPLETING_REBALANCE)
    assert find_error(group, CommitOffsets(None, "m1", None, 5, [])) is ErrorCode.REBALANCE_IN_PROGRESS
    assert find_error(group, CommitInTransaction(None, "m1", None, 5, [], (1, 0), is_open)) is ErrorCode.NONE
