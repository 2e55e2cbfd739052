"""Offsets that are part of a producer's transaction, in the group machine (KIP-98, KIP-447).

They are records like any other, but count only once the transaction's commit marker is in the log behind them. The
marker itself is no record of the group: whoever wrote it feeds EndTransaction, and a replay reads it where it stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....protocol.errors import ErrorCode
from . import membership
from .events import CommitInTransaction, EndTransaction, Outcome

if TYPE_CHECKING:
    from .machine import Group


def commit_in_transaction(group: Group, event: CommitInTransaction, outcome: Outcome, now_ms: int) -> None:
    """Lets a commit pass to the log, or refuses it whole. A producer keeps no member's session alive."""
    error = membership.check_commit(group, event)
    outcome.replies.append((event.token, error))
    if error is ErrorCode.NONE:
        outcome.records.extend(event.records)
        outcome.producer = event.producer


def end_transaction(group: Group, event: EndTransaction, outcome: Outcome, now_ms: int) -> None:
    """Takes effect at once: the marker is written."""
    group.offsets.end(event.producer_id, event.commit)
