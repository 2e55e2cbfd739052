"""A transactional producer for tests that choose each request. It keeps epochs and sequences as a client does."""

from __future__ import annotations

from functools import partial
from typing import Any

from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.protocol.primitives import ZERO_UUID
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.waiting import accepted

V2_PRODUCE, V2_END = 12, 5


class Transactional:
    """Speaks transactions version 2, unless a version is given."""

    def __init__(self, raw: Raw, transactional_id: str) -> None:
        self.raw = raw
        self.transactional_id = transactional_id
        self.producer_id = self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    async def begin(self) -> None:
        """Send InitProducerId, which gives a new epoch and aborts an open transaction."""
        await self.raw.ask(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(self.transactional_id, 1))
        request = InitProducerIdRequest(self.transactional_id, 60_000)
        ask = partial(self.raw.ask, ApiKey.INIT_PRODUCER_ID, 4, request)
        # What was open is being aborted.
        answer = await accepted(ask, ErrorCode.CONCURRENT_TRANSACTIONS)
        assert answer.error_code == 0
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()

    async def send(
        self, topic: str, *values: bytes, partition: int = 0, version: int = V2_PRODUCE, **fields: Any
    ) -> Any:
        """Send Produce, and return the partition's response."""
        at = topic, partition
        sequence = fields.pop("base_sequence", self.sequences.get(at, 0))
        settings = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "transactional": True,
            "base_sequence": sequence,
            **fields,
        }
        answer = await self.raw.produce(
            topic, batch_of(*values, **settings), partition, version, transactional_id=self.transactional_id
        )
        if not answer.error_code:
            self.sequences[at] = sequence + len(values)
        return answer

    async def end(self, *, commit: bool) -> int:
        """Send EndTxn, and return its error. The next transaction uses the epoch of the response."""
        request = EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, commit)
        answer = await self.raw.ask(ApiKey.END_TXN, V2_END, request)
        if not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return answer.error_code

    async def commit_offset(self, group: str, topic: str, offset: int, version: int = 5, **member: Any) -> int:
        """Send TxnOffsetCommit, and return the error of its one partition."""
        place = TxnOffsetCommitRequestPartition(0, offset)
        topics = [TxnOffsetCommitRequestTopic(topic, member.pop("topic_id", ZERO_UUID), [place])]
        request = TxnOffsetCommitRequest(
            self.transactional_id, group, self.producer_id, self.epoch, topics=topics, **member
        )
        answer = await self.raw.ask(ApiKey.TXN_OFFSET_COMMIT, version, request)
        return answer.topics[0].partitions[0].error_code

    async def mark(
        self,
        topic: str,
        *,
        commit: bool,
        epoch: int,
        coordinator_epoch: int = 0,
        partition: int = 0,
        of_version: int = 0,
    ) -> int:
        """Send WriteTxnMarkers, as another broker's coordinator would, and return the error of its one partition."""
        places = [WritableTxnMarkerTopic(topic, [partition])]
        marker = WritableTxnMarker(self.producer_id, epoch, commit, places, coordinator_epoch, of_version)
        answer = await self.raw.ask(ApiKey.WRITE_TXN_MARKERS, 2, WriteTxnMarkersRequest([marker]))
        return answer.markers[0].topics[0].partitions[0].error_code
