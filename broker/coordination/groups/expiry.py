"""When committed offsets go: they were kept long enough, or their topic was deleted. An empty group goes with its last.

How long is long enough (`offsets.retention.minutes`) is counted

- from when the group became empty, for a group that has had members;
- from the commit, for offsets of consumers outside of any group, and for topics that no member of a stable group
  subscribes any more;
- not at all while a group rebalances, nor where nobody can tell what its members subscribe.

A commit that came with a retention time of its own (OffsetCommit 2 to 4) goes when that is over, on the same terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ....protocol.errors import DecodeError
from ....protocol.messages.consumer_protocol import ConsumerProtocolSubscription, decode_versioned
from ....protocol.messages.group_records import OffsetCommitValue
from .events import DropTopic, ExpireOffsets, Outcome
from .records import GroupRecord, OffsetRecord, Record
from .states import GroupState

if TYPE_CHECKING:
    from .machine import Group

CONSUMER = "consumer"
NO_EXPIRY = -1
NO_TIMESTAMP = -1


def expire_offsets(group: Group, event: ExpireOffsets, outcome: Outcome, now_ms: int) -> None:
    """Looks what has been kept long enough. Called every `offsets.retention.check.interval.ms`."""
    expired: list[Record] = []
    if group.state is GroupState.EMPTY or _has_stable_consumers(group):
        expired.extend(_expired(group, event.retention_ms, now_ms))
    outcome.records.extend(expired)
    if len(expired) == len(group.offsets) and not group.offsets.pending:
        _delete_if_unused(group, outcome)


def drop_topic(group: Group, event: DropTopic, outcome: Outcome, now_ms: int) -> None:
    """The topic was deleted: whoever makes one of that name again begins at its beginning."""
    for index in group.offsets.with_pending(event.topic):
        outcome.records.append(OffsetRecord(group.group_id, event.topic, index, None))


def subscribed_topics(group: Group) -> set[str] | None:
    """What the members of a consumer group subscribe; None where that cannot be told."""
    topics: set[str] = set()
    for member in group.roster.members.values():
        try:
            subscription = decode_versioned(ConsumerProtocolSubscription, member.metadata(group.protocol))
        except DecodeError:
            return None
        topics.update(subscription.topics)
    return topics


def _has_stable_consumers(group: Group) -> bool:
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
                # A transaction is about to say more of it.
                continue
            since_ms = value.commit_timestamp if empty_since_ms == NO_TIMESTAMP else empty_since_ms
            if _is_over(value, since_ms, retention_ms, now_ms):
                yield OffsetRecord(group.group_id, topic, index, None)


def _is_over(value: OffsetCommitValue, since_ms: int, retention_ms: int, now_ms: int) -> bool:
    if value.expire_timestamp != NO_EXPIRY:
        return now_ms >= value.expire_timestamp
    return now_ms - since_ms >= retention_ms


def _delete_if_unused(group: Group, outcome: Outcome) -> None:
    """Nobody is there, nobody is coming, and there will be nothing left to remember."""
    if group.state is GroupState.EMPTY and not group.roster.pending and group.recorded:
        outcome.records.append(GroupRecord(group.group_id, None))
        outcome.notes.append(f"group {group.group_id} is deleted: it is empty and its offsets have expired")
