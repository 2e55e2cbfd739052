"""The offsets of share groups: what the requests 90 to 92 name, and their responses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages import alter_share_group_offsets as alter_api
from ....protocol.messages import delete_share_group_offsets as delete_api
from ....protocol.messages import describe_share_group_offsets as describe_api
from ....protocol.primitives import ZERO_UUID
from ..groups.group import Group
from ..interfaces import Topics
from ..modern.state import Place, by_topic
from ..share_states.routed_persister import RoutedPersister
from ..share_states.share_state import UNINITIALIZED_OFFSET, UNKNOWN_COUNT, ShareKey
from .state import united

_ABSENT = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
# What Kafka says of a topic of which a group has no states.
_NO_OFFSETS = "There is no offset information to delete."
_UNKNOWN_LAG = -1
# Partitions that are read at a time, each by a task.
_READ_AT_ONCE = 1_000

# A topic, by name, and partitions of it.
Asked = tuple[str, list[int]]
Each = Callable[[Iterable[Place], Callable[[Place], Awaitable[None]]], Awaitable[dict[Place, KafkaError]]]


# -- Describe


class Reader(NamedTuple):
    """Reads where groups are, and how far behind the ends of their partitions."""

    persister: RoutedPersister
    topics: Topics
    # Does work for many partitions.
    each: Each
    # Finds the end of one.
    end_offset: Callable[[str, int], Awaitable[int]]

    async def describe(
        self, request: describe_api.DescribeShareGroupOffsetsRequestGroup, group: Group | None, error: ErrorCode
    ) -> describe_api.DescribeShareGroupOffsetsResponseGroup:
        """Return a group of DescribeShareGroupOffsets. Without topics it has all of the group."""
        group_id = request.group_id
        response = describe_api.DescribeShareGroupOffsetsResponseGroup(group_id=group_id)
        if error is not ErrorCode.NONE:
            response.error_code, response.error_message = int(error), error.text
            return response
        for topics in _portions(self._asked(request, group)):
            response.topics += await self._read_topics(group_id, topics)
        return response

    async def _read_topics(
        self, group_id: str, asked: Sequence[Asked]
    ) -> list[describe_api.DescribeShareGroupOffsetsResponseTopic]:
        found: dict[Place, describe_api.DescribeShareGroupOffsetsResponsePartition] = {}

        async def read(place: Place) -> None:
            found[place] = await self._read(group_id, *place)

        known = [(name, self.topics.get(name), indexes) for name, indexes in asked]
        places = {(topic.id, index) for _, topic, indexes in known if topic is not None for index in indexes}
        errors = await self.each(places, read)
        topics: list[describe_api.DescribeShareGroupOffsetsResponseTopic] = []
        for name, topic, indexes in known:
            topic_id = ZERO_UUID if topic is None else topic.id
            parts = [found.get((topic_id, index)) or _failed(index, errors.get((topic_id, index))) for index in indexes]
            topics.append(describe_api.DescribeShareGroupOffsetsResponseTopic(name, topic_id, parts))
        return topics

    def _asked(self, request: describe_api.DescribeShareGroupOffsetsRequestGroup, group: Group | None) -> list[Asked]:
        if request.topics is not None:
            return [(topic.topic_name, topic.partitions) for topic in request.topics]
        if group is None or group.share is None:
            return []
        known = sorted(united(group.share.initializing, group.share.initialized).items())
        found = ((self.topics.by_id(topic_id), each.partitions) for topic_id, each in known)
        return [(topic.name, sorted(indexes)) for topic, indexes in found if topic is not None]

    async def _read(
        self, group_id: str, topic_id: bytes, index: int
    ) -> describe_api.DescribeShareGroupOffsetsResponsePartition:
        topic = self.topics.by_id(topic_id)
        if topic is None or not 0 <= index < topic.partition_count:
            raise KafkaError(_ABSENT)
        state = await self.persister.read_summary(ShareKey(group_id, topic_id, index))
        lag = _UNKNOWN_LAG
        if state.start_offset != UNINITIALIZED_OFFSET:
            delivered = max(state.delivery_complete_count, 0)
            is_known = state.delivery_complete_count != UNKNOWN_COUNT
            lag = await self.end_offset(topic.name, index) - state.start_offset - delivered if is_known else lag
        return describe_api.DescribeShareGroupOffsetsResponsePartition(
            index, state.start_offset, state.leader_epoch, lag
        )


def _portions(asked: Sequence[Asked]) -> Iterator[Sequence[Asked]]:
    """Yield topics with about as many partitions, together, as are read at a time."""
    begin = size = 0
    for end, (_, indexes) in enumerate(asked, 1):
        size += 1 + len(indexes)
        if size >= _READ_AT_ONCE or end == len(asked):
            yield asked[begin:end]
            begin, size = end, 0


def _failed(index: int, error: KafkaError | None) -> describe_api.DescribeShareGroupOffsetsResponsePartition:
    """Return a partition that could not be read. As in Kafka, a topic that does not exist is no error."""
    if error is None:
        return describe_api.DescribeShareGroupOffsetsResponsePartition(index, UNINITIALIZED_OFFSET, 0)
    return describe_api.DescribeShareGroupOffsetsResponsePartition(
        index, UNINITIALIZED_OFFSET, 0, _UNKNOWN_LAG, int(error.code), error.message
    )


# -- Alter


class Starts(NamedTuple):
    """Where partitions are to begin: those of a request that exist."""

    topics: Mapping[bytes, tuple[str, frozenset[int]]]
    places: Mapping[Place, int]


def starts_of(request: alter_api.AlterShareGroupOffsetsRequest, topics: Topics) -> Starts:
    """Return what an AlterShareGroupOffsets asks for. Of a partition that is named twice the last one counts."""
    places: dict[Place, int] = {}
    for named in request.topics:
        topic = topics.get(named.topic_name)
        for each in named.partitions:
            if topic is not None and 0 <= each.partition_index < topic.partition_count:
                places[topic.id, each.partition_index] = each.start_offset
    names = {topic.id: topic.name for named in request.topics if (topic := topics.get(named.topic_name))}
    found = by_topic(places).items()
    return Starts({topic_id: (names[topic_id], frozenset(indexes)) for topic_id, indexes in found}, places)


def altered(
    request: alter_api.AlterShareGroupOffsetsRequest, topics: Topics, errors: Mapping[Place, KafkaError]
) -> alter_api.AlterShareGroupOffsetsResponse:
    """Return the response to an AlterShareGroupOffsets."""
    response = alter_api.AlterShareGroupOffsetsResponse()
    for named in request.topics:
        topic = topics.get(named.topic_name)
        topic_id, count = (ZERO_UUID, 0) if topic is None else (topic.id, topic.partition_count)
        parts: list[alter_api.AlterShareGroupOffsetsResponsePartition] = []
        for each in named.partitions:
            index = each.partition_index
            error = errors.get((topic_id, index)) if 0 <= index < count else KafkaError(_ABSENT)
            parts.append(alter_api.AlterShareGroupOffsetsResponsePartition(index, *_error(error)))
        response.responses.append(alter_api.AlterShareGroupOffsetsResponseTopic(named.topic_name, topic_id, parts))
    return response


# -- Delete


def ids_of(request: delete_api.DeleteShareGroupOffsetsRequest, topics: Topics) -> dict[str, bytes]:
    """Return the ids of the topics of a DeleteShareGroupOffsets that exist, by name."""
    found = {each.topic_name: topics.get(each.topic_name) for each in request.topics}
    return {name: topic.id for name, topic in found.items() if topic is not None}


def deleted(
    request: delete_api.DeleteShareGroupOffsetsRequest,
    ids: Mapping[str, bytes],
    topics: Topics,
    errors: Mapping[Place, KafkaError],
) -> delete_api.DeleteShareGroupOffsetsResponse:
    """Return the response to a DeleteShareGroupOffsets."""
    failed = {topic_id: error for (topic_id, _), error in errors.items()}
    response = delete_api.DeleteShareGroupOffsetsResponse()
    for each in request.topics:
        name = each.topic_name
        error = failed.get(ids.get(name, ZERO_UUID))
        if name not in ids:
            error = KafkaError(_ABSENT, _ABSENT.text if topics.get(name) is None else _NO_OFFSETS)
        result = delete_api.DeleteShareGroupOffsetsResponseTopic(name, ids.get(name, ZERO_UUID), *_error(error))
        response.responses.append(result)
    return response


def _error(error: KafkaError | None) -> tuple[int, str | None]:
    return (0, None) if error is None else (int(error.code), error.message)
