"""Offsets in ZooKeeper, where clients before Kafka 0.8.2 keep them: OffsetCommit and OffsetFetch version 0.

`/consumers/GROUP/offsets/TOPIC/PARTITION` is a persistent znode with the number as text. Every broker answers, for no
coordinator is needed; metadata is not kept, and an offset may go back. They are not the offsets of the group's
coordinator, which later versions of both requests use.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ...protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from ...zookeeper.operations import Create, Failure, Put, SessionExpired, Steps, read_all, write_all
from ...zookeeper.session import Session
from ..configs.broker_config import BrokerConfig
from ..coordination.groups.offset_commit import metadata_length
from ..coordination.interfaces import Topics
from .znodes import CONSUMERS

T = TypeVar("T")

# Requests that wait for ZooKeeper at a time; more would only wait there. The others wait here, one a connection.
MAX_UNDER_WAY = 20
# How often a write begins again because somebody removes the group's znodes meanwhile.
_ATTEMPTS = 3
NO_OFFSET = -1
# What ZooKeeper takes as the name of a znode.
_NAME = re.compile(r"[^/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]+")

_log = logging.getLogger(__name__)


def offset_path(group: str, topic: str, partition: int) -> str:
    """Return the path of the offset of a group in a partition."""
    return f"{CONSUMERS}/{group}/offsets/{topic}/{partition}"


def store_offsets(offsets: Mapping[str, int]) -> Steps[list[Failure | None]]:
    """Write offsets by path, and make the znodes that are missing. Returns for each why it was not written, or None."""
    failures: dict[str, Failure | None] = dict.fromkeys(offsets)
    missing = list(offsets)
    for _ in range(_ATTEMPTS):
        results = yield from write_all((Put(path, b"%d" % offsets[path]),) for path in missing)
        failures.update(zip(missing, results, strict=True))
        missing = [path for path in missing if (failure := failures[path]) is not None and failure.missing]
        if not missing:
            break
        yield from _make_parents(missing)
        results = yield from write_all((Create(path, b"%d" % offsets[path]),) for path in missing)
        failures.update(zip(missing, results, strict=True))
        # One that another client has made meanwhile is written again.
        missing = [path for path in missing if failures[path] is not None]
        if not missing:
            break
    return list(failures.values())


def _make_parents(paths: Iterable[str]) -> Steps[None]:
    """Make the znodes above these, from the top. Others may make the same."""
    for depth in (3, 4, 5):
        above = {"/".join(path.split("/")[:depth]) for path in paths}
        yield from write_all((Create(path),) for path in sorted(above))


class OldOffsets:
    """Answers version 0 of both requests. ZooKeeper has `zookeeper.session.timeout.ms` to answer."""

    def __init__(self, zookeeper: Session, topics: Topics, config: BrokerConfig) -> None:
        self._zookeeper = zookeeper
        self._topics = topics
        self._config = config
        self._turns = asyncio.Semaphore(MAX_UNDER_WAY)

    # -- Commit

    async def commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        """Write the offsets of partitions that exist, and answer with an error for each of the others."""
        response = OffsetCommitResponse()
        asked: list[tuple[str, int, OffsetCommitResponsePartition]] = []
        for topic in request.topics:
            answer = OffsetCommitResponseTopic(topic.name)
            response.topics.append(answer)
            for each in topic.partitions:
                place = request.group_id, topic.name, each.partition_index
                error = self._check(*place)
                size = metadata_length(each.committed_metadata or "")
                if error is ErrorCode.NONE and size > self._config.offset_metadata_max_bytes:
                    error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                answer.partitions.append(OffsetCommitResponsePartition(each.partition_index, error))
                if error is ErrorCode.NONE:
                    asked.append((offset_path(*place), each.committed_offset, answer.partitions[-1]))
        # The last one counts where a request names a partition twice.
        offsets = {path: offset for path, offset, _ in asked}
        try:
            failures = dict(zip(offsets, await self._run(store_offsets(offsets)), strict=True))
        except KafkaError as error:
            for _, _, answer in asked:
                answer.error_code = error.code
        else:
            for path, _, answer in asked:
                answer.error_code = ErrorCode.UNKNOWN_SERVER_ERROR if failures[path] else ErrorCode.NONE
        return response

    # -- Fetch

    async def fetch(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        """Return the offsets. One that is missing is UNKNOWN_TOPIC_OR_PARTITION, as in Kafka."""
        response = OffsetFetchResponse()
        asked: list[tuple[str, OffsetFetchResponsePartition]] = []
        for topic in request.topics or ():
            answer = OffsetFetchResponseTopic(topic.name)
            response.topics.append(answer)
            for index in topic.partition_indexes:
                error = self._check(request.group_id, topic.name, index)
                answer.partitions.append(OffsetFetchResponsePartition(index, NO_OFFSET, -1, "", error))
                if error is ErrorCode.NONE:
                    asked.append((offset_path(request.group_id, topic.name, index), answer.partitions[-1]))
        try:
            found = await self._run(read_all(path for path, _ in asked))
        except KafkaError as error:
            for _, answer in asked:
                answer.error_code = error.code
            return response
        for (path, answer), znode in zip(asked, found, strict=True):
            answer.error_code, answer.committed_offset = _offset(path, None if znode is None else znode.data)
        return response

    # -- Both

    def _check(self, group: str, topic: str, partition: int) -> ErrorCode:
        if group in (".", "..") or _NAME.fullmatch(group) is None:
            return ErrorCode.INVALID_GROUP_ID
        found = self._topics.get(topic)
        exists = found is not None and found.partition(partition) is not None
        return ErrorCode.NONE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async def _run(self, steps: Steps[T]) -> T:
        """Drive steps in one of the turns. Raises REQUEST_TIMED_OUT where ZooKeeper is away for too long."""
        limit_ms = self._config.zookeeper_session_timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000), self._turns:
                return await self._zookeeper.run(steps)
        except (TimeoutError, SessionExpired) as error:
            steps.close()  # it may wait for its turn
            why = f"ZooKeeper did not take or give a client's offsets within {limit_ms} ms"
            _log.warning("%s: the client is told to try again", why)
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, why) from error


def _offset(path: str, data: bytes | None) -> tuple[ErrorCode, int]:
    if data is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NO_OFFSET
    try:
        return ErrorCode.NONE, int(data)
    except ValueError:
        _log.warning("the znode %s holds %r, which is no offset: delete it, or write a number", path, data)
        return ErrorCode.UNKNOWN_SERVER_ERROR, NO_OFFSET
