"""OffsetFetch: the committed offsets of groups as a response, in the three shapes that its versions have."""

from __future__ import annotations

from typing import NamedTuple

from ....protocol.errors import ErrorCode
from ....protocol.messages.group_records import OffsetCommitValue
from ....protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ....protocol.primitives import ZERO_UUID
from ..interfaces import Topics
from .committed_offsets import CommittedOffsets

NO_OFFSET = -1
NO_EPOCH = -1
# Since this version the response has an error for the group. Before, only for partitions.
TOP_LEVEL_ERROR_VERSION = 2
# Since this version a request names several groups.
SEVERAL_GROUPS_VERSION = 8
# Since this version topics are named by id.
TOPIC_ID_VERSION = 10


class Found(NamedTuple):
    """The offsets of a group, or the error of a group that is not here. An unknown group has neither."""

    error: ErrorCode
    offsets: CommittedOffsets | None


def groups_of(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    """Return the groups of a request, each once. Before version 8 there is one."""
    if version >= SEVERAL_GROUPS_VERSION:
        return list({each.group_id: each for each in request.groups}.values())
    topics = request.topics
    requested = (
        None if topics is None else [OffsetFetchRequestTopics(t.name, ZERO_UUID, t.partition_indexes) for t in topics]
    )
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=requested)]


def fetch_group(
    requested: OffsetFetchRequestGroup, found: Found, topics: Topics, version: int, require_stable: bool = False
) -> OffsetFetchResponseGroup:
    """Return the offsets of one group. If the request has no list of topics, return all offsets."""
    group = OffsetFetchResponseGroup(group_id=requested.group_id, error_code=found.error)
    if found.error is not ErrorCode.NONE:
        return group
    if requested.topics is None:
        group.topics = _everything(found.offsets, topics, version)
    else:
        group.topics = [_topic(topic, found.offsets, topics, version) for topic in requested.topics]
    if require_stable and found.offsets is not None and found.offsets.pending:
        _hide_unstable(group, found.offsets)
    return group


def _hide_unstable(group: OffsetFetchResponseGroup, offsets: CommittedOffsets) -> None:
    """Replace pending offsets by UNSTABLE_OFFSET_COMMIT: the client fetches again after the transaction (KIP-447)."""
    for topic in group.topics:
        for at, answer in enumerate(topic.partitions):
            if not answer.error_code and (topic.name, answer.partition_index) in offsets.pending:
                unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
                topic.partitions[at] = OffsetFetchResponsePartitions(
                    answer.partition_index, NO_OFFSET, NO_EPOCH, "", unstable
                )


def response_of(
    request: OffsetFetchRequest, groups: list[OffsetFetchResponseGroup], version: int
) -> OffsetFetchResponse:
    """Return the response in the shape of its version: groups, or the topics of one group."""
    if version >= SEVERAL_GROUPS_VERSION:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    if group.error_code and version < TOP_LEVEL_ERROR_VERSION:
        group.topics = [
            _errors(topic.name, topic.partition_indexes, group.error_code) for topic in request.topics or []
        ]
    return OffsetFetchResponse(
        topics=[_flat(topic, version) for topic in group.topics],
        error_code=group.error_code,
    )


def _everything(offsets: CommittedOffsets | None, topics: Topics, version: int) -> list[OffsetFetchResponseTopics]:
    found: list[OffsetFetchResponseTopics] = []
    for name, partitions in offsets or ():
        topic_id = ZERO_UUID
        if version >= TOPIC_ID_VERSION:
            topic = topics.get(name)
            if topic is None:
                # A deleted topic has no id that the response could name.
                continue
            topic_id = topic.id
        answers = [_partition(index, value) for index, value in partitions.items() if _is_of(value, topic_id)]
        found.append(OffsetFetchResponseTopics(name, topic_id, answers))
    return found


def _topic(
    requested: OffsetFetchRequestTopics, offsets: CommittedOffsets | None, topics: Topics, version: int
) -> OffsetFetchResponseTopics:
    name = requested.name
    if version >= TOPIC_ID_VERSION:
        topic = topics.by_id(requested.topic_id)
        if topic is None:
            failed = _errors(name, requested.partition_indexes, ErrorCode.UNKNOWN_TOPIC_ID)
            failed.topic_id = requested.topic_id
            return failed
        name = topic.name
    answers: list[OffsetFetchResponsePartitions] = []
    for index in requested.partition_indexes:
        value = offsets.get(name, index) if offsets is not None else None
        answers.append(_partition(index, value if value is not None and _is_of(value, requested.topic_id) else None))
    return OffsetFetchResponseTopics(name, requested.topic_id, answers)


def _is_of(value: OffsetCommitValue, topic_id: bytes) -> bool:
    """Return whether an offset belongs to the topic with this id, not to an earlier topic of the same name."""
    return ZERO_UUID in (topic_id, value.topic_id) or value.topic_id == topic_id


def _partition(index: int, value: OffsetCommitValue | None) -> OffsetFetchResponsePartitions:
    if value is None:
        return OffsetFetchResponsePartitions(index, NO_OFFSET, NO_EPOCH, "")
    return OffsetFetchResponsePartitions(index, value.offset, value.leader_epoch, value.metadata)


def _errors(name: str, indexes: list[int], error: int) -> OffsetFetchResponseTopics:
    partitions = [OffsetFetchResponsePartitions(index, NO_OFFSET, NO_EPOCH, "", error) for index in indexes]
    return OffsetFetchResponseTopics(name=name, partitions=partitions)


def _flat(topic: OffsetFetchResponseTopics, version: int) -> OffsetFetchResponseTopic:
    """Return a topic in the shape before version 8. In version 0 a partition without an offset is unknown."""
    partitions = [
        OffsetFetchResponsePartition(
            p.partition_index, p.committed_offset, p.committed_leader_epoch, p.metadata, p.error_code
        )
        for p in topic.partitions
    ]
    if version == 0:
        for partition in partitions:
            if partition.committed_offset == NO_OFFSET and not partition.error_code:
                partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetFetchResponseTopic(topic.name, partitions)
