"""Commits of offsets in the group machine: by members, from outside of the group, and in a producer's transaction.

The guards decide whether a commit may be written. Offsets in a transaction (KIP-98, KIP-447) are ordinary records, but
count only once the transaction's commit marker follows them in the log. The marker is no record of the group: its
writer feeds EndTransaction, and a replay reads it from the log.
"""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from .events import CommitInTransaction, CommitOffsets, EndTransaction, Outcome
from .group import Group
from .sessions import renew_session


def commit_offsets(group: Group, event: CommitOffsets, outcome: Outcome, now_ms: int) -> None:
    """Write the offsets. A commit renews the member's session."""
    outcome.reply(event.token, ErrorCode.NONE)
    outcome.records.extend(event.records)
    member = group.roster.members.get(event.member_id)
    if member is not None:
        renew_session(member, outcome, now_ms)


def commit_in_transaction(group: Group, event: CommitInTransaction, outcome: Outcome, now_ms: int) -> None:
    """Write the offsets as part of a transaction. A producer does not renew a member's session."""
    error = event.verify()
    outcome.reply(event.token, error)
    if error is not ErrorCode.NONE:
        return
    outcome.records.extend(event.records)
    outcome.producer = event.producer


def end_transaction(group: Group, event: EndTransaction, outcome: Outcome, now_ms: int) -> None:
    """Make the offsets of a transaction count, or drop them. This needs no record: the marker is written."""
    group.offsets.end(event.producer_id, event.commit)
