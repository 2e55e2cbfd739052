"""Transaction markers for partitions that other brokers lead: WriteTxnMarkers to the leaders.

One request to a broker is under way at a time. It carries what waits for that broker, as in Kafka, so that transactions
do not wait for each other's requests. A marker that fails is tried again by its transaction, to the leader of that
time. What waits is bounded by the partitions of the transactions that this broker coordinates.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ..coordination.transactions.markers import TransactionEnd
from .inter_broker import NewPeers
from .metadata_cache import MetadataCache

VERSION = 2
TIMEOUT_S = 30.0
# Markers of one request: some 60 ms of work for the leader, in turns.
MAX_MARKERS = 1_000


class _Waiting(NamedTuple):
    """A marker that waits for its leader."""

    topic: str
    partition: int
    end: TransactionEnd
    written: asyncio.Future[None]

    def fail(self, error: KafkaError) -> None:
        if not self.written.done():
            self.written.set_exception(KafkaError(error.code, error.message))


class RemoteMarkers:
    """Has the leaders of partitions write markers."""

    def __init__(self, own_id: int, view: MetadataCache, peers: NewPeers) -> None:
        self._own = own_id
        self._view = view
        self._peers = peers("markers")
        # By the broker that leads their partitions.
        self._waiting: dict[int, list[_Waiting]] = {}
        self._senders: dict[int, asyncio.Task[None]] = {}

    def write(self, topic: str, index: int, end: TransactionEnd) -> asyncio.Future[None]:
        """Return a future that is done when the marker is in the ISR.

        Raises KafkaError (also from the future): LEADER_NOT_AVAILABLE where no other broker leads the partition.
        """
        leader = self._view.leader(topic, index)
        if leader is None or leader.id == self._own:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{index} is led by no other broker")
        waiting = _Waiting(topic, index, end, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(leader.id, []).append(waiting)
        if leader.id not in self._senders:
            self._senders[leader.id] = asyncio.ensure_future(self._send_all(leader.id))
        return waiting.written

    async def _send_all(self, broker: int) -> None:
        """Send what waits for a broker, until nothing does."""
        try:
            # What the present turn of the loop adds travels together.
            await asyncio.sleep(0)
            while waiting := self._waiting.pop(broker, []):
                taken, rest = _portion(waiting)
                if rest:
                    self._waiting[broker] = rest
                try:
                    await self._send(broker, taken)
                except KafkaError as error:
                    for each in taken:
                        each.fail(error)
                finally:
                    for each in taken:
                        each.fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the marker was not answered"))
        finally:
            del self._senders[broker]
            for each in self._waiting.pop(broker, []):
                each.fail(KafkaError(ErrorCode.NETWORK_EXCEPTION, "this broker writes no more markers"))

    async def _send(self, broker: int, taken: list[_Waiting]) -> None:
        leader = self._view.brokers.get(broker)
        if leader is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {broker} is gone")
        request = WriteTxnMarkersRequest(_markers(taken))
        response = await self._peers.to(leader).request(request, VERSION, WriteTxnMarkersResponse, TIMEOUT_S)
        codes = {
            (marker.producer_id, topic.name, each.partition_index): ErrorCode.of(each.error_code)
            for marker in response.markers
            for topic in marker.topics
            for each in topic.partitions
        }
        for each in taken:
            code = codes.get((each.end.producer_id, each.topic, each.partition), ErrorCode.UNKNOWN_SERVER_ERROR)
            if code:
                why = f"the leader of {each.topic}-{each.partition} does not write the marker: {code.name}"
                # A leader that has lost its directory knows no topic until a controller tells it of them. Whether this
                # one is gone, the view of this broker says at the next try.
                is_unknown = code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                each.fail(KafkaError(ErrorCode.LEADER_NOT_AVAILABLE if is_unknown else code, why))
            elif not each.written.done():
                each.written.set_result(None)

    def close(self) -> None:
        """Let the markers fail that wait."""
        for sender in self._senders.values():
            sender.cancel()


def _portion(waiting: list[_Waiting]) -> tuple[list[_Waiting], list[_Waiting]]:
    """Return what one request takes, and the rest. A producer has one end in it: a response tells them apart by id."""
    taken: list[_Waiting] = []
    rest: list[_Waiting] = []
    ends: dict[int, TransactionEnd] = {}
    for each in waiting:
        is_taken = len(taken) < MAX_MARKERS and ends.setdefault(each.end.producer_id, each.end) == each.end
        (taken if is_taken else rest).append(each)
    return taken, rest


def _markers(taken: list[_Waiting]) -> list[WritableTxnMarker]:
    markers: dict[int, WritableTxnMarker] = {}
    topics: dict[tuple[int, str], WritableTxnMarkerTopic] = {}
    for name, index, end, _ in taken:
        marker = markers.get(end.producer_id)
        if marker is None:
            marker = markers[end.producer_id] = WritableTxnMarker(
                end.producer_id, end.producer_epoch, end.commit, [], end.coordinator_epoch, end.transaction_version
            )
        topic = topics.get((end.producer_id, name))
        if topic is None:
            topic = topics[end.producer_id, name] = WritableTxnMarkerTopic(name, [])
            marker.topics.append(topic)
        topic.partition_indexes.append(index)
    return list(markers.values())
