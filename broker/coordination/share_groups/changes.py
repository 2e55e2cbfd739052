"""The records that change a share group, in Kafka's form and order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ....protocol.messages import share_group_records as kafka
from ..groups.records import PartRecord
from ..modern.state import Place, by_topic
from .state import Current, ShareGroup, TopicStates

# Members of share groups are always where they should be.
_STABLE = 0


def epoch_bumped(group_id: str, epoch: int, metadata_hash: int) -> PartRecord:
    """Return the record that gives a group its epoch."""
    return PartRecord(kafka.ShareGroupMetadataKey(group_id), kafka.ShareGroupMetadataValue(epoch, metadata_hash))


def said(group_id: str, member_id: str, value: kafka.ShareGroupMemberMetadataValue) -> PartRecord:
    """Return the record of what a member says of itself."""
    return PartRecord(kafka.ShareGroupMemberMetadataKey(group_id, member_id), value)


def target_of(group_id: str, member_id: str, target: Iterable[Place]) -> PartRecord:
    """Return the record of a member's target."""
    topics = [kafka.TopicPartition(topic_id, indexes) for topic_id, indexes in by_topic(target).items()]
    key = kafka.ShareGroupTargetAssignmentMemberKey(group_id, member_id)
    return PartRecord(key, kafka.ShareGroupTargetAssignmentMemberValue(topics))


def target_computed(group_id: str, epoch: int, now_ms: int) -> PartRecord:
    """Return the record that says for which epoch all targets are."""
    value = kafka.ShareGroupTargetAssignmentMetadataValue(epoch, now_ms)
    return PartRecord(kafka.ShareGroupTargetAssignmentMetadataKey(group_id), value)


def current(group_id: str, member_id: str, now: Current) -> PartRecord:
    """Return the record of where a member stands."""
    topics = [kafka.TopicPartitions(topic_id, indexes) for topic_id, indexes in by_topic(now.assigned).items()]
    value = kafka.ShareGroupCurrentMemberAssignmentValue(now.epoch, now.previous_epoch, _STABLE, topics)
    return PartRecord(kafka.ShareGroupCurrentMemberAssignmentKey(group_id, member_id), value)


def states(
    group_id: str,
    initializing: Mapping[bytes, TopicStates],
    initialized: Mapping[bytes, TopicStates],
    deleting: Mapping[bytes, str],
) -> PartRecord:
    """Return the record of the partitions that are ready for members, and of those on their way."""
    value = kafka.ShareGroupStatePartitionMetadataValue(
        _infos(initializing),
        _infos(initialized),
        [kafka.TopicInfo(topic_id, name) for topic_id, name in deleting.items()],
    )
    return PartRecord(kafka.ShareGroupStatePartitionMetadataKey(group_id), value)


def _infos(topics: Mapping[bytes, TopicStates]) -> list[kafka.TopicPartitionsInfo]:
    return [
        kafka.TopicPartitionsInfo(topic_id, each.name, sorted(each.partitions)) for topic_id, each in topics.items()
    ]


def member_gone(group_id: str, member_id: str) -> list[PartRecord]:
    """Return the tombstones of a member."""
    return [
        PartRecord(kafka.ShareGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        PartRecord(kafka.ShareGroupTargetAssignmentMemberKey(group_id, member_id), None),
        PartRecord(kafka.ShareGroupMemberMetadataKey(group_id, member_id), None),
    ]


def group_gone(group_id: str, body: ShareGroup) -> list[PartRecord]:
    """Return the tombstones of a group, the one of the group itself last. Its members go before it, if it has any."""
    records: list[PartRecord] = []
    for member_id in body.members:
        records += member_gone(group_id, member_id)
    records.append(PartRecord(kafka.ShareGroupTargetAssignmentMetadataKey(group_id), None))
    records.append(PartRecord(kafka.ShareGroupStatePartitionMetadataKey(group_id), None))
    records.append(PartRecord(kafka.ShareGroupMetadataKey(group_id), None))
    return records
