"""A data partition of simulated coordinators: the producers of a real log, and markers by the real MarkerWriter.

It never fails, and any broker may lead it: what is under test is who writes markers into it, and by which clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from odradek.broker.coordination.transactions.markers import MarkerWriter, TransactionEnd
from odradek.protocol.errors import KafkaError
from odradek.protocol.records import batch
from odradek.protocol.records.batch import CONTROL, TRANSACTIONAL, BatchHeader
from odradek.protocol.records.control import ControlType, Marker
from odradek.storage.producers import ProducerStates


class DataPartition:
    """A partition as the MarkerWriter sees it, with a replica on every broker."""

    topic = "data"
    is_cold = must_flush = False
    reign = 0

    def __init__(self, index: int, leader: int, now_ms: Callable[[int], int]) -> None:
        """`now_ms` is the clock of a broker."""
        self.index = index
        # It may change at any time.
        self.leader = leader
        self._now_ms = now_ms
        # The log, of which only the producers and its end are known, and the followers, which are in sync.
        self.log = self.replication = self
        self.producers = ProducerStates()
        self.log_end_offset = 0
        # Producer id -> an open transaction.
        self._open: dict[int, int] = {}
        # Transaction -> whether it was committed.
        self.ended: dict[int, bool] = {}

    @property
    def is_open(self) -> bool:
        return self.producers.first_undecided_offset() is not None

    def check_min_isr(self) -> None:
        """All followers are in sync."""

    async def committed(self, reign: int, offset: int) -> None:
        """All followers have it."""

    def write(self, producer_id: int, epoch: int, number: int) -> bool:
        """Write a record of a transaction; False if a newer producer has fenced this one."""
        try:
            self.producers.check_epoch(producer_id, epoch)
        except KafkaError:
            return False
        self._append(self._header(producer_id, epoch, TRANSACTIONAL, self._now_ms(self.leader)))
        self._open[producer_id] = number
        return True

    def append_marker(self, producer_id: int, epoch: int, marker: Marker, version: int, time_ms: int = 0) -> None:
        """End the producer's transaction as a marker says."""
        self.producers.check_marker(producer_id, epoch, marker.coordinator_epoch, version)
        header = self._header(producer_id, epoch, TRANSACTIONAL | CONTROL, time_ms or self._now_ms(self.leader))
        self._append(header, coordinator_epoch=marker.coordinator_epoch)
        number = self._open.pop(producer_id, None)
        if number is not None:
            self.ended[number] = marker.type is ControlType.COMMIT

    def _header(self, producer_id: int, epoch: int, attributes: int, timestamp_ms: int) -> BatchHeader:
        blank = batch.read_header(bytearray(batch.encode_batch([batch.Record(0, timestamp_ms, None, None)])))
        return blank._replace(
            base_offset=self.log_end_offset, attributes=attributes, producer_id=producer_id, producer_epoch=epoch
        )

    def _append(self, header: BatchHeader, **marker: int) -> None:
        self.producers.apply(header, **marker)
        self.log_end_offset += 1


class DataPartitions:
    """The partitions by index, as the topics of every broker: each is found where it is led."""

    def __init__(self, now_ms: Callable[[int], int], *, by_clocks: bool) -> None:
        """`by_clocks` plants a mistake. `now_ms` is the clock of a broker."""
        self.all = [DataPartition(index, index + 1, now_ms) for index in range(2)]
        nothing: Any = None
        kind = ByClocks if by_clocks else MarkerWriter
        self._writer = kind(self, nothing, nothing, lambda *_: None, lambda _: False, None)  # type: ignore[arg-type]

    def partition(self, _: str, index: int) -> DataPartition:
        return self.all[index]

    async def mark(self, index: int, end: TransactionEnd) -> None:
        """Have the leader write a marker. Raises KafkaError."""
        waiting = self._writer.write_here("data", index, end)
        if waiting is not None:
            await waiting


class ByClocks(MarkerWriter):
    """Takes a transaction for the next one if the last marker is later than the decision, by two brokers' clocks."""

    def _end(self, partition: Any, end: TransactionEnd) -> asyncio.Future[None] | None:
        producer = partition.log.producers.with_open_transaction(end.producer_id)
        if end.is_found and producer is not None and producer.last_marker_ms >= end.decided_ms:
            end = end._replace(producer_epoch=producer.epoch + 1, commit=False, transaction_version=0)
        return self._append(partition, end)
