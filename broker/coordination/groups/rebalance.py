"""How a rebalance begins, whom it waits for and how it ends: the core that every change of membership runs through.

It waits for all members, and for those that have only asked for an id. In the first round of an empty group it waits
`group.initial.rebalance.delay.ms` instead, again and again while members keep coming, but not longer than a rebalance
may take. When time is up, dynamic members that did not come are dropped; static ones keep their place until their
session ends (KIP-345).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....protocol.errors import ErrorCode
from .events import (
    CancelTimer,
    InitialDelayPassed,
    Joined,
    JoinedMember,
    Outcome,
    RebalanceTimeout,
    SetTimer,
    Synced,
    SyncTimeout,
)
from .history import Cause, CauseKind, Ending, Fate, Rebalance
from .roster import Member, elect_protocol
from .states import GroupState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .machine import Group


def trigger(group: Group, causes: Sequence[Cause], outcome: Outcome, now_ms: int) -> None:
    """Membership or metadata changed: begins a rebalance, or lets the one that runs see the change."""
    if group.state is GroupState.PREPARING_REBALANCE:
        current = group.rebalances[-1]
        current.add(causes)
        for cause in causes:
            if cause.member_id in group.roster.joins:
                current.arrived(cause.member_id, now_ms)
            elif cause.kind in (CauseKind.LEFT, CauseKind.EXPIRED):
                current.lost(cause.member_id, now_ms)
        complete_if_all_joined(group, outcome, now_ms)
    else:
        prepare(group, causes, outcome, now_ms)


def prepare(group: Group, causes: Iterable[Cause], outcome: Outcome, now_ms: int) -> None:
    """Begins a rebalance: everyone shall join again."""
    if group.rebalances and group.rebalances[-1].ending is Ending.RUNNING:
        end(group, Ending.OVERTAKEN, outcome, now_ms)
    current = Rebalance(now_ms, group.generation, group.state is GroupState.EMPTY)
    current.add(causes)
    group.rebalances.append(current)
    if group.state is GroupState.COMPLETING_REBALANCE:
        answer_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, outcome)
    group.roster.not_synced.clear()
    outcome.timers.append(CancelTimer(SyncTimeout()))
    was_empty = group.state is GroupState.EMPTY
    no_delay = group.limits.initial_rebalance_delay_ms == 0
    group.move_to(GroupState.PREPARING_REBALANCE, now_ms)
    if was_empty and not no_delay:
        _begin_first_round(group, outcome)
    elif was_empty or group.roster.all_joined():
        complete(group, outcome, now_ms)
    else:
        outcome.timers.append(SetTimer(RebalanceTimeout(), group.roster.rebalance_timeout_ms()))


def complete_if_all_joined(group: Group, outcome: Outcome, now_ms: int) -> None:
    """In PreparingRebalance: goes on unless someone is missing. The first round always runs its time."""
    if not group.first_round and group.roster.all_joined():
        complete(group, outcome, now_ms)


def complete(group: Group, outcome: Outcome, now_ms: int) -> None:
    """Ends PreparingRebalance: drops who did not come, makes the next generation, answers the joins."""
    for timer in (RebalanceTimeout(), InitialDelayPassed()):
        outcome.timers.append(CancelTimer(timer))
    absent = _drop_absent(group, outcome)
    roster = group.roster
    current = group.rebalances[-1]
    if not roster.members:
        group.first_round = False
        group.leader = None
        current.generation = group.generation + 1
        if absent:
            current.joins_answered(absent, now_ms)
        end(group, Ending.EMPTY, outcome, now_ms)
        outcome.records.append(group.generation_record(group.generation + 1, (), None, now_ms))
        return
    if not roster.joins:
        # Only static members are left and none has come yet: their sessions decide.
        outcome.timers.append(SetTimer(RebalanceTimeout(), roster.rebalance_timeout_ms()))
        return
    if group.leader not in roster.joins:
        group.leader = next(iter(roster.joins))
    current.joins_answered(absent, now_ms)
    _begin_generation(group, outcome, now_ms)


def end(group: Group, ending: Ending, outcome: Outcome, now_ms: int) -> None:
    """The current rebalance is over: one line for the log."""
    current = group.rebalances[-1]
    current.end(ending, now_ms)
    outcome.notes.append(f"group {group.group_id} {current.text}")


def answer_syncs(group: Group, error: ErrorCode, outcome: Outcome) -> None:
    """Parked syncs will not get an assignment in this generation; nobody keeps one from it."""
    for member_id, token in group.roster.syncs.items():
        outcome.replies.append((token, Synced(error)))
        group.keep_session(group.roster.members[member_id], outcome)
    group.roster.syncs.clear()
    for member in group.roster.members.values():
        member.assignment = b""


def joined(group: Group, member_id: str) -> Joined:
    """The answer to a join in the current generation; the leader is told of everyone."""
    leads = member_id == group.leader
    return Joined(
        ErrorCode.NONE,
        member_id,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader or "",
        members=joined_members(group, group.roster.members.values()) if leads else [],
    )


def joined_members(group: Group, members: Iterable[Member]) -> list[JoinedMember]:
    """Members as their leader is told of them."""
    return [JoinedMember(m.member_id, m.instance_id, m.metadata(group.protocol)) for m in members]


# Timers.


def initial_delay_passed(group: Group, event: InitialDelayPassed, outcome: Outcome, now_ms: int) -> None:
    """The first round: another delay if members came during the last one and there is time left, else it ends."""
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
    """The members had their time to join."""
    if group.state is GroupState.PREPARING_REBALANCE:
        complete(group, outcome, now_ms)


def sync_timeout(group: Group, event: SyncTimeout, outcome: Outcome, now_ms: int) -> None:
    """The members had their time to sync: those that did not are out, and the others begin anew."""
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.roster.not_synced:
        return
    missing = [member_id for member_id in group.roster.members if member_id in group.roster.not_synced]
    causes = [group.roster.members[member_id].cause(CauseKind.NOT_SYNCED) for member_id in missing]
    for member_id in missing:
        group.drop(member_id, outcome)
    prepare(group, causes, outcome, now_ms)


# Parts.


def _begin_first_round(group: Group, outcome: Outcome) -> None:
    delay_ms = group.limits.initial_rebalance_delay_ms
    group.first_round = True
    group.grew = False
    group.first_round_left_ms = max(group.roster.rebalance_timeout_ms() - delay_ms, 0)
    outcome.timers.append(SetTimer(InitialDelayPassed(), delay_ms))


def _begin_generation(group: Group, outcome: Outcome, now_ms: int) -> None:
    roster = group.roster
    group.first_round = False
    group.generation += 1
    group.protocol = elect_protocol(roster.members.values())
    group.move_to(GroupState.COMPLETING_REBALANCE, now_ms)
    for member_id, token in roster.joins.items():
        outcome.replies.append((token, joined(group, member_id)))
    roster.joins.clear()
    for member in roster.members.values():
        member.is_new = False
        group.keep_session(member, outcome)
    roster.not_synced = set(roster.members)
    outcome.timers.append(SetTimer(SyncTimeout(), roster.rebalance_timeout_ms()))
    current = group.rebalances[-1]
    current.generation, current.members = group.generation, len(roster)
    current.protocol, current.leader = group.protocol, group.leader or ""


def _drop_absent(group: Group, outcome: Outcome) -> dict[str, Fate]:
    """Returns who was waited for in vain."""
    absent: dict[str, Fate] = {}
    for member_id in group.roster.missing():
        member = group.roster.members.get(member_id)
        dynamic = member is not None and member.instance_id is None
        absent[member_id] = Fate.DROPPED if dynamic else Fate.KEPT
        if dynamic:
            group.drop(member_id, outcome)
    return absent
