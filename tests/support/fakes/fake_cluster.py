"""The default answers of a fake cluster: topics, logs that check sequences as Kafka does, offsets, one group.

The logs are lists of batches. A batch of an idempotent producer is appended once: a repetition of one of the last five
gets the offset of the first append, and a gap is rejected. So a test can check that each record is there once, also
after failures.
"""

from __future__ import annotations

from typing import Any

from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsResponse, FinalizedFeatureKey
from odradek.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from odradek.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from odradek.protocol.records.batch import read_header

from .fake_group import FakeGroup
from .fake_log import FakeLog
from .fake_reads import FakeReads
from .fake_share_group import FakeShareGroup
from .fake_transactions import FakeTransactions
from .wire import Call, Step, Wire

__all__ = ["FakeCluster", "FakeLog", "refuse_produce"]


class FakeCluster(Wire):
    """A cluster with these topics (name to number of partitions). The nodes lead their partitions in turn."""

    def __init__(self, topics: dict[str, int] | None = None, nodes: int = 1) -> None:
        super().__init__(nodes)
        self.topics = {
            name: [FakeLog(number % nodes + 1) for number in range(count)] for name, count in (topics or {}).items()
        }
        self.controller = 1
        # Whether Metadata makes a topic that a request names and lets it make, as brokers do by default.
        self.auto_create = False
        self._producer_ids = iter(range(1000, 1 << 30))
        self.group = FakeGroup()
        self.transactions = FakeTransactions(self)
        self.reads = FakeReads()
        self.share_group = FakeShareGroup()
        # How often a topic was deleted and created again.
        self.remade: dict[str, int] = {}
        self.racks: dict[int, str] = {}
        self.defaults |= {
            ApiKey.METADATA: self._metadata,
            ApiKey.PRODUCE: self._produce,
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
            **self.group.defaults(self),
            **self.transactions.defaults(),
            **self.reads.defaults(self),
            **self.share_group.defaults(self),
        }

    def log(self, topic: str, partition: int = 0) -> FakeLog:
        return self.topics[topic][partition]

    def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        return [record.value for record in self.log(topic, partition).records()]

    def topic_id(self, name: str) -> bytes:
        suffix = b"-%d" % self.remade[name] if name in self.remade else b""
        return (name.encode() + suffix).ljust(16, b"-")

    def topic_name(self, named: str, topic_id: bytes) -> str:
        """The name in a request, or that of an id; "" for an id that no topic has (any more)."""
        return named or next((name for name in self.topics if self.topic_id(name) == topic_id), "")

    def make_again(self, name: str, partitions: int = 1) -> None:
        """Delete a topic and make one of the same name, which has another id and no records."""
        self.remade[name] = self.remade.get(name, 0) + 1
        self.topics[name] = [FakeLog(number % len(self.nodes) + 1) for number in range(partitions)]
        self.group.forget(name)

    def delete(self, name: str) -> None:
        """Delete a topic."""
        del self.topics[name]
        self.group.forget(name)

    def find(self, topic: str, partition: int) -> FakeLog | None:
        logs = self.topics.get(topic, [])
        return logs[partition] if partition < len(logs) else None

    # -- answers -----------------------------------------------------------------------------------

    async def _metadata(self, call: Call) -> Any:
        wanted = sorted(self.topics) if call.request.topics is None else [t.name for t in call.request.topics]
        for name in wanted:
            if self.auto_create and call.request.allow_auto_topic_creation and name not in self.topics:
                self.make_again(name)
        live = [node for node in self.nodes.values() if node.server is not None]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node.node_id, "127.0.0.1", node.port, self.racks.get(node.node_id))
                for node in live
            ],
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

    def new_producer_id(self) -> int:
        return next(self._producer_ids)

    def versions_answer(self) -> ApiVersionsResponse:
        answer = super().versions_answer()
        answer.finalized_features = [FinalizedFeatureKey("transaction.version", self.transactions.version, 0)]
        return answer

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
                    code, offset = self._append(call, (name, each.index), log, bytes(each.records))
                answers.partition_responses.append(PartitionProduceResponse(each.index, code, offset))
            response.responses.append(answers)
        return None if call.request.acks == 0 else response

    def _append(self, call: Call, place: tuple[str, int], log: FakeLog, data: bytes) -> tuple[ErrorCode, int]:
        if call.request.transactional_id is not None:
            name = call.request.transactional_id
            if code := self.transactions.check_produce(call, name, place, read_header(data)):
                return code, -1
        return log.append(data)

    async def _find_coordinator(self, call: Call) -> Any:
        is_group = call.request.key_type == 0
        node = self.nodes[self.group.node_id if is_group else self.transactions.node_id]
        if call.version < 4:
            return FindCoordinatorResponse(node_id=node.node_id, host="127.0.0.1", port=node.port)
        found = [Coordinator(key, node.node_id, "127.0.0.1", node.port) for key in call.request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)


def refuse_produce(code: ErrorCode, *, after: bool = False) -> Step:
    """Answer every partition of a Produce with an error. With `after`, append its batch first."""

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
