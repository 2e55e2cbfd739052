"""A transaction coordinator for the fake cluster: epochs, partitions, offsets and markers, in versions 1 and 2.

It checks what Kafka checks: the producer's id and epoch, that version 1 adds a partition before it is written to, and
that a transaction ends once. `committed` reads a log as a read_committed consumer does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from odradek.protocol.messages.end_txn import EndTxnResponse
from odradek.protocol.messages.init_producer_id import InitProducerIdResponse
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from odradek.protocol.records.batch import BatchHeader, decode_batch, read_header
from odradek.protocol.records.control import ControlType, Marker, control_type, encode_marker

from .wire import Call, Step

IMPLICIT_PRODUCE, NEXT_EPOCH_END, IMPLICIT_COMMIT = 12, 5, 5


@dataclass
class FakeTransaction:
    """One transactional id."""

    producer_id: int
    epoch: int = -1
    is_open: bool = False
    partitions: set[tuple[str, int]] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    # How the last transaction ended: True for a commit.
    last: bool | None = None


class FakeTransactions:
    """The transactional ids of a fake cluster, whose coordinator is one node."""

    def __init__(self, wire: Any) -> None:
        self.node_id = 1
        # What the cluster has finalized as `transaction.version`.
        self.version = 2
        self.ids: dict[str, FakeTransaction] = {}
        self.ends: list[tuple[str, bool]] = []
        self._wire = wire

    def defaults(self) -> dict[ApiKey, Step]:
        return {
            ApiKey.INIT_PRODUCER_ID: self._initialize,
            ApiKey.ADD_PARTITIONS_TO_TXN: self._add_partitions,
            ApiKey.ADD_OFFSETS_TO_TXN: self._add_offsets,
            ApiKey.TXN_OFFSET_COMMIT: self._commit_offsets,
            ApiKey.END_TXN: self._end,
        }

    async def _initialize(self, call: Call) -> Any:
        request, name = call.request, call.request.transactional_id
        if name is None:
            return InitProducerIdResponse(producer_id=self._wire.new_producer_id())
        if call.node.node_id != self.node_id:
            return InitProducerIdResponse(error_code=ErrorCode.NOT_COORDINATOR)
        found = self.ids.get(name)
        if found is None:
            found = self.ids[name] = FakeTransaction(self._wire.new_producer_id())
        if request.producer_id >= 0 and (request.producer_id, request.producer_epoch) != (
            found.producer_id,
            found.epoch,
        ):
            return InitProducerIdResponse(error_code=ErrorCode.PRODUCER_FENCED)
        if found.is_open:
            self._mark(name, found, commit=False)
        found.epoch += 1
        return InitProducerIdResponse(producer_id=found.producer_id, producer_epoch=found.epoch)

    def check(self, call: Call, name: str, request: Any) -> ErrorCode:
        """The error of a request to the coordinator by its sender's id and epoch."""
        found = self.ids.get(name)
        if call.node.node_id != self.node_id:
            return ErrorCode.NOT_COORDINATOR
        if found is None or found.producer_id != request[0]:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ErrorCode.NONE if found.epoch == request[1] else ErrorCode.PRODUCER_FENCED

    async def _add_partitions(self, call: Call) -> Any:
        request = call.request
        name = request.v3_and_below_transactional_id
        code = self.check(call, name, (request.v3_and_below_producer_id, request.v3_and_below_producer_epoch))
        places = [(topic.name, number) for topic in request.v3_and_below_topics for number in topic.partitions]
        if not code and any(self._wire.find(*place) is None for place in places):
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not code:
            self.ids[name].is_open = True
            self.ids[name].partitions |= set(places)
        results = [
            AddPartitionsToTxnTopicResult(
                topic.name, [AddPartitionsToTxnPartitionResult(number, code) for number in topic.partitions]
            )
            for topic in request.v3_and_below_topics
        ]
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)

    async def _add_offsets(self, call: Call) -> Any:
        request = call.request
        code = self.check(call, request.transactional_id, (request.producer_id, request.producer_epoch))
        if not code:
            found = self.ids[request.transactional_id]
            found.is_open = True
            found.groups.add(request.group_id)
        return AddOffsetsToTxnResponse(error_code=code)

    async def _commit_offsets(self, call: Call) -> Any:
        request = call.request
        found = self.ids[request.transactional_id]
        group = self._wire.group
        code = ErrorCode.NONE
        if call.node.node_id != group.node_id:
            code = ErrorCode.NOT_COORDINATOR
        elif (request.producer_id, request.producer_epoch) != (found.producer_id, found.epoch):
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        elif request.member_id and (request.member_id, request.generation_id_or_member_epoch) != (
            group.member_id,
            group.generation,
        ):
            code = ErrorCode.ILLEGAL_GENERATION
        elif call.version < IMPLICIT_COMMIT and request.group_id not in found.groups:
            code = ErrorCode.INVALID_TXN_STATE
        answers = TxnOffsetCommitResponse()
        for topic in request.topics:
            told = [TxnOffsetCommitResponsePartition(each.partition_index, code) for each in topic.partitions]
            answers.topics.append(TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, told))
            for each in topic.partitions if not code else []:
                found.is_open = True
                name = self._wire.topic_name(topic.name, topic.topic_id)
                found.offsets[name, each.partition_index] = each.committed_offset
        return answers

    async def _end(self, call: Call) -> Any:
        request, version_2 = call.request, call.version >= NEXT_EPOCH_END
        found = self.ids.get(request.transactional_id)
        now = (request.producer_id, request.producer_epoch)
        ended = found is not None and not found.is_open and found.last is request.committed
        if version_2 and ended and now == (found.producer_id, found.epoch - 1):  # asked again
            return EndTxnResponse(producer_id=found.producer_id, producer_epoch=found.epoch)
        code = self.check(call, request.transactional_id, now)
        if code:
            return EndTxnResponse(error_code=code)
        assert found is not None
        if not found.is_open and (request.committed if version_2 else found.last is not request.committed):
            return EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)
        if found.is_open:
            self._mark(request.transactional_id, found, commit=request.committed)
        found.last = request.committed
        if not version_2:
            return EndTxnResponse()
        found.epoch += 1
        return EndTxnResponse(producer_id=found.producer_id, producer_epoch=found.epoch)

    def _mark(self, name: str, found: FakeTransaction, *, commit: bool) -> None:
        marker = Marker(ControlType.COMMIT if commit else ControlType.ABORT, 0)
        for topic, partition in sorted(found.partitions):
            log = self._wire.find(topic, partition)
            epoch = max(found.epoch, 0)
            log.write(encode_marker(marker, producer_id=found.producer_id, producer_epoch=epoch, timestamp_ms=7))
        if commit:
            self._wire.group.committed |= found.offsets
        self.ends.append((name, commit))
        found.is_open = False
        found.partitions, found.groups, found.offsets = set(), set(), {}

    def check_produce(self, call: Call, name: str, place: tuple[str, int], header: BatchHeader) -> ErrorCode:
        """The error of a transactional batch, which version 2 adds to its transaction."""
        found = self.ids.get(name)
        if found is None or found.producer_id != header.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if found.epoch != header.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if not header.is_transactional:
            return ErrorCode.INVALID_RECORD
        if call.version < IMPLICIT_PRODUCE:
            return ErrorCode.NONE if place in found.partitions else ErrorCode.INVALID_TXN_STATE
        found.is_open = True
        found.partitions.add(place)
        return ErrorCode.NONE


def committed(batches: list[bytes]) -> list[bytes | None]:
    """The values of a log that a read_committed consumer gets; the transactions that are open still are left out."""
    found: list[bytes | None] = []
    open_batches: dict[int, list[tuple[int, list[bytes | None]]]] = {}
    kept: list[tuple[int, list[bytes | None]]] = []
    for batch in batches:
        header, records = read_header(batch), decode_batch(batch)
        if header.is_control:
            ended = open_batches.pop(header.producer_id, [])
            kept += ended if control_type(records[0]) is ControlType.COMMIT else []
        elif header.is_transactional:
            values = [record.value for record in records]
            open_batches.setdefault(header.producer_id, []).append((header.base_offset, values))
        else:
            kept.append((header.base_offset, [record.value for record in records]))
    for _, values in sorted(kept, key=lambda one: one[0]):
        found += values
    return found
