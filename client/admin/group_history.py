"""The history of a group's rebalances, from the broker's form into the values that users hold."""

from __future__ import annotations

from ...protocol.messages.group_history import HistoricCause, HistoricRebalance
from ..core.descriptions import GroupRebalance, RebalanceCause, RebalanceWait


def group_rebalance(rebalance: HistoricRebalance) -> GroupRebalance:
    """Return one rebalance with the durations of its two phases."""
    ended_ms = None if rebalance.ended_ms < 0 else rebalance.ended_ms
    joins_ms = None if rebalance.joined_ms < 0 else max(rebalance.joined_ms - rebalance.began_ms, 0)
    assigned = joins_ms is not None and ended_ms is not None and rebalance.ending != "empty"
    return GroupRebalance(
        rebalance.began_ms,
        ended_ms,
        joins_ms,
        max(rebalance.ended_ms - rebalance.joined_ms, 0) if assigned else None,
        rebalance.ending,
        rebalance.first_round,
        rebalance.old_generation,
        rebalance.generation,
        rebalance.members,
        rebalance.protocol,
        rebalance.leader,
        tuple(_cause(cause) for cause in rebalance.causes),
        rebalance.more_causes,
        tuple(RebalanceWait(wait.member_id, wait.waited_ms, wait.fate) for wait in rebalance.waited),
    )


def _cause(cause: HistoricCause) -> RebalanceCause:
    return RebalanceCause(
        cause.kind,
        cause.text,
        cause.member_id,
        cause.instance_id,
        cause.client_id,
        cause.client_host,
        None if cause.silent_ms < 0 else cause.silent_ms,
        cause.detail,
    )
