"""A rebalance, from its beginning to the new generation: every change of membership runs through here.

A rebalance waits for all members, and for ids that were given out. In the first round of an empty group it waits
`group.initial.rebalance.delay.ms` instead, again and again while members join, but no longer than a rebalance may take.
When the time is up, dynamic members that did not join are dropped. Static members keep their place until their session
ends (KIP-345).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ....protocol.errors import ErrorCode
from ....protocol.messages.group_history import HistoricCause
from ....protocol.messages.join_group import JoinGroupResponseMember
from ..groups.events import (
    CancelTimer,
    InitialDelayPassed,
    Joined,
    Outcome,
    RebalanceTimeout,
    SetTimer,
    Synced,
    SyncTimeout,
    TimerEvent,
)
from ..groups.events import Rebalance as RebalanceEvent
from ..groups.group import Group, generation_record
from ..groups.history import CauseKind, Ending, Fate, Rebalance, cut
from .roster import Member, elect_protocol
from .sessions import remove_member, start_session
from .states import GroupState

_JOINS_ARE_OVER: list[CancelTimer[TimerEvent]] = [CancelTimer(RebalanceTimeout()), CancelTimer(InitialDelayPassed())]
_SYNCS_ARE_OVER: CancelTimer[TimerEvent] = CancelTimer(SyncTimeout())


def rebalance(group: Group, event: RebalanceEvent, outcome: Outcome, now_ms: int) -> None:
    """Begin a rebalance of the members that there are, unless one runs."""
    if group.roster.members and group.state is not GroupState.PREPARING_REBALANCE:
        prepare(group, [HistoricCause(CauseKind.REQUESTED)], outcome, now_ms)


def trigger(group: Group, causes: Sequence[HistoricCause], outcome: Outcome, now_ms: int) -> None:
    """Begin a rebalance because membership or metadata changed, or note the change in the one that runs."""
    if group.state is GroupState.PREPARING_REBALANCE:
        _note_change(group, causes, now_ms)
        complete_if_all_joined(group, outcome, now_ms)
    else:
        prepare(group, causes, outcome, now_ms)


def prepare(group: Group, causes: Iterable[HistoricCause], outcome: Outcome, now_ms: int) -> None:
    """Begin a rebalance: all members must join again."""
    _begin_history(group, causes, outcome, now_ms)
    if group.state is GroupState.COMPLETING_REBALANCE:
        answer_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, outcome)
    group.roster.not_synced.clear()
    outcome.timers.append(_SYNCS_ARE_OVER)
    was_empty = group.state is GroupState.EMPTY
    group.move_to(GroupState.PREPARING_REBALANCE, now_ms)
    if was_empty and group.limits.initial_rebalance_delay_ms:
        _begin_first_round(group, outcome)
    elif was_empty or group.roster.all_joined():
        complete(group, outcome, now_ms)
    else:
        outcome.timers.append(SetTimer(RebalanceTimeout(), group.roster.rebalance_timeout_ms()))


def complete_if_all_joined(group: Group, outcome: Outcome, now_ms: int) -> None:
    """End PreparingRebalance if no member is missing. The first round always runs its time."""
    if not group.first_round and group.roster.all_joined():
        complete(group, outcome, now_ms)


def complete(group: Group, outcome: Outcome, now_ms: int) -> None:
    """End PreparingRebalance: drop the members that did not join, make the next generation, answer the joins."""
    outcome.timers.extend(_JOINS_ARE_OVER)
    absent = _drop_absent(group, outcome)
    roster = group.roster
    if not roster.members:
        _become_empty(group, absent, outcome, now_ms)
        return
    if not roster.joins:
        # Only static members are left and none has joined yet: their sessions decide.
        outcome.timers.append(SetTimer(RebalanceTimeout(), roster.rebalance_timeout_ms()))
        return
    if group.leader not in roster.joins:
        group.leader = next(iter(roster.joins))
    group.rebalances[-1].joins_answered(absent, now_ms)
    _begin_generation(group, outcome, now_ms)


def end(group: Group, ending: Ending, outcome: Outcome, now_ms: int) -> None:
    """Note that the current rebalance is over, with one line for the log."""
    current = group.rebalances[-1]
    current.end(ending, now_ms)
    outcome.notes.append(f"group {group.group_id} {current.text}")


# -- Answers


def answer_syncs(group: Group, error: ErrorCode, outcome: Outcome) -> None:
    """Answer the parked syncs with an error: this generation gets no assignment, and no member keeps one from it."""
    for member_id, token in group.roster.syncs.items():
        outcome.reply(token, Synced(error))
        start_session(group.roster.members[member_id], outcome)
    group.roster.syncs.clear()
    for member in group.roster.members.values():
        member.assignment = b""


def joined(group: Group, member_id: str) -> Joined:
    """Return the answer to a join in the current generation. The leader's lists all members."""
    is_leader = member_id == group.leader
    return Joined(
        ErrorCode.NONE,
        member_id,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader or "",
        members=joined_members(group, group.roster.members.values()) if is_leader else [],
    )


def joined_members(group: Group, members: Iterable[Member]) -> list[JoinGroupResponseMember]:
    """Return the members as their leader gets them."""
    return [JoinGroupResponseMember(m.member_id, m.instance_id, m.metadata(group.protocol)) for m in members]


# -- Timers


def initial_delay_passed(group: Group, event: InitialDelayPassed, outcome: Outcome, now_ms: int) -> None:
    """Wait again if members joined during the last delay and time is left. Otherwise end the first round."""
    if group.state is not GroupState.PREPARING_REBALANCE or not group.first_round:
        return
    if not group.grew or group.first_round_left_ms == 0:
        complete(group, outcome, now_ms)
        return
    group.grew = False
    delay_ms = min(group.limits.initial_rebalance_delay_ms, group.first_round_left_ms)
    group.first_round_left_ms -= delay_ms
    outcome.timers.append(SetTimer(InitialDelayPassed(), delay_ms))


def rebalance_timeout(group: Group, event: RebalanceTimeout, outcome: Outcome, now_ms: int) -> None:
    """Go on without the members that did not join in time."""
    if group.state is GroupState.PREPARING_REBALANCE:
        complete(group, outcome, now_ms)


def sync_timeout(group: Group, event: SyncTimeout, outcome: Outcome, now_ms: int) -> None:
    """Take out the members that did not sync in time, and rebalance without them."""
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.roster.not_synced:
        return
    missing = [member_id for member_id in group.roster.members if member_id in group.roster.not_synced]
    causes = [group.roster.members[member_id].cause(CauseKind.NOT_SYNCED) for member_id in missing]
    for member_id in missing:
        remove_member(group, member_id, outcome)
    prepare(group, causes, outcome, now_ms)


# -- Parts


def _begin_history(group: Group, causes: Iterable[HistoricCause], outcome: Outcome, now_ms: int) -> None:
    """Note a new rebalance. One that still runs is overtaken."""
    if group.rebalances and group.rebalances[-1].ending is Ending.RUNNING:
        end(group, Ending.OVERTAKEN, outcome, now_ms)
    current = Rebalance(now_ms, group.generation, group.state is GroupState.EMPTY)
    current.add(causes)
    group.rebalances.append(current)


def _note_change(group: Group, causes: Sequence[HistoricCause], now_ms: int) -> None:
    """Note causes that came while members were still joining."""
    current = group.rebalances[-1]
    current.add(causes)
    for cause in causes:
        if cause.member_id in group.roster.joins:
            current.arrived(cause.member_id, now_ms)
        elif cause.kind in (CauseKind.LEFT, CauseKind.EXPIRED):
            current.lost(cause.member_id, now_ms)


def _begin_first_round(group: Group, outcome: Outcome) -> None:
    delay_ms = group.limits.initial_rebalance_delay_ms
    group.first_round = True
    group.grew = False
    group.first_round_left_ms = max(group.roster.rebalance_timeout_ms() - delay_ms, 0)
    outcome.timers.append(SetTimer(InitialDelayPassed(), delay_ms))


def _drop_absent(group: Group, outcome: Outcome) -> dict[str, Fate]:
    """Take out the dynamic members that did not join. Return all that did not join, with what became of them."""
    absent: dict[str, Fate] = {}
    for member_id in group.roster.missing():
        member = group.roster.members.get(member_id)
        is_dynamic = member is not None and member.instance_id is None
        absent[member_id] = Fate.DROPPED if is_dynamic else Fate.KEPT
        if is_dynamic:
            remove_member(group, member_id, outcome)
    return absent


def _become_empty(group: Group, absent: dict[str, Fate], outcome: Outcome, now_ms: int) -> None:
    """Write a generation without members. The group is Empty when the record is committed."""
    group.first_round = False
    group.leader = None
    current = group.rebalances[-1]
    current.generation = group.generation + 1
    if absent:
        current.joins_answered(absent, now_ms)
    end(group, Ending.EMPTY, outcome, now_ms)
    outcome.records.append(generation_record(group, group.generation + 1, (), None, now_ms))


def _begin_generation(group: Group, outcome: Outcome, now_ms: int) -> None:
    """Begin the next generation: answer the joins, and wait for the leader's assignment."""
    roster = group.roster
    group.first_round = False
    group.generation += 1
    group.protocol = elect_protocol(roster.members.values())
    group.move_to(GroupState.COMPLETING_REBALANCE, now_ms)
    for member_id, token in roster.joins.items():
        outcome.reply(token, joined(group, member_id))
    roster.joins.clear()
    for member in roster.members.values():
        member.is_new = False
        start_session(member, outcome)
    roster.not_synced = set(roster.members)
    outcome.timers.append(SetTimer(SyncTimeout(), roster.rebalance_timeout_ms()))
    current = group.rebalances[-1]
    current.generation, current.members = group.generation, len(roster)
    current.protocol, current.leader = cut(group.protocol), cut(group.leader or "")
