"""DeleteGroups and OffsetDelete in the group machine: an administrator deletes an empty group, or committed offsets.

The guards decide whether the group may be deleted. Offsets of a topic that a member subscribes stay: without them the
member would go on from another place.
"""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from .events import Delete, DeleteOffsets, OffsetsDeleted, Outcome
from .group import Group
from .records import GroupRecord, OffsetRecord
from .subscriptions import subscribed_topics


def delete(group: Group, event: Delete, outcome: Outcome, now_ms: int) -> None:
    """Write a tombstone for every offset and for the group itself. One batch holds them all, so all go or none."""
    outcome.reply(event.token, ErrorCode.NONE)
    outcome.records.extend(offset_tombstones(group))
    outcome.records.append(GroupRecord(group.group_id, None))
    outcome.notes.append(f"group {group.group_id} is deleted by request, with {len(group.offsets)} committed offsets")


def offset_tombstones(group: Group) -> list[OffsetRecord]:
    """Return a tombstone for every offset that the group has, or will have if a transaction commits."""
    topics = ((topic, group.offsets.with_pending(topic)) for topic in group.offsets.topics())
    return [OffsetRecord(group.group_id, topic, index, None) for topic, indexes in topics for index in indexes]


def delete_offsets(group: Group, event: DeleteOffsets, outcome: Outcome, now_ms: int) -> None:
    """Write a tombstone for each offset of the request that exists. One that does not exist counts as deleted."""
    subscribed = frozenset(event.partitions) & _subscribed(group, event)
    for topic, indexes in event.partitions.items():
        if topic not in subscribed:
            known = set(group.offsets.with_pending(topic))
            there = dict.fromkeys(index for index in indexes if index in known)
            outcome.records.extend(OffsetRecord(group.group_id, topic, index, None) for index in there)
    outcome.reply(event.token, OffsetsDeleted(subscribed))


def _subscribed(group: Group, event: DeleteOffsets) -> frozenset[str]:
    """Return the topics that the members subscribe, or all topics of the request if that cannot be read."""
    topics = subscribed_topics(group)
    return frozenset(event.partitions if topics is None else topics)
