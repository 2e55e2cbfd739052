"""The records that change a consumer group, in Kafka's form and order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ....protocol.messages import consumer_group_records as kafka
from ..groups.records import PartRecord
from ..modern.state import Place, by_topic
from .state import ConsumerGroup, Current, Member, Resolved

# The version of the metadata that a regular expression was matched with. A Kafka that reads the log matches it anew.
_ANY_VERSION = 0


def epoch_bumped(group_id: str, body: ConsumerGroup, metadata_hash: int) -> list[PartRecord]:
    """Return the records that raise the epoch of a group."""
    value = kafka.ConsumerGroupMetadataValue(body.epoch + 1, metadata_hash)
    records = [PartRecord(kafka.ConsumerGroupMetadataKey(group_id), value)]
    if body.has_partition_metadata:
        records.append(PartRecord(kafka.ConsumerGroupPartitionMetadataKey(group_id), None))
    return records


def said(group_id: str, member_id: str, value: kafka.ConsumerGroupMemberMetadataValue | None) -> PartRecord:
    """Return the record of what a member says of itself."""
    return PartRecord(kafka.ConsumerGroupMemberMetadataKey(group_id, member_id), value)


def target_of(group_id: str, member_id: str, target: Iterable[Place]) -> PartRecord:
    """Return the record of a member's target."""
    topics = [kafka.TopicPartition(topic_id, indexes) for topic_id, indexes in by_topic(target).items()]
    key = kafka.ConsumerGroupTargetAssignmentMemberKey(group_id, member_id)
    return PartRecord(key, kafka.ConsumerGroupTargetAssignmentMemberValue(topics))


def target_computed(group_id: str, epoch: int, now_ms: int) -> PartRecord:
    """Return the record that says for which epoch all targets are."""
    value = kafka.ConsumerGroupTargetAssignmentMetadataValue(epoch, now_ms)
    return PartRecord(kafka.ConsumerGroupTargetAssignmentMetadataKey(group_id), value)


def current(group_id: str, member_id: str, now: Current) -> PartRecord:
    """Return the record of where a member stands."""
    key = kafka.ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id)
    value = kafka.ConsumerGroupCurrentMemberAssignmentValue(
        now.epoch, now.previous_epoch, now.state, _with_epochs(now.assigned), _with_epochs(now.revoking)
    )
    return PartRecord(key, value)


def resolved(group_id: str, regex: str, found: Resolved | None) -> PartRecord:
    """Return the record of the topics that a regular expression matches; None: nobody uses it any more."""
    key = kafka.ConsumerGroupRegularExpressionKey(group_id, regex)
    if found is None:
        return PartRecord(key, None)
    value = kafka.ConsumerGroupRegularExpressionValue(sorted(found.topics), _ANY_VERSION, found.resolved_ms)
    return PartRecord(key, value)


def member_gone(group_id: str, member_id: str) -> list[PartRecord]:
    """Return the tombstones of a member."""
    return [
        PartRecord(kafka.ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        PartRecord(kafka.ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None),
        said(group_id, member_id, None),
    ]


def member_replaced(group_id: str, old: Member, new_id: str) -> list[PartRecord]:
    """Return the records that give a static member's place to the member that comes back under another id."""
    copy = old.current._replace(epoch=0, previous_epoch=0)
    return [
        *member_gone(group_id, old.member_id),
        said(group_id, new_id, old.said),
        target_of(group_id, new_id, old.target),
        current(group_id, new_id, copy),
    ]


def group_gone(group_id: str, body: ConsumerGroup) -> list[PartRecord]:
    """Return the tombstones of a group, the one of the group itself last. Its members go before it, if it has any."""
    records: list[PartRecord] = []
    for member_id in body.members:
        records += member_gone(group_id, member_id)
    records.append(PartRecord(kafka.ConsumerGroupTargetAssignmentMetadataKey(group_id), None))
    records += [resolved(group_id, regex, None) for regex in body.regexes]
    records.append(PartRecord(kafka.ConsumerGroupPartitionMetadataKey(group_id), None))
    records.append(PartRecord(kafka.ConsumerGroupMetadataKey(group_id), None))
    return records


def _with_epochs(places: Mapping[Place, int]) -> list[kafka.TopicPartitions]:
    topics: dict[bytes, tuple[list[int], list[int]]] = {}
    for (topic_id, index), epoch in sorted(places.items()):
        indexes, epochs = topics.setdefault(topic_id, ([], []))
        indexes.append(index)
        epochs.append(epoch)
    return [kafka.TopicPartitions(topic_id, *each) for topic_id, each in topics.items()]
