"""Committed offsets in the group machine: how they are committed, deleted and expire, and the end of a group with them.

The guards decide whether a commit may be written, and whether the group may be deleted. Offsets in a transaction
(KIP-98, KIP-447) are ordinary records, but count only once the transaction's commit marker follows them in the log. The
marker is no record of the group: its writer feeds EndTransaction, and a replay reads it from the log.

Offsets of a topic that a member subscribes are not deleted: without them the member would go on from another place. An
empty group goes with its last offset to expire. A group that lost its last offset otherwise (OffsetDelete, a deleted
topic, an aborted transaction) goes with the next sweep, as in Kafka.

The time in `offsets.retention.minutes` counts

- from when the group became empty, for a group that has had members;
- from the commit, for offsets of consumers outside of any group, and for topics that no member of a stable group
  subscribes any more;
- not at all while a group rebalances, and not if the subscription of a member cannot be read.

A commit with a retention time of its own (OffsetCommit 2 to 4) expires when that time is over, on the same terms.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....protocol.errors import ErrorCode
from ....protocol.messages.group_records import OffsetCommitValue
from ..consumer.changes import group_gone
from ..groups.events import (
    CommitInTransaction,
    CommitOffsets,
    Delete,
    DeleteOffsets,
    DropTopic,
    EndTransaction,
    ExpireOffsets,
    OffsetsDeleted,
    Outcome,
)
from ..groups.group import Group
from ..groups.records import GroupRecord, OffsetRecord, Record
from ..groups.subscriptions import CONSUMER, subscribed_topics
from .sessions import renew_session
from .states import GroupState

NO_EXPIRY = -1
NO_TIMESTAMP = -1


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


def expire_offsets(group: Group, event: ExpireOffsets, outcome: Outcome, now_ms: int) -> None:
    """Delete the offsets that were kept long enough. `offsets.retention.check.interval.ms` says how often."""
    expired: list[Record] = []
    if group.state is GroupState.EMPTY or _has_stable_consumers(group):
        expired.extend(_expired(group, event.retention_ms, now_ms))
    outcome.records.extend(expired)
    if len(expired) == len(group.offsets) and not group.offsets.pending:
        group.had_offsets = False
        _delete_if_unused(group, outcome)


def drop_topic(group: Group, event: DropTopic, outcome: Outcome, now_ms: int) -> None:
    """Delete the offsets of a deleted topic: in a new topic of that name, consumers begin at the beginning."""
    offsets, kept_id = group.offsets, event.kept_id
    for index in offsets.with_pending(event.topic):
        if kept_id is not None:
            value = offsets.get(event.topic, index)
            # A tombstone would take the one that an open transaction has for the new topic, too. One without an id is
            # of an earlier version, and so older than any topic that was made again.
            if value is None or value.topic_id == kept_id or (event.topic, index) in offsets.pending:
                continue
        outcome.records.append(OffsetRecord(group.group_id, event.topic, index, None))


def _has_stable_consumers(group: Group) -> bool:
    if group.consumer is not None:
        return True
    return group.state is GroupState.STABLE and group.protocol_type == CONSUMER


def _expired(group: Group, retention_ms: int, now_ms: int) -> Iterator[OffsetRecord]:
    subscribed = subscribed_topics(group)
    if subscribed is None:
        return
    # A group that had members counts from the day when the last one left.
    empty_since_ms = NO_TIMESTAMP
    if group.state is GroupState.EMPTY and group.protocol_type is not None:
        empty_since_ms = group.state_since_ms
    for topic, partitions in group.offsets:
        if topic in subscribed:
            continue
        for index, value in partitions.items():
            if (topic, index) in group.offsets.pending:
                # A transaction is about to replace it.
                continue
            since_ms = value.commit_timestamp if empty_since_ms == NO_TIMESTAMP else empty_since_ms
            if _is_over(value, since_ms, retention_ms, now_ms):
                yield OffsetRecord(group.group_id, topic, index, None)


def _is_over(value: OffsetCommitValue, since_ms: int, retention_ms: int, now_ms: int) -> bool:
    if value.expire_timestamp != NO_EXPIRY:
        return now_ms >= value.expire_timestamp
    return now_ms - since_ms >= retention_ms


def _delete_if_unused(group: Group, outcome: Outcome) -> None:
    """Delete a group without members, pending ids and offsets."""
    if group.consumer is not None:
        if not group.consumer.members:
            outcome.records.extend(group_gone(group.group_id, group.consumer))
            outcome.notes.append(f"group {group.group_id} is deleted: it is empty and its offsets have expired")
    elif group.state is GroupState.EMPTY and not group.roster.pending and group.recorded:
        outcome.records.append(GroupRecord(group.group_id, None))
        outcome.notes.append(f"group {group.group_id} is deleted: it is empty and its offsets have expired")
