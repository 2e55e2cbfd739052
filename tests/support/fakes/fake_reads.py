"""A fake cluster's answers to Fetch (with sessions), ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import AbortedTransaction, FetchableTopicResponse, FetchResponse, PartitionData
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

from .fake_log import FakeLog
from .wire import Call, Step

# A fetch that finds nothing waits so long at most, whatever the client would allow: tests are in a hurry.
LONGEST_WAIT_S = 0.05

# (topic name in the request, topic id, partition)
Place = tuple[str, bytes, int]


class FakeSession:
    """What one client fetches, and what it was told of each partition's high watermark."""

    def __init__(self, session_id: int) -> None:
        self.id = session_id
        self.next_epoch = 1
        self.partitions: dict[Place, Any] = {}
        self.told: dict[Place, int] = {}

    def learn(self, request: Any) -> None:
        for topic in request.topics:
            for each in topic.partitions:
                self.partitions[topic.topic, topic.topic_id, each.partition] = each
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                self.partitions.pop((topic.topic, topic.topic_id, number), None)
                self.told.pop((topic.topic, topic.topic_id, number), None)


class FakeReads:
    """Answers from the logs of a cluster."""

    def __init__(self) -> None:
        # Without sessions every fetch is a full one.
        self.offers_sessions = True
        self.sessions: dict[int, FakeSession] = {}
        self._ids = itertools.count(1)

    def defaults(self, cluster: Any) -> dict[ApiKey, Step]:
        self._cluster = cluster
        return {
            ApiKey.FETCH: self._fetch,
            ApiKey.LIST_OFFSETS: self._list_offsets,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: self._end_of_epochs,
        }

    # -- Fetch

    async def _fetch(self, call: Call) -> Any:
        session, error = self._session(call)
        if error:
            return FetchResponse(error_code=error)
        wanted = _wanted(call.request) if session is None else dict(session.partitions)
        found = {place: self._read(call, place, each) for place, each in wanted.items()}
        if not any(map(_says_something, found.values())):
            await self._wait_for_more(call, wanted)
            found = {place: self._read(call, place, each) for place, each in wanted.items()}
        if session is not None:
            if call.request.session_epoch > 0:
                found = {place: data for place, data in found.items() if _is_news(session, place, data)}
            session.told.update({place: data.high_watermark for place, data in found.items()})
        return _response(found, 0 if session is None else session.id)

    def _session(self, call: Call) -> tuple[FakeSession | None, ErrorCode]:
        request = call.request
        if call.version < 7 or request.session_epoch == -1:
            self.sessions.pop(request.session_id, None)
            return None, ErrorCode.NONE
        if request.session_epoch == 0:
            self.sessions.pop(request.session_id, None)
            if not self.offers_sessions:
                return None, ErrorCode.NONE
            session = FakeSession(next(self._ids))
            self.sessions[session.id] = session
            session.learn(request)
            return session, ErrorCode.NONE
        session = self.sessions.get(request.session_id)
        if session is None:
            return None, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.next_epoch != request.session_epoch:
            return None, ErrorCode.INVALID_FETCH_SESSION_EPOCH
        session.next_epoch += 1
        session.learn(request)
        return session, ErrorCode.NONE

    async def _wait_for_more(self, call: Call, wanted: dict[Place, Any]) -> None:
        logs = [log for place in wanted if (log := self._find(*place)) is not None]
        waits = [asyncio.ensure_future(log.grown.wait()) for log in logs]
        limit_s = min(call.request.max_wait_ms / 1000, LONGEST_WAIT_S)
        try:
            if waits:
                await asyncio.wait(waits, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(limit_s)
        finally:
            for wait in waits:
                wait.cancel()

    def _find(self, named: str, topic_id: bytes, number: int) -> FakeLog | None:
        return self._cluster.find(self._cluster.topic_name(named, topic_id), number)

    def _read(self, call: Call, place: Place, each: Any) -> PartitionData:
        log = self._find(*place)
        if log is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if place[0] else ErrorCode.UNKNOWN_TOPIC_ID
            return PartitionData(each.partition, unknown)
        node, rack = call.node.node_id, call.request.rack_id
        if node != log.leader and node not in log.followers.values():
            return PartitionData(each.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if code := _epoch_error(log, each.current_leader_epoch):
            return PartitionData(each.partition, code)
        if not log.start <= each.fetch_offset <= log.end:
            return PartitionData(each.partition, ErrorCode.OFFSET_OUT_OF_RANGE, log.end, log.end, log.start)
        found = PartitionData(each.partition, 0, log.end, log.end, log.start)
        if call.version >= 11 and log.followers.get(rack, node) != node:
            found.preferred_read_replica = log.followers[rack]
            return found
        found.records = log.read(each.fetch_offset, each.partition_max_bytes)
        if call.request.isolation_level:
            found.aborted_transactions = [AbortedTransaction(*transaction) for transaction in log.aborted]
        return found

    # -- Offsets

    async def _list_offsets(self, call: Call) -> Any:
        response = ListOffsetsResponse()
        for topic in call.request.topics:
            answers = [self._offset(call, topic.name, each) for each in topic.partitions]
            response.topics.append(ListOffsetsTopicResponse(topic.name, answers))
        return response

    def _offset(self, call: Call, topic: str, each: Any) -> ListOffsetsPartitionResponse:
        log = self._cluster.find(topic, each.partition_index)
        if log is None or log.leader != call.node.node_id:
            return ListOffsetsPartitionResponse(each.partition_index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        found = ListOffsetsPartitionResponse(each.partition_index)
        if each.timestamp >= 0:
            records = (record for record in log.records() if record.timestamp_ms >= each.timestamp)
            first = next(records, None)
            found.offset, found.timestamp = (-1, -1) if first is None else (first.offset, first.timestamp_ms)
        else:
            found.offset = log.start if each.timestamp == -2 else log.end
        if call.version == 0:
            found.old_style_offsets, found.offset, found.timestamp = [found.offset], -1, -1
        return found

    async def _end_of_epochs(self, call: Call) -> Any:
        response = OffsetForLeaderEpochResponse()
        for topic in call.request.topics:
            answers = [self._end_of_epoch(call, topic.topic, each) for each in topic.partitions]
            response.topics.append(OffsetForLeaderTopicResult(topic.topic, answers))
        return response

    def _end_of_epoch(self, call: Call, topic: str, each: Any) -> EpochEndOffset:
        log = self._cluster.find(topic, each.partition)
        if log is None or log.leader != call.node.node_id:
            return EpochEndOffset(ErrorCode.NOT_LEADER_OR_FOLLOWER, each.partition)
        if code := _epoch_error(log, each.current_leader_epoch):
            return EpochEndOffset(code, each.partition)
        return EpochEndOffset(0, each.partition, *log.end_of_epoch(each.leader_epoch))


def _epoch_error(log: FakeLog, epoch: int) -> ErrorCode:
    if epoch in (-1, log.epoch):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if epoch < log.epoch else ErrorCode.UNKNOWN_LEADER_EPOCH


def _wanted(request: Any) -> dict[Place, Any]:
    return {
        (topic.topic, topic.topic_id, each.partition): each for topic in request.topics for each in topic.partitions
    }


def _is_news(session: FakeSession, place: Place, data: PartitionData) -> bool:
    return _says_something(data) or data.high_watermark != session.told.get(place)


def _says_something(data: PartitionData) -> bool:
    return bool(data.error_code or len(data.records or b"") or data.preferred_read_replica >= 0)


def _response(found: dict[Place, PartitionData], session_id: int) -> FetchResponse:
    topics: dict[tuple[str, bytes], FetchableTopicResponse] = {}
    for (name, topic_id, _), data in found.items():
        topics.setdefault((name, topic_id), FetchableTopicResponse(name, topic_id)).partitions.append(data)
    return FetchResponse(session_id=session_id, responses=list(topics.values()))
