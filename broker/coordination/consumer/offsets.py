"""Offsets and a consumer group's members: who may commit and fetch, and the epochs that fence (KIP-848, KIP-1251)."""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from ..classic import offset_steps
from ..groups.events import CommitInTransaction, CommitOffsets, Delete, Outcome
from ..groups.group import Group
from ..groups.records import OffsetRecord, Record
from . import changes, migration
from .state import Current

# Since this version an OffsetCommit has the member's epoch.
MEMBER_EPOCH_VERSION = 9


def commit_offsets(group: Group, event: CommitOffsets, outcome: Outcome, now_ms: int) -> None:
    """Write the offsets of a member, or of a tool while the group has no members."""
    error = commit_error(group, event)
    if error is ErrorCode.NONE:
        offset_steps.commit_offsets(group, event, outcome, now_ms)
    else:
        outcome.reply(event.token, error)


def commit_in_transaction(group: Group, event: CommitInTransaction, outcome: Outcome, now_ms: int) -> None:
    """Write the offsets of a transaction. Old producers name no member."""
    is_unnamed = event.generation < 0 and not event.member_id and event.instance_id is None
    error = ErrorCode.NONE if is_unnamed else commit_error(group, event)
    if error is ErrorCode.NONE:
        offset_steps.commit_in_transaction(group, event, outcome, now_ms)
    else:
        outcome.reply(event.token, error)


def commit_error(group: Group, event: CommitOffsets | CommitInTransaction) -> ErrorCode:
    """Return why a commit is rejected.

    A member may be behind by some epochs where it has held all partitions of the commit since an epoch that it knows.
    """
    body = group.consumer
    assert body is not None
    if event.generation < 0 and not body.members:
        return ErrorCode.NONE
    member = body.members.get(event.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    is_classic = migration.is_classic(member)
    if not is_classic and isinstance(event, CommitOffsets) and event.api_version < MEMBER_EPOCH_VERSION:
        return ErrorCode.UNSUPPORTED_VERSION
    if event.generation == member.current.epoch or _held_since(event.records, member.current, event.generation):
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH


def _held_since(records: list[Record], current: Current, epoch: int) -> bool:
    """Return whether the member got all partitions of a commit at this epoch or before, and still has them."""
    if epoch > current.epoch:
        return False
    held = {**current.assigned, **current.revoking}
    commits = (each for each in records if isinstance(each, OffsetRecord) and each.value is not None)
    places = [(each.value.topic_id, each.partition) for each in commits if each.value is not None]
    return bool(places) and all(place in held and held[place] <= epoch for place in places)


def fetch_error(group: Group, member_id: str | None, epoch: int) -> ErrorCode:
    """Return why an OffsetFetch with a member's epoch is rejected. Tools name no member."""
    body = group.consumer
    if body is None or (member_id is None and epoch < 0):
        return ErrorCode.NONE
    member = body.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    stale = ErrorCode.ILLEGAL_GENERATION if migration.is_classic(member) else ErrorCode.STALE_MEMBER_EPOCH
    return ErrorCode.NONE if epoch == member.current.epoch else stale


def delete(group: Group, event: Delete, outcome: Outcome, now_ms: int) -> None:
    """Delete an empty group with its offsets."""
    body = group.consumer
    assert body is not None
    if body.members:
        outcome.reply(event.token, ErrorCode.NON_EMPTY_GROUP)
        return
    outcome.reply(event.token, ErrorCode.NONE)
    outcome.records += offset_steps.offset_tombstones(group)
    outcome.records += changes.group_gone(group.group_id, body)
    outcome.notes.append(f"group {group.group_id} is deleted by request, with {len(group.offsets)} committed offsets")
