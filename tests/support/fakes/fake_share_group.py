"""A share group of a fake cluster: one member, sessions by node, and what became of each offset.

It checks what a leader checks: session epochs, and that only acquired offsets are acknowledged. Tests read `settled`,
and have locks end with `unlock`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages import share_acknowledge as ack
from odradek.protocol.messages import share_fetch as fetch
from odradek.protocol.messages.share_group_heartbeat import Assignment, ShareGroupHeartbeatResponse, TopicPartitions

from .wire import Call, Step

RELEASE, RENEW = 2, 4
_CLOSE = -1
_MAX_BYTES = 1 << 30

Place = tuple[str, int]


class FakeShareGroup:
    """A group whose member has every partition of what it reads."""

    def __init__(self) -> None:
        self.epoch = 0
        self.left: list[str] = []
        self.lock_ms = 30_000
        self.interval_ms = 5
        # A fetch that finds nothing waits so long: tests are in a hurry.
        self.wait_s = 0.02
        # Node -> the epoch of the next request of the session.
        self.sessions: dict[int, int] = {}
        # Offset -> deliveries so far.
        self.deliveries: dict[tuple[Place, int], int] = {}
        # With the node that acquired it.
        self.acquired: dict[tuple[Place, int], int] = {}
        # Offset -> the type of its last acknowledgement, but those that were released.
        self.settled: dict[tuple[Place, int], int] = {}
        self.renewed: list[int] = []
        self.may_renew = True
        # As Kafka 4.1, which knows no limit of records.
        self.gives_whole_batches = False
        self._reads: list[str] = []
        self._in_session: dict[int, set[Place]] = {}

    def defaults(self, wire: Any) -> dict[ApiKey, Step]:
        self._wire = wire
        return {
            ApiKey.SHARE_GROUP_HEARTBEAT: self._heartbeat,
            ApiKey.SHARE_FETCH: self._fetch,
            ApiKey.SHARE_ACKNOWLEDGE: self._acknowledge,
        }

    def unlock(self) -> None:
        """End all locks: what was acquired may be acquired again."""
        self.acquired.clear()

    def lose_sessions(self) -> None:
        """Forget all sessions, as after a restart."""
        self.sessions.clear()
        self.unlock()

    # -- Membership

    async def _heartbeat(self, call: Call) -> Any:
        request = call.request
        if request.member_epoch == _CLOSE:
            self.left.append(request.member_id)
            return ShareGroupHeartbeatResponse(member_epoch=_CLOSE)
        if request.member_epoch == 0:
            self.epoch += 1
        elif request.member_epoch != self.epoch:
            return ShareGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH)
        told = None
        if request.subscribed_topic_names is not None:
            self._reads = request.subscribed_topic_names
            topics = self._wire.topics
            told = Assignment(
                [
                    TopicPartitions(self._wire.topic_id(each), list(range(len(topics[each]))))
                    for each in self._reads
                    if each in topics
                ]
            )
        return ShareGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=self.epoch,
            heartbeat_interval_ms=self.interval_ms,
            assignment=told,
        )

    # -- Sessions

    def _session_error(self, call: Call) -> ErrorCode:
        node, epoch = call.node.node_id, call.request.share_session_epoch
        if epoch == 0 and call.key is ApiKey.SHARE_FETCH:
            self.sessions[node], self._in_session[node] = 1, set()
            return ErrorCode.NONE
        if node not in self.sessions:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch == _CLOSE:
            return ErrorCode.NONE
        if epoch != self.sessions[node]:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        self.sessions[node] += 1
        return ErrorCode.NONE

    async def _fetch(self, call: Call) -> Any:
        if error := self._session_error(call):
            return fetch.ShareFetchResponse(error_code=error)
        node, response = call.node.node_id, fetch.ShareFetchResponse(acquisition_lock_timeout_ms=self.lock_ms)
        told = self._settle_all(call.request.topics)
        for topic in call.request.topics:
            name = self._wire.topic_name("", topic.topic_id)
            self._in_session[node] |= {(name, each.partition_index) for each in topic.partitions}
        for topic in call.request.forgotten_topics_data:
            name = self._wire.topic_name("", topic.topic_id)
            self._in_session[node] -= {(name, each) for each in topic.partitions}
        room, found = _MAX_BYTES if self.gives_whole_batches else call.request.max_records, 0
        for place in sorted(self._in_session[node]):
            data = fetch.PartitionData(partition_index=place[1], acknowledge_error_code=told.get(place, 0))
            log = self._wire.find(*place)
            if log is None or log.leader != node:
                data.error_code, data.records = ErrorCode.NOT_LEADER_OR_FOLLOWER, b""
            else:
                offsets = self._acquire(place, log, room - found)
                found += len(offsets)
                data.acquired_records = [
                    fetch.AcquiredRecords(each, each, self.deliveries[place, each]) for each in offsets
                ]
                data.records = log.read(offsets[0], _MAX_BYTES) if offsets else b""
            response.responses.append(fetch.ShareFetchableTopicResponse(self._wire.topic_id(place[0]), [data]))
        if not found:
            await asyncio.sleep(self.wait_s)
        return response

    def _acquire(self, place: Place, log: Any, room: int) -> list[int]:
        free = [
            offset
            for offset in range(log.start, log.end)
            if (place, offset) not in self.acquired and (place, offset) not in self.settled
        ][: max(room, 0)]
        for offset in free:
            self.acquired[place, offset] = log.leader
            self.deliveries[place, offset] = self.deliveries.get((place, offset), 0) + 1
        return free

    async def _acknowledge(self, call: Call) -> Any:
        if error := self._session_error(call):
            return ack.ShareAcknowledgeResponse(error_code=error)
        told = self._settle_all(call.request.topics)
        if call.request.share_session_epoch == _CLOSE:
            del self.sessions[call.node.node_id]
            self.acquired = {each: node for each, node in self.acquired.items() if node != call.node.node_id}
        return ack.ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=self.lock_ms,
            responses=[
                ack.ShareAcknowledgeTopicResponse(
                    self._wire.topic_id(name), [ack.PartitionData(partition_index=number, error_code=code)]
                )
                for (name, number), code in told.items()
            ],
        )

    def _settle_all(self, topics: Any) -> dict[Place, int]:
        """Settle what a request acknowledges. Return the error code of each partition that it names something of."""
        told: dict[Place, int] = {}
        for topic in topics:
            name = self._wire.topic_name("", topic.topic_id)
            for each in topic.partitions:
                if each.acknowledgement_batches:
                    place = name, each.partition_index
                    told[place] = self._settle(place, each.acknowledgement_batches)
        return told

    def _settle(self, place: Place, batches: Any) -> ErrorCode:
        said = {
            offset: batch.acknowledge_types[0]
            for batch in batches
            for offset in range(batch.first_offset, batch.last_offset + 1)
        }
        if RENEW in said.values() and not self.may_renew:
            return ErrorCode.INVALID_RECORD_STATE
        if not all((place, offset) in self.acquired for offset in said):
            return ErrorCode.INVALID_RECORD_STATE
        for offset, kind in said.items():
            if kind == RENEW:
                self.renewed.append(offset)
                continue
            del self.acquired[place, offset]
            if kind != RELEASE:
                self.settled[place, offset] = kind
        return ErrorCode.NONE
