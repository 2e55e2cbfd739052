"""The five states of a classic group, and the moves between them.

                 join                all came, or time is up             the leader's assignment is written
      Empty ------------> Preparing ------------------------> Completing -----------------------------------> Stable
        ^                 Rebalance <------------------------ Rebalance                                         |
        |                  |  ^  join, leave, expiry, or an assignment that could not be written                |
        +------------------+  +---------------------------------------------------------------------------------+
          nobody is left           join of a new member or with new metadata, of the leader; leave; expiry

Empty, Stable and Dead are states of the log: a group enters them when their record is committed, now or while the log
is replayed. PreparingRebalance and CompletingRebalance are only in memory: a coordinator that restarts finds the last
generation that was written.
"""

from __future__ import annotations

from enum import Enum


class GroupState(Enum):
    """The state of a group; the value is the name that Kafka shows."""

    # Each member is one object: its identity is its hash. Enum's own is a call in Python at every look-up in GUARDS.
    __hash__ = object.__hash__

    # The group has no members, but may have offsets. It takes joins, and commits from outside (generation -1).
    #   -> PreparingRebalance when a member joins, -> Dead when the group is deleted or its offsets have expired,
    #   -> Stable only in a replay, by the record of a group with members.
    EMPTY = "Empty"

    # Joins are parked until every member has joined again or the time is up. Heartbeats and syncs get
    # REBALANCE_IN_PROGRESS. Members may still commit, so that they can save their work before they give up partitions.
    #   -> CompletingRebalance when the joins are answered, -> Empty when nobody is left, -> Dead when unloaded.
    PREPARING_REBALANCE = "PreparingRebalance"

    # The next generation is known. Syncs are parked until the leader sends the assignment. Commits get
    # REBALANCE_IN_PROGRESS.
    #   -> Stable when the assignment is committed, -> PreparingRebalance when membership or metadata change,
    #   -> Empty when the group becomes a consumer group, -> Dead when unloaded.
    COMPLETING_REBALANCE = "CompletingRebalance"

    # Every member has an assignment. Heartbeats, syncs and a follower's join are answered at once.
    #   -> PreparingRebalance when membership or metadata change or the leader joins again, -> Dead when unloaded,
    #   -> Empty when the group becomes a consumer group, and in a replay: the log has the generations, but not the
    #   rebalances between them.
    STABLE = "Stable"

    # The group is deleted, or another coordinator has it. The guards reject every request. -> nowhere.
    DEAD = "Dead"


# From each state, the states that a group may enter next.
LEGAL: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.STABLE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}
