"""The five states of a classic group, and the moves between them.

                 join                all came, or time is up             the leader's assignment is written
      Empty ------------> Preparing ------------------------> Completing -----------------------------------> Stable
        ^                 Rebalance <------------------------ Rebalance                                         |
        |                  |  ^  join, leave, expiry, or an assignment that could not be written                |
        +------------------+  +---------------------------------------------------------------------------------+
          nobody is left           join of a new member or with new metadata, of the leader; leave; expiry

Empty, Stable and Dead are states of the log: a group enters them when the record that says so is committed, now or
while the log is replayed. PreparingRebalance and CompletingRebalance are only in memory: a coordinator that restarts
finds the last generation that was written.
"""

from __future__ import annotations

from enum import Enum


class GroupState(Enum):
    """The state of a group; the value is the name that Kafka shows."""

    # Each member is one object: its identity is its hash. Enum's own is a call in Python at every look-up in GUARDS.
    __hash__ = object.__hash__

    # No members; offsets may be there. Joins are accepted. Commits only from outside of the group (generation -1).
    #   -> PreparingRebalance when a member joins, -> Dead when the group is deleted or its offsets have expired,
    #   -> Stable only by replay: the record of a live group is met.
    EMPTY = "Empty"

    # Joins are parked until every member has joined again or the time is up. Heartbeats are told REBALANCE_IN_PROGRESS,
    # syncs too; commits of the running generation still pass, so that members can save their work before they let go.
    #   -> CompletingRebalance when the joins are answered, -> Empty when nobody is left, -> Dead.
    PREPARING_REBALANCE = "PreparingRebalance"

    # The next generation is known; syncs are parked until the leader sends the assignment. Commits are told
    # REBALANCE_IN_PROGRESS.
    #   -> Stable when the assignment is committed, -> PreparingRebalance when membership or metadata change, -> Dead.
    COMPLETING_REBALANCE = "CompletingRebalance"

    # Everyone has an assignment: heartbeats and syncs are answered at once, a follower's join too.
    #   -> PreparingRebalance when membership or metadata change or the leader joins again, -> Dead,
    #   -> Empty only by replay: the log goes from generation to generation, what lay between them was in memory.
    STABLE = "Stable"

    # Deleted, or moved to another coordinator: every request is told to look for the coordinator again. -> nowhere.
    DEAD = "Dead"


LEGAL: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.STABLE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}
"""From each state, where a group may go next."""


class IllegalMove(Exception):
    """A defect: the machine was about to leave its table of legal moves."""

    def __init__(self, group_id: str, state: GroupState, target: GroupState) -> None:
        super().__init__(f"group {group_id!r} cannot go from {state.value} to {target.value}")
        self.group_id = group_id
        self.state = state
        self.target = target
