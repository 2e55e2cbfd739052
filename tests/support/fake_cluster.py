"""The default answers of a fake cluster: topics, logs that check sequences as Kafka does, offsets, one group.

The logs are lists of batches. An idempotent producer's batch is taken once: a repetition among the last five is
answered with its first offset, a gap is rejected. So a test can check that each record is there once,
whatever failed on the way.
"""

from __future__ import annotations

import asyncio
from typing import Any

from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from odradek.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from odradek.protocol.messages.init_producer_id import InitProducerIdResponse
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from odradek.protocol.records.batch import assign, decode_batch, read_header
from odradek.protocol.records.record import Record

from .fake_group import FakeGroup
from .wire import Call, Step, Wire

# A fetch that finds nothing waits so long at most, whatever the client would allow: tests are in a hurry.
LONGEST_WAIT_S = 0.05


class FakeLog:
    """One partition."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self.epoch = 0
        self.start = 0
        self.end = 0
        self.batches: list[bytes] = []
        self.aborted: list[tuple[int, int]] = []
        # producer id -> (epoch, [(first sequence, next sequence, first offset)], the last five)
        self._producers: dict[int, tuple[int, list[tuple[int, int, int]]]] = {}
        self.grown = asyncio.Event()

    def append(self, data: bytes) -> tuple[ErrorCode, int]:
        """Take a batch as a leader does: (error, first offset)."""
        header = read_header(data)
        if header.producer_id >= 0:
            known = self._producers.get(header.producer_id)
            if known is None or header.producer_epoch > known[0]:
                if header.base_sequence != 0:
                    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
                known = self._producers[header.producer_id] = (header.producer_epoch, [])
            window = known[1]
            for first, _, offset in window:
                if first == header.base_sequence:
                    return ErrorCode.NONE, offset
            if window and header.base_sequence != window[-1][1]:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            window.append((header.base_sequence, (header.last_sequence + 1) & 0x7FFFFFFF, self.end))
            del window[:-5]
        return ErrorCode.NONE, self.write(data)

    def write(self, data: bytes) -> int:
        """Append without checks."""
        offset = self.end
        batch = bytearray(data)
        header = assign(batch, 0, read_header(data), offset, self.epoch)
        self.batches.append(bytes(batch))
        self.end = header.next_offset
        grown, self.grown = self.grown, asyncio.Event()
        grown.set()
        return offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Batches from the one that holds `offset`, the first whatever its size."""
        found = b""
        for batch in self.batches:
            if read_header(batch).next_offset > offset and (not found or len(found) + len(batch) <= max_bytes):
                found += batch
        return found

    def records(self) -> list[Record]:
        return [record for batch in self.batches for record in decode_batch(batch)]


class FakeCluster(Wire):
    """A cluster with these topics (name to number of partitions), their leaders dealt out among the nodes."""

    def __init__(self, topics: dict[str, int] | None = None, nodes: int = 1) -> None:
        super().__init__(nodes)
        self.topics = {
            name: [FakeLog(number % nodes + 1) for number in range(count)] for name, count in (topics or {}).items()
        }
        self.controller = 1
        self._producer_ids = iter(range(1000, 1 << 30))
        self.group = FakeGroup()
        self.defaults |= {
            ApiKey.METADATA: self._metadata,
            ApiKey.INIT_PRODUCER_ID: self._init_producer_id,
            ApiKey.PRODUCE: self._produce,
            ApiKey.FETCH: self._fetch,
            ApiKey.LIST_OFFSETS: self._list_offsets,
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
            **self.group.defaults(self),
        }

    def log(self, topic: str, partition: int = 0) -> FakeLog:
        return self.topics[topic][partition]

    def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        return [record.value for record in self.log(topic, partition).records()]

    def topic_id(self, name: str) -> bytes:
        return name.encode().ljust(16, b"-")

    def topic_name(self, named: str, topic_id: bytes) -> str:
        return named or topic_id.rstrip(b"-").decode()

    def find(self, topic: str, partition: int) -> FakeLog | None:
        logs = self.topics.get(topic, [])
        return logs[partition] if partition < len(logs) else None

    # -- answers -----------------------------------------------------------------------------------

    async def _metadata(self, call: Call) -> Any:
        wanted = sorted(self.topics) if call.request.topics is None else [t.name for t in call.request.topics]
        live = [node for node in self.nodes.values() if node.server is not None]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node.node_id, "127.0.0.1", node.port) for node in live],
            cluster_id="fake",
            controller_id=self.controller,
            topics=[self._describe(name) for name in wanted],
        )

    def _describe(self, name: str) -> MetadataResponseTopic:
        logs = self.topics.get(name)
        if logs is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name)
        partitions = [
            MetadataResponsePartition(
                partition_index=number,
                leader_id=log.leader,
                leader_epoch=log.epoch,
                replica_nodes=[log.leader],
                isr_nodes=[log.leader],
            )
            for number, log in enumerate(logs)
        ]
        return MetadataResponseTopic(name=name, topic_id=self.topic_id(name), partitions=partitions)

    async def _init_producer_id(self, call: Call) -> Any:
        return InitProducerIdResponse(producer_id=next(self._producer_ids))

    async def _produce(self, call: Call) -> Any:
        response = ProduceResponse()
        for topic in call.request.topic_data:
            name = self.topic_name(topic.name, topic.topic_id)
            answers = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
            for each in topic.partition_data:
                log = self.find(name, each.index)
                if log is None or log.leader != call.node.node_id:
                    code, offset = ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
                else:
                    code, offset = log.append(bytes(each.records))
                answers.partition_responses.append(PartitionProduceResponse(each.index, code, offset))
            response.responses.append(answers)
        return None if call.request.acks == 0 else response

    async def _fetch(self, call: Call) -> Any:
        response = self._fetched(call)
        if not any(len(p.records or b"") or p.error_code for t in response.responses for p in t.partitions):
            await self._wait_for_more(call)
            response = self._fetched(call)
        return response

    async def _wait_for_more(self, call: Call) -> None:
        logs = [
            log
            for topic in call.request.topics
            for each in topic.partitions
            if (log := self.find(self.topic_name(topic.topic, topic.topic_id), each.partition)) is not None
        ]
        waits = [asyncio.ensure_future(log.grown.wait()) for log in logs]
        limit_s = min(call.request.max_wait_ms / 1000, LONGEST_WAIT_S)
        try:
            await asyncio.wait(waits, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _fetched(self, call: Call) -> FetchResponse:
        response = FetchResponse()
        for topic in call.request.topics:
            name = self.topic_name(topic.topic, topic.topic_id)
            partitions = [self._read(call, name, each) for each in topic.partitions]
            response.responses.append(FetchableTopicResponse(topic.topic, topic.topic_id, partitions))
        return response

    def _read(self, call: Call, name: str, each: Any) -> PartitionData:
        log = self.find(name, each.partition)
        if log is None or log.leader != call.node.node_id:
            return PartitionData(each.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not log.start <= each.fetch_offset <= log.end:
            return PartitionData(each.partition, ErrorCode.OFFSET_OUT_OF_RANGE, log.end, log.end, log.start)
        found = PartitionData(each.partition, 0, log.end, log.end, log.start)
        found.records = log.read(each.fetch_offset, each.partition_max_bytes)
        if call.request.isolation_level:
            found.aborted_transactions = [AbortedTransaction(*transaction) for transaction in log.aborted]
        return found

    async def _list_offsets(self, call: Call) -> Any:
        response = ListOffsetsResponse()
        for topic in call.request.topics:
            answers = ListOffsetsTopicResponse(name=topic.name)
            for each in topic.partitions:
                log = self.find(topic.name, each.partition_index)
                if log is None or log.leader != call.node.node_id:
                    found = ListOffsetsPartitionResponse(each.partition_index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                else:
                    found = ListOffsetsPartitionResponse(each.partition_index)
                    found.offset = log.start if each.timestamp == -2 else log.end
                answers.partitions.append(found)
            response.topics.append(answers)
        return response

    async def _find_coordinator(self, call: Call) -> Any:
        node = self.nodes[self.group.node_id]
        if call.version < 4:
            return FindCoordinatorResponse(node_id=node.node_id, host="127.0.0.1", port=node.port)
        found = [Coordinator(key, node.node_id, "127.0.0.1", node.port) for key in call.request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)


def refuse_produce(code: ErrorCode, *, after: bool = False) -> Step:
    """Answer every partition of a Produce with an error; `after` having written it all the same."""

    async def step(call: Call) -> Any:
        done = await call.default() if after else None
        response = ProduceResponse()
        for number, topic in enumerate(call.request.topic_data):
            answers = [PartitionProduceResponse(each.index, code, -1) for each in topic.partition_data]
            if done is not None:  # what could not be written is refused for its own reason
                written = done.responses[number].partition_responses
                answers = [real if real.error_code else told for real, told in zip(written, answers, strict=True)]
            response.responses.append(TopicProduceResponse(topic.name, topic.topic_id, answers))
        return response

    return step
