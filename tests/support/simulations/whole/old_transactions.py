"""Transactions of version 1 in a simulated cluster, request by request, as older clients do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from odradek.testing.simulation.world import EPOCH_MS
from odradek.tests.support.clients.raw import batch_of

from .history import Place
from .load import PLAIN, WHOLE, TransactionWriter, group_of
from .requests import Requests, check

_ADD_VERSION = _END_VERSION = _OFFSETS_VERSION = 3
_PRODUCE_VERSION = 11
_RETRIES = 60


class OldTransactionWriter(TransactionWriter):
    """Transactions of version 1, request by request."""

    async def run(self) -> None:
        self._requests = Requests(self.addresses, self.name, self.chance, self.patience_ms)
        await self.until_over(self._live)

    async def _live(self) -> None:
        try:
            await self._begin_epoch()
            while not self.is_over:
                await self._old_transaction()
                await asyncio.sleep(self.chance.expovariate(self.rate / 2))
        finally:
            self._requests.close()

    async def _until(self, what: Callable[[], Awaitable[None]]) -> None:
        """Repeat a request while its error may pass, as a client does."""
        for _ in range(_RETRIES):
            try:
                await what()
                return
            except (KafkaError, OSError) as error:
                if isinstance(error, KafkaError) and not error.retriable:
                    raise
            await asyncio.sleep(0.25)
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "it has not come in time")

    async def _begin_epoch(self) -> None:
        async def ask() -> None:
            coordinator = await self._requests.transaction_coordinator(self.name)
            request = InitProducerIdRequest(self.name, 15_000)
            found = await coordinator.request(request, InitProducerIdResponse, version=4)
            check(found.error_code)
            self._producer_id, self._epoch = found.producer_id, found.producer_epoch

        await self._until(ask)
        self._sequences: dict[Place, int] = {}

    async def _old_transaction(self) -> None:
        transaction, commits = self.begin()
        places = sorted({place for place, _ in transaction.values})
        await self._until(lambda: self._add(places))
        for place in places:
            values = [value for each, value in transaction.values if each == place]
            await self._until(lambda place=place, values=values: self._produce(place, values))
            self._sequences[place] = self._sequences.get(place, 0) + len(values)
        if (offset := transaction.offset) is not None:
            await self._until(self._add_group)
            await self._until(lambda: self._commit_offset(offset))
        await asyncio.sleep(self.chance.expovariate(self.rate))
        await self._until(lambda: self._end(commits))
        self.ended(transaction, commits)

    async def _add(self, places: list[Place]) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(WHOLE, [partition for _, partition in places])],
        )
        coordinator = await self._requests.transaction_coordinator(self.name)
        found = await coordinator.request(request, AddPartitionsToTxnResponse, version=_ADD_VERSION)
        for each in found.results_by_topic_v3_and_below[0].results_by_partition:
            check(each.partition_error_code)

    async def _add_group(self) -> None:
        request = AddOffsetsToTxnRequest(self.name, self._producer_id, self._epoch, group_of(self.name))
        coordinator = await self._requests.transaction_coordinator(self.name)
        found = await coordinator.request(request, AddOffsetsToTxnResponse, version=_ADD_VERSION)
        check(found.error_code)

    async def _commit_offset(self, offset: int) -> None:
        group, request = group_of(self.name), TxnOffsetCommitRequest(self.name)
        request.group_id, request.producer_id, request.producer_epoch = group, self._producer_id, self._epoch
        partition = TxnOffsetCommitRequestPartition(0, offset, committed_metadata=None)
        request.topics = [TxnOffsetCommitRequestTopic(PLAIN, partitions=[partition])]
        coordinator = await self._requests.group_coordinator(group)
        found = await coordinator.request(request, TxnOffsetCommitResponse, version=_OFFSETS_VERSION)
        check(found.topics[0].partitions[0].error_code)

    async def _produce(self, place: Place, values: list[bytes]) -> None:
        batch = batch_of(
            *values,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            transactional=True,
            base_sequence=self._sequences.get(place, 0),
            # Records of another year would be deleted after 30 seconds.
            timestamp_ms=EPOCH_MS + int(self.world.now_s * 1000),
        )
        topics = [TopicProduceData(name=place[0], partition_data=[PartitionProduceData(place[1], batch)])]
        request = ProduceRequest(self.name, -1, 3_000, topics)
        leader = await self._requests.leader(place)
        found = await leader.request(request, ProduceResponse, version=_PRODUCE_VERSION)
        code = found.responses[0].partition_responses[0].error_code
        if code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            check(code)

    async def _end(self, commits: bool) -> None:
        request = EndTxnRequest(self.name, self._producer_id, self._epoch, commits)
        coordinator = await self._requests.transaction_coordinator(self.name)
        found = await coordinator.request(request, EndTxnResponse, version=_END_VERSION)
        check(found.error_code)
