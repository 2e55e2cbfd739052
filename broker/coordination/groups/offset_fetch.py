"""OffsetFetch: the committed offsets of groups as a response, in the three shapes that its versions have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

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
from ...turns import Made, fill
from ..interfaces import Topics
from .committed_offsets import CommittedOffsets, is_of

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


def respond(
    request: OffsetFetchRequest,
    groups: list[OffsetFetchRequestGroup],
    find: Callable[[OffsetFetchRequestGroup], Found],
    topics: Topics,
    version: int,
) -> Made[OffsetFetchResponse]:
    """Return the offsets of the groups in the shape of the version. A group without a list of topics gets them all."""
    response = OffsetFetchResponse()

    def steps() -> Iterator[None]:
        for requested in groups:
            found = find(requested)
            if version >= SEVERAL_GROUPS_VERSION:
                group = OffsetFetchResponseGroup(group_id=requested.group_id, error_code=found.error)
                response.groups.append(group)
                answers: list[Any] = group.topics
            else:
                response.error_code = found.error
                answers = response.topics
            for topic in _answers(requested, found, topics, version, request.require_stable):
                answers.append(topic if version >= SEVERAL_GROUPS_VERSION else _flat(topic, version))
                yield
            if len(groups) > 1:
                yield

    return fill(response, steps(), sum(map(_size, groups)))


def _size(requested: OffsetFetchRequestGroup) -> int:
    """Return how many offsets are asked for, as far as the request says."""
    return sum(len(each.partition_indexes) for each in requested.topics or ())


def _answers(
    requested: OffsetFetchRequestGroup, found: Found, topics: Topics, version: int, require_stable: bool
) -> Iterator[OffsetFetchResponseTopics]:
    """Yield the topics of one group."""
    offsets = found.offsets
    if found.error is not ErrorCode.NONE:
        if version < TOP_LEVEL_ERROR_VERSION:
            for topic in requested.topics or ():
                yield _errors(topic.name, topic.partition_indexes, found.error)
        return
    if requested.topics is None:
        answers = _everything(offsets, topics, version)
    else:
        answers = (_topic(each, offsets, topics, version) for each in requested.topics)
    for answer in answers:
        if require_stable and offsets is not None and offsets.pending:
            _hide_unstable(answer, offsets)
        yield answer


def _hide_unstable(topic: OffsetFetchResponseTopics, offsets: CommittedOffsets) -> None:
    """Replace pending offsets by UNSTABLE_OFFSET_COMMIT: the client fetches again after the transaction (KIP-447)."""
    for at, answer in enumerate(topic.partitions):
        if not answer.error_code and (topic.name, answer.partition_index) in offsets.pending:
            unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
            topic.partitions[at] = OffsetFetchResponsePartitions(
                answer.partition_index, NO_OFFSET, NO_EPOCH, "", unstable
            )


def _everything(offsets: CommittedOffsets | None, topics: Topics, version: int) -> Iterator[OffsetFetchResponseTopics]:
    for name, partitions in list(offsets or ()):
        topic_id = _id_of(name, topics)
        if version >= TOPIC_ID_VERSION and topic_id == ZERO_UUID:
            # A deleted topic has no id that the response could name.
            continue
        answers = [_partition(index, value) for index, value in partitions.items() if is_of(value, topic_id)]
        yield OffsetFetchResponseTopics(name, topic_id if version >= TOPIC_ID_VERSION else ZERO_UUID, answers)


def _topic(
    requested: OffsetFetchRequestTopics, offsets: CommittedOffsets | None, topics: Topics, version: int
) -> OffsetFetchResponseTopics:
    name, topic_id = requested.name, requested.topic_id
    if version < TOPIC_ID_VERSION:
        topic_id = _id_of(name, topics)
    else:
        topic = topics.by_id(requested.topic_id)
        if topic is None:
            failed = _errors(name, requested.partition_indexes, ErrorCode.UNKNOWN_TOPIC_ID)
            failed.topic_id = requested.topic_id
            return failed
        name = topic.name
    answers: list[OffsetFetchResponsePartitions] = []
    for index in requested.partition_indexes:
        value = offsets.get(name, index) if offsets is not None else None
        answers.append(_partition(index, value if value is not None and is_of(value, topic_id) else None))
    return OffsetFetchResponseTopics(name, requested.topic_id, answers)


def _id_of(name: str, topics: Topics) -> bytes:
    """Return the id of a topic, zeros where there is none of this name."""
    topic = topics.get(name)
    return ZERO_UUID if topic is None else topic.id


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
