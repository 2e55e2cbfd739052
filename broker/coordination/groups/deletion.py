"""What an administrator takes away, in the group machine: a whole group that is empty, or committed offsets.

Offsets of a topic that a member subscribes stay: the member would go on from nowhere. What the members of a group of
another kind (Connect's workers, say) hold nobody can tell, so that such a group gives up nothing while it has members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....protocol.errors import ErrorCode
from .events import Delete, DeleteOffsets, OffsetsDeleted, Outcome
from .expiry import CONSUMER, subscribed_topics
from .records import GroupRecord, OffsetRecord
from .states import GroupState

if TYPE_CHECKING:
    from .machine import Group


def delete(group: Group, event: Delete, outcome: Outcome, now_ms: int) -> None:
    """A tombstone for every offset and for the group itself, in one batch: all of it goes, or nothing."""
    error = ErrorCode.NONE
    if group.state is GroupState.DEAD:
        error = ErrorCode.GROUP_ID_NOT_FOUND
    elif group.state is not GroupState.EMPTY:
        error = ErrorCode.NON_EMPTY_GROUP
    outcome.replies.append((event.token, error))
    if error is not ErrorCode.NONE:
        return
    for topic in group.offsets.topics():
        indexes = group.offsets.with_pending(topic)
        outcome.records.extend(OffsetRecord(group.group_id, topic, index, None) for index in indexes)
    outcome.records.append(GroupRecord(group.group_id, None))
    outcome.notes.append(f"group {group.group_id} is deleted by request, with {len(group.offsets)} committed offsets")


def delete_offsets(group: Group, event: DeleteOffsets, outcome: Outcome, now_ms: int) -> None:
    """Tombstones for the offsets that are there; one that is not there is as good as deleted."""
    error = _check(group)
    if error is not ErrorCode.NONE:
        outcome.replies.append((event.token, error))
        return
    subscribed = frozenset(event.partitions) & _subscribed(group, event)
    for topic, indexes in event.partitions.items():
        if topic not in subscribed:
            known = set(group.offsets.with_pending(topic))
            there = dict.fromkeys(index for index in indexes if index in known)
            outcome.records.extend(OffsetRecord(group.group_id, topic, index, None) for index in there)
    outcome.replies.append((event.token, OffsetsDeleted(subscribed)))


def _check(group: Group) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def _subscribed(group: Group, event: DeleteOffsets) -> frozenset[str]:
    """What the members subscribe; everything, where they do not say it in a way that can be read."""
    topics = subscribed_topics(group)
    return frozenset(event.partitions if topics is None else topics)
