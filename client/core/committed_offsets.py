"""The committed offsets of one group: OffsetCommit (key 8) and OffsetFetch (key 9).

A consumer without membership and the admin client use them too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ...protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from ...protocol.primitives import ZERO_UUID
from ..errors import CommitFailed, UnknownTopic, answered, results_of
from ..record import OffsetAndMetadata, TopicPartition, by_topic
from .coordinator import Coordinator
from .leaders import rows_in

_LAST_NAMED_COMMIT = 9  # OffsetCommit 10 and OffsetFetch 10 go by topic id
_LAST_NAMED_FETCH = 9
_FIRST_GROUPS_FETCH = 8  # OffsetFetch 8 takes several groups
# The group has gone on without this member: its partitions belong to others, or will in a moment.
_FENCED = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.FENCED_MEMBER_EPOCH,
}


@dataclass(frozen=True, slots=True)
class Generation:
    """The member that commits, and its generation; -1 and "" for a client that is no member."""

    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class _OldEpoch(KafkaError):
    """The reader's epoch is out of date. Retriable: the next heartbeat brings the present one."""

    @property
    def retriable(self) -> bool:
        return True


class CommittedOffsets:
    """Commits and reads the offsets of one group, with retries for `default_api_timeout_ms`."""

    def __init__(self, coordinator: Coordinator, reader: Callable[[], Generation] = Generation) -> None:
        self._coordinator = coordinator
        # Who reads: a member of the consumer protocol says so, and one that was fenced gets nothing.
        self._reader = reader
        self._cluster = coordinator.cluster

    # -- Commit

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        generation: Generation,
        read: Mapping[TopicPartition, bytes] | None = None,
    ) -> None:
        """Commit offsets. `read` has the ids of the topics whose records were read, where these are known.

        Raises CommitFailed if the group has gone on without this member, UnknownTopic, KafkaError.
        """
        if offsets:
            view = self._cluster.view
            ids = {partition.topic: view.topic_id(partition.topic) for partition in offsets}
            ids |= {partition.topic: topic_id for partition, topic_id in (read or {}).items() if partition in offsets}
            await self._cluster.retry(lambda: self._commit_all(offsets, generation, ids))

    async def _commit_all(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], generation: Generation, ids: Mapping[str, bytes]
    ) -> None:
        self._check_topics(ids)
        said = await self.commit_once(offsets, generation, ids)
        for partition, code in results_of(answered(offsets, said)).items():
            if code is ErrorCode.UNKNOWN_TOPIC_ID and self._cluster.view.topic_id(partition.topic) == ZERO_UUID:
                raise UnknownTopic(f"topic {partition.topic!r} was deleted: offsets of it are not kept")
            self._check_committed(code)

    async def commit_once(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        generation: Generation,
        ids: Mapping[str, bytes] | None = None,
    ) -> dict[TopicPartition, ErrorCode]:
        """Send one request to commit offsets. Return what the coordinator says of each partition."""
        connection = await self._coordinator.connection()
        topics = self._commit_topics(offsets, ids or {})
        named = any(topic.topic_id == ZERO_UUID for topic in topics)
        version = connection.version_for(OffsetCommitRequest, _LAST_NAMED_COMMIT if named else None)
        if version <= _LAST_NAMED_COMMIT:
            self._check_named(ids or {})
        request = OffsetCommitRequest(
            group_id=self._coordinator.key,
            generation_id_or_member_epoch=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=generation.group_instance_id,
            topics=topics,
        )
        response = await self._coordinator.request_over(connection, request, OffsetCommitResponse, version=version)
        said = rows_in(response, {topic.topic_id: topic.name for topic in topics})
        return {partition: ErrorCode.of(row.error_code) for partition, row in said.items()}

    def _check_topics(self, ids: Mapping[str, bytes]) -> None:
        """Raise UnknownTopic if a topic was deleted and made again: the offsets are not of its records."""
        for name, topic_id in ids.items():
            if topic_id not in (ZERO_UUID, self._cluster.view.topic_id(name)) and name in self._cluster.view.topics:
                raise UnknownTopic(f"topic {name!r} was deleted and made again: offsets of the old one are not kept")

    def _check_named(self, ids: Mapping[str, bytes]) -> None:
        """Raise UnknownTopic if a topic may have been deleted: by its name the commit would count for the next one."""
        for name, topic_id in ids.items():
            if topic_id != ZERO_UUID and self._cluster.view.topic_id(name) != topic_id:
                raise UnknownTopic(f"topic {name!r} was deleted: offsets of it are not kept")

    def _commit_topics(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], ids: Mapping[str, bytes]
    ) -> list[OffsetCommitRequestTopic]:
        rows = [
            (name, OffsetCommitRequestPartition(number, at.offset, at.leader_epoch, committed_metadata=at.metadata))
            for (name, number), at in offsets.items()
        ]
        return [
            OffsetCommitRequestTopic(name, ids.get(name, self._cluster.view.topic_id(name)), partitions)
            for name, partitions in by_topic(rows).items()
        ]

    def _check_committed(self, code: ErrorCode) -> None:
        if code in _FENCED:
            raise CommitFailed(
                code,
                f"group {self._coordinator.key!r} did not take the commit: {code.text} The records since the last "
                "commit will be read again by the consumer that has their partitions now.",
            )
        self._coordinator.raise_error(code, "committing offsets")

    # -- Fetch

    async def fetch(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset of each partition, None if it has none.

        Waits for offsets that an open transaction holds (KIP-447).
        """
        return await self._cluster.retry(lambda: self._fetch_once(partitions))

    async def fetch_all(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return every committed offset that the group has."""
        found = await self._cluster.retry(lambda: self._fetch_once(None))
        return {partition: offset for partition, offset in found.items() if offset is not None}

    async def _fetch_once(
        self, partitions: Collection[TopicPartition] | None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        if partitions is not None and not partitions:
            return {}
        numbers = by_topic(partitions or ())
        connection = await self._coordinator.connection()
        # The response names ids of this moment, whatever the metadata say when it comes.
        ids = {name: self._cluster.view.topic_id(name) for name in numbers}
        named = partitions is None or ZERO_UUID in ids.values()
        version = connection.version_for(OffsetFetchRequest, _LAST_NAMED_FETCH if named else None)
        request = self._fetch_request(None if partitions is None else numbers, ids, version)
        response = await self._coordinator.request_over(connection, request, OffsetFetchResponse, version=version)
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        for name, partition in self._fetched_partitions(response, {topic_id: name for name, topic_id in ids.items()}):
            self._coordinator.raise_error(partition.error_code, "reading committed offsets")
            at = OffsetAndMetadata(
                partition.committed_offset, partition.metadata or "", partition.committed_leader_epoch
            )
            found[TopicPartition(name, partition.partition_index)] = at if at.offset >= 0 else None
        # One that is left out may have an offset: to begin elsewhere would skip records, or repeat them.
        return found if partitions is None else results_of(answered(partitions, found))

    def _fetch_request(
        self, numbers: Mapping[str, list[int]] | None, ids: Mapping[str, bytes], version: int
    ) -> OffsetFetchRequest:
        group_id = self._coordinator.key
        if version < _FIRST_GROUPS_FETCH:
            request = OffsetFetchRequest(group_id=group_id, topics=None)
            if numbers is not None:
                request.topics = [OffsetFetchRequestTopic(name=t, partition_indexes=n) for t, n in numbers.items()]
            return request
        reader = self._reader()
        group = OffsetFetchRequestGroup(
            group_id=group_id, member_id=reader.member_id or None, member_epoch=reader.generation_id, topics=None
        )
        if numbers is not None:
            group.topics = [
                OffsetFetchRequestTopics(name=name, topic_id=ids[name], partition_indexes=n)
                for name, n in numbers.items()
            ]
        return OffsetFetchRequest(groups=[group], require_stable=True)

    def _fetched_partitions(
        self, response: OffsetFetchResponse, names: Mapping[bytes, str]
    ) -> list[tuple[str, OffsetFetchResponsePartition | OffsetFetchResponsePartitions]]:
        """Return topic names and partitions of both forms: up to version 7 without groups, from 8 in groups."""
        self._coordinator.raise_error(response.error_code, "reading committed offsets")
        found: list[tuple[str, OffsetFetchResponsePartition | OffsetFetchResponsePartitions]] = []
        for topic in response.topics:
            found += [(topic.name, partition) for partition in topic.partitions]
        for group in response.groups:
            if ErrorCode.of(group.error_code) is ErrorCode.STALE_MEMBER_EPOCH:
                raise _OldEpoch(ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.STALE_MEMBER_EPOCH.text)
            self._coordinator.raise_error(group.error_code, "reading committed offsets")
            for topic in group.topics:
                name = topic.name or names.get(topic.topic_id, "")
                found += [(name, partition) for partition in topic.partitions]
        return found
