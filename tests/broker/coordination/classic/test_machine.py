"""The group machine under random events: its invariants hold after every event, in any order."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odradek.broker.coordination.classic import machine
from odradek.broker.coordination.classic.states import LEGAL, GroupState
from odradek.broker.coordination.groups.events import (
    AppendFailed,
    CommitInTransaction,
    CommitOffsets,
    Create,
    Delete,
    DeleteOffsets,
    EndTransaction,
    Event,
    ExpireOffsets,
    Heartbeat,
    InitialDelayPassed,
    Join,
    Joined,
    Leave,
    Outcome,
    RebalanceTimeout,
    SessionExpired,
    Sync,
    SyncTimeout,
    TimerEvent,
)
from odradek.broker.coordination.groups.group import Group, GroupLimits
from odradek.broker.coordination.groups.records import OffsetRecord
from odradek.broker.coordination.replay import Ended
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.group_records import OffsetCommitValue
from odradek.protocol.messages.leave_group import MemberIdentity
from odradek.tests.broker.coordination.classic.stage import GROUP_ID, Stage
from odradek.tests.broker.coordination.classic.world import FakeTopics
from odradek.tests.support.seeds import examples

LIMITS = st.builds(GroupLimits, st.sampled_from([0, 1000]), st.sampled_from([2, 3, 100]))
RANGE = [("range", b"x")]
PROTOCOLS = st.sampled_from([RANGE, RANGE, RANGE, [("range", b"y")], [("sticky", b"s"), *RANGE], [("other", b"")], []])
# Picks a member. The last two pick a pending id and an unknown one.
SEATS = st.integers(0, 5)
# The difference between the generation in a request and the current one.
GENERATION = st.sampled_from([0, 0, 0, 0, -1, 1])
INSTANCE = st.sampled_from([None, None, None, "ia", "ib"])

NEWCOMER = st.just(("join", None, None, RANGE, 3))
STATIC_NEWCOMER = st.tuples(
    st.just("join"), st.none(), st.sampled_from(["ia", "ib"]), PROTOCOLS, st.sampled_from([8, 9])
)
EVERYONE_JOINS = st.just(("everyone joins",))
LEADER_SYNCS = st.just(("leader syncs",))
OPS = st.one_of(
    NEWCOMER,
    STATIC_NEWCOMER,
    st.tuples(st.just("join"), st.none(), st.none(), PROTOCOLS, st.sampled_from([0, 4])),
    st.tuples(st.just("join"), SEATS, INSTANCE, PROTOCOLS, st.just(9)),
    EVERYONE_JOINS,
    EVERYONE_JOINS,
    LEADER_SYNCS,
    LEADER_SYNCS,
    st.tuples(st.just("sync"), SEATS, INSTANCE, GENERATION),
    st.tuples(st.just("sync"), SEATS, st.none(), st.just(0)),
    st.tuples(st.just("heartbeat"), SEATS, INSTANCE, GENERATION),
    st.tuples(st.just("leave"), st.lists(st.tuples(st.none() | SEATS, INSTANCE), max_size=3)),
    st.tuples(st.just("commit"), st.none() | SEATS, INSTANCE, GENERATION),
    st.tuples(st.just("wait"), st.sampled_from([1, 1000, 6000, 30_000])),
    st.tuples(st.just("expire"), st.sampled_from([0, 5000])),
    st.tuples(st.just("txn commit"), st.none() | SEATS, GENERATION, st.integers(7, 8)),
    st.tuples(st.just("txn end"), st.integers(7, 8), st.booleans()),
    st.tuples(st.just("delete")),
    st.tuples(st.just("uncommit")),
    st.tuples(st.just("fail next")),
    st.tuples(st.just("restart")),
)
# Random events alone hardly ever make a stable group: most plays begin with one.
FORMED = [("join", None, None, RANGE, 3), ("wait", 1000), ("leader syncs",)]
GROWN = [
    *FORMED,
    ("join", None, "ia", [("sticky", b"s"), *RANGE], 9),
    ("join", None, "ib", RANGE, 9),
    ("everyone joins",),
]
BEGINNINGS = st.sampled_from([[], FORMED, GROWN, [*GROWN, ("leader syncs",)], [*GROWN, ("leader syncs",)]])


class Observed(Stage):
    """A stage that checks the invariants after every event."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = 0
        self.unanswered: set[Any] = set()
        self.fail_next = False
        # Set when the record of an empty group could not be written, until a newer record is.
        self.log_is_behind = False
        self.commits_of: dict[Any, tuple[str, int]] = {}

    def token(self) -> int:
        self.tokens += 1
        self.unanswered.add(self.tokens)
        return self.tokens

    def seat(self, index: int | None) -> str:
        known = list(self.group.roster.members), list(self.group.roster.pending)
        if index is None:
            return ""
        if index < 4:
            return known[0][index % len(known[0])] if known[0] else "m-unknown"
        return known[1][0] if index == 4 and known[1] else "m-unknown"

    def step(self, event: Event) -> None:
        generation, state = self.group.generation, self.group.state
        super().step(event)
        assert self.group.generation in (generation, generation + 1)
        assert self.group.state in reachable(state), f"{state} -> {self.group.state}"
        check(self)

    def commit(self, outcome: Outcome) -> None:
        if not self.fail_next:
            super().commit(outcome)
            self.log_is_behind &= isinstance(outcome.records[0], OffsetRecord)
            return
        self.fail_next = False
        emptied = not self.group.roster.members and self.group.state is GroupState.PREPARING_REBALANCE
        self.release(machine.step(self.group, AppendFailed(outcome, ErrorCode.NOT_COORDINATOR), self.now_ms))
        self.log_is_behind |= emptied

    def release(self, outcome: Outcome) -> None:
        joined = [answer for _, answer in outcome.replies if isinstance(answer, Joined) and not answer.error]
        if self.group.state is GroupState.COMPLETING_REBALANCE and len(joined) > 1:
            assert any(answer.member_id == answer.leader for answer in joined), "the leader has not joined"
        for token, answer in outcome.replies:
            assert token in self.unanswered, f"{token} was answered before, or never sent: {answer}"
            self.unanswered.remove(token)
            if token in self.commits_of and answer is ErrorCode.NONE:
                member_id, generation = self.commits_of[token]
                if generation >= 0:
                    assert generation == self.group.generation
                    assert member_id in self.group.roster.members
            if isinstance(answer, Joined) and answer.error is ErrorCode.NONE:
                assert answer.leader in self.group.roster.members or answer.member_id != answer.leader
                assert bool(answer.members) == (answer.leader == answer.member_id)
        super().release(outcome)

    def do_op(self, verb: str, *arguments: Any) -> None:
        getattr(self, "op_" + verb.replace(" ", "_"))(*arguments)

    # -- Operations

    def op_join(self, seat: int | None, instance: str | None, protocols: list[tuple[str, bytes]], version: int) -> None:
        self.join(self.seat(seat), instance, protocols, version)

    def join(self, member_id: str, instance: str | None, protocols: list[tuple[str, bytes]], version: int) -> None:
        self.ids += not member_id
        session_ms, rebalance_ms = 6000 + 1000 * version, 20_000
        self.step(
            Join(
                self.token(),
                member_id,
                f"m{self.ids}",
                instance,
                "client",
                "/host",
                session_ms,
                rebalance_ms,
                "consumer",
                tuple(dict(protocols).items()),
                None,
                version >= 4,
                version >= 9,
            )
        )

    def op_everyone_joins(self) -> None:
        for member in list(self.group.roster.members.values()):
            if member.member_id in self.group.roster.members:
                self.join(member.member_id, member.instance_id, list(member.protocols), 9)

    def op_leader_syncs(self) -> None:
        leader = self.group.leader
        if leader is not None:
            seats = {member: member.encode() for member in self.group.roster.members}
            self.step(Sync(self.token(), leader, None, self.group.generation, seats))

    def op_sync(self, seat: int, instance: str | None, off: int) -> None:
        self.step(Sync(self.token(), self.seat(seat), instance, self.group.generation + off, {}))

    def op_heartbeat(self, seat: int, instance: str | None, off: int) -> None:
        self.step(Heartbeat(self.token(), self.seat(seat), instance, self.group.generation + off))

    def op_leave(self, leavers: list[tuple[int | None, str | None]]) -> None:
        self.step(Leave(self.token(), [MemberIdentity(self.seat(seat), instance) for seat, instance in leavers]))

    def op_commit(self, seat: int | None, instance: str | None, off: int) -> None:
        generation = -1 if seat is None else self.group.generation + off
        token = self.token()
        self.commits_of[token] = self.seat(seat), generation
        record = OffsetRecord(GROUP_ID, "t", 0, OffsetCommitValue(offset=token))
        self.step(CommitOffsets(token, self.seat(seat), instance, generation, [record]))

    def op_txn_commit(self, seat: int | None, off: int, producer_id: int) -> None:
        generation = -1 if seat is None else self.group.generation + off
        token = self.token()
        record = OffsetRecord(GROUP_ID, "t", 0, OffsetCommitValue(offset=token), producer_id)
        event = CommitInTransaction(
            token, self.seat(seat), None, generation, [record], (producer_id, 0), lambda: ErrorCode.NONE
        )
        self.step(event)

    def op_txn_end(self, producer_id: int, commit: bool) -> None:
        self.log.append(Ended(producer_id, commit))
        self.step(EndTransaction(producer_id, commit))

    def op_wait(self, for_ms: int) -> None:
        self.do_wait([str(for_ms)], {})

    def op_expire(self, retention_ms: int) -> None:
        self.step(ExpireOffsets(retention_ms))
        self.renew_if_dead()

    def op_delete(self) -> None:
        self.step(Delete(self.token()))
        self.renew_if_dead()

    def op_uncommit(self) -> None:
        self.step(DeleteOffsets(self.token(), {"t": [0]}))

    def renew_if_dead(self) -> None:
        """Make a new group if the group is dead, as a coordinator does for the next member."""
        if self.group.state is GroupState.DEAD:
            self.group = Group(GROUP_ID, self.limits, FakeTopics())
            self.timers.clear()
            self.step(Create())

    def op_fail_next(self) -> None:
        self.fail_next = True

    def op_restart(self) -> None:
        self.unanswered.clear()
        self.fail_next = False
        self.log_is_behind = False
        self.do_restart([], {})


def reachable(state: GroupState) -> set[GroupState]:
    """Return the states that one event may lead to: it can begin a rebalance and end it."""
    found, edge = {state}, {state}
    for _ in range(3):
        edge = {target for source in edge for target in LEGAL[source]}
        found |= edge
    if state is not GroupState.EMPTY:
        found.discard(GroupState.DEAD)
    return found


def check(stage: Observed) -> None:
    """Check what holds between any two events."""
    group, roster = stage.group, stage.group.roster
    members = roster.members
    rebalancing = group.state is GroupState.PREPARING_REBALANCE
    # The invariants of the roster.
    assert roster.static == {m.instance_id: name for name, m in members.items() if m.instance_id is not None}
    assert not roster.pending.keys() & members.keys()
    assert roster.joins.keys() <= members.keys()
    assert roster.syncs.keys() <= members.keys()
    assert roster.not_synced <= members.keys()
    assert roster.supporters == Counter(name for m in members.values() for name in {name for name, _ in m.protocols})
    # A parked request waits for something that will come.
    assert not roster.joins or rebalancing
    assert not roster.syncs or group.state is GroupState.COMPLETING_REBALANCE
    assert stage.unanswered == {*roster.joins.values(), *roster.syncs.values()}
    assert group.incoming is None
    # Leader and members.
    assert (group.leader in members) if members else (group.leader is None or rebalancing)
    assert bool(members) or group.state in (GroupState.EMPTY, GroupState.DEAD, GroupState.PREPARING_REBALANCE)
    assert not members or group.state is not GroupState.EMPTY
    if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        assert group.protocol is not None
        assert roster.supporters[group.protocol] == len(members)
    check_timers(stage)
    if group.state in (GroupState.STABLE, GroupState.EMPTY) and not stage.log_is_behind and group.recorded:
        assert written(stage.replayed()) == written(group)


def check_timers(stage: Observed) -> None:
    group, roster = stage.group, stage.group.roster
    sessions = {event.member_id for event in stage.timers if isinstance(event, SessionExpired)}
    assert sessions <= roster.members.keys() | roster.pending.keys(), "a timer of a member that is gone"
    sheltered = roster.joins.keys() | roster.syncs.keys()
    assert sessions >= (roster.members.keys() - sheltered) | roster.pending.keys(), "a member without a session"
    others: set[type[TimerEvent]] = {type(event) for event in stage.timers} - {SessionExpired}
    if group.state is GroupState.PREPARING_REBALANCE:
        assert others == {InitialDelayPassed if group.first_round else RebalanceTimeout}
    else:
        assert others <= {SyncTimeout}
    if group.state is GroupState.COMPLETING_REBALANCE and roster.not_synced:
        assert SyncTimeout in others


def written(group: Group) -> tuple[object, ...]:
    """Return the part of a group that the log keeps."""
    members = [
        (m.member_id, m.instance_id, m.session_timeout_ms, m.rebalance_timeout_ms, m.metadata(group.protocol))
        for m in group.roster.members.values()
    ]
    assigned = {m.member_id: m.assignment for m in group.roster.members.values()}
    names = group.protocol_type, group.protocol, group.leader
    offsets = {(topic, p): value for topic, values in group.offsets for p, value in values.items()}
    pending = [list(group.offsets.pending.in_order(overtaken=each)) for each in (True, False)]
    return group.state, group.generation, group.state_since_ms, names, members, assigned, offsets, pending


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(LIMITS, BEGINNINGS, st.lists(OPS, min_size=20, max_size=50))
def test_invariants_hold_after_random_events(
    limits: GroupLimits, beginning: list[tuple[Any, ...]], ops: list[tuple[Any, ...]]
) -> None:
    stage = Observed()
    stage.limits, stage.group = limits, Group(GROUP_ID, limits, FakeTopics())
    stage.step(Create())
    for op in (*beginning, *ops):
        stage.do_op(*op)
