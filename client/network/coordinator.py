"""The broker that looks after a group: found when it is needed, found again when it has moved.

Every question about a group goes through here, over a connection of its own, so that no long fetch stands in its way.
Committed offsets (OffsetCommit, key 8, and OffsetFetch, key 9) live here too, since a consumer without membership has
them as well.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

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
from ...protocol.schema import Message
from ..errors import CommitFailed, ConnectionLost, RequestTimedOut
from ..metadata import Node
from ..record import OffsetAndMetadata, TopicPartition
from .cluster import COORDINATION, Cluster
from .connection import Connection

R = TypeVar("R", bound=Message)

_LAST_NAMED_COMMIT = 9  # OffsetCommit 10 and OffsetFetch 10 go by topic id
_LAST_NAMED_FETCH = 9
_FIRST_GROUPS_FETCH = 8  # OffsetFetch 8 takes several groups
# The group has gone on without us: what we hold belongs to others, or will in a moment.
FENCED = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
}
_MOVED = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}


@dataclass(frozen=True, slots=True)
class Generation:
    """Who commits: a member of a generation, or -1 and "" for whoever only keeps offsets."""

    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class Coordinator:
    """The way to one group's coordinator."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self.cluster = cluster
        self.group_id = group_id
        self._node_id: int | None = None

    @property
    def node(self) -> Node | None:
        """The broker that was asked last; None before, or where it is not known any more."""
        return None if self._node_id is None else self.cluster.view.nodes.get(self._node_id)

    async def connection(self) -> Connection:
        """An open connection to the coordinator, as far as is known. Raises KafkaError, retriable while there is
        none."""
        if self._node_id is None:
            self._node_id = await self.cluster.coordinator(self.group_id)
        try:
            return await self.cluster.connection(self._node_id, COORDINATION)
        except ConnectionLost:
            self._node_id = None
            raise

    async def ask(self, question: Message, response: type[R], *, timeout_ms: float | None = None) -> R:
        """One question, once. A connection that breaks makes the coordinator be looked for anew the next time."""
        connection = await self.connection()
        return await self._over(connection, question, response, timeout_ms=timeout_ms)

    async def _over(
        self,
        connection: Connection,
        question: Message,
        response: type[R],
        *,
        version: int | None = None,
        timeout_ms: float | None = None,
    ) -> R:
        try:
            return await connection.request(question, response, version=version, timeout_ms=timeout_ms)
        except (ConnectionLost, RequestTimedOut):
            self._node_id = None
            raise

    def refuse(self, code: int, what: str) -> None:
        """Raise KafkaError for an error code of the coordinator's, if it is one; look for it anew where it has
        moved."""
        error = ErrorCode.of(code)
        if error is ErrorCode.NONE:
            return
        if error in _MOVED:
            self._node_id = None
        if error is ErrorCode.UNKNOWN_TOPIC_ID:
            self.cluster.refresh_soon()
        raise KafkaError(error, f"{what} of group {self.group_id!r}: {error.text}")

    # -- committed offsets -------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], generation: Generation) -> None:
        """Commit, trying again while that may help. Raises CommitFailed where the group has gone on without us."""
        if offsets:
            await self.cluster.until_done(lambda: self._commit_once(offsets, generation))

    async def _commit_once(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], generation: Generation) -> None:
        connection = await self.connection()
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (name, number), offset in offsets.items():
            topic_id = self.cluster.view.topic_id(name)
            entry = topics.setdefault(name, OffsetCommitRequestTopic(name=name, topic_id=topic_id))
            entry.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=offset.offset,
                    committed_leader_epoch=offset.leader_epoch,
                    committed_metadata=offset.metadata,
                )
            )
        named = any(topic.topic_id == ZERO_UUID for topic in topics.values())
        version = connection.version_for(OffsetCommitRequest, _LAST_NAMED_COMMIT if named else None)
        question = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=generation.group_instance_id,
            topics=list(topics.values()),
        )
        answer = await self._over(connection, question, OffsetCommitResponse, version=version)
        for topic in answer.topics:
            for partition in topic.partitions:
                if (code := ErrorCode.of(partition.error_code)) in FENCED:
                    raise CommitFailed(
                        code,
                        f"group {self.group_id!r} did not take the commit: {code.text} The records since the last "
                        "commit will be read again by whoever has their partitions now.",
                    )
                self.refuse(partition.error_code, "committing offsets")

    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets, None where there is none. Waits for offsets that a transaction still holds
        (KIP-447)."""
        return await self.cluster.until_done(lambda: self._committed_once(partitions))

    async def all_committed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Every committed offset that the group has."""
        found = await self.cluster.until_done(lambda: self._committed_once(None))
        return {partition: offset for partition, offset in found.items() if offset is not None}

    async def _committed_once(
        self, partitions: Collection[TopicPartition] | None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        found: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(partitions or ())
        if partitions is not None and not partitions:
            return found
        numbers: dict[str, list[int]] = {}
        for name, number in partitions or ():
            numbers.setdefault(name, []).append(number)
        connection = await self.connection()
        named = partitions is None or any(self.cluster.view.topic_id(name) == ZERO_UUID for name in numbers)
        version = connection.version_for(OffsetFetchRequest, _LAST_NAMED_FETCH if named else None)
        question = self._offset_question(None if partitions is None else numbers, version)
        answer = await self._over(connection, question, OffsetFetchResponse, version=version)
        for name, partition in self._answered(answer):
            self.refuse(partition.error_code, "reading committed offsets")
            if partition.committed_offset >= 0:
                found[TopicPartition(name, partition.partition_index)] = OffsetAndMetadata(
                    partition.committed_offset, partition.metadata or "", partition.committed_leader_epoch
                )
        return found

    def _offset_question(self, numbers: Mapping[str, list[int]] | None, version: int) -> OffsetFetchRequest:
        if version < _FIRST_GROUPS_FETCH:
            question = OffsetFetchRequest(group_id=self.group_id, topics=None)
            if numbers is not None:
                question.topics = [OffsetFetchRequestTopic(name=t, partition_indexes=n) for t, n in numbers.items()]
            return question
        view = self.cluster.view
        group = OffsetFetchRequestGroup(group_id=self.group_id, topics=None)
        if numbers is not None:
            group.topics = [
                OffsetFetchRequestTopics(name=name, topic_id=view.topic_id(name), partition_indexes=n)
                for name, n in numbers.items()
            ]
        return OffsetFetchRequest(groups=[group], require_stable=True)

    def _answered(
        self, answer: OffsetFetchResponse
    ) -> list[tuple[str, OffsetFetchResponsePartition | OffsetFetchResponsePartitions]]:
        self.refuse(answer.error_code, "reading committed offsets")
        found: list[tuple[str, OffsetFetchResponsePartition | OffsetFetchResponsePartitions]] = []
        for topic in answer.topics:
            found += [(topic.name, partition) for partition in topic.partitions]
        names = self.cluster.view.topic_names
        for group in answer.groups:
            self.refuse(group.error_code, "reading committed offsets")
            for topic in group.topics:
                name = topic.name or names.get(topic.topic_id, "")
                found += [(name, partition) for partition in topic.partitions]
        return found
