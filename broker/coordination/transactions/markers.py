"""Transaction markers: the record of a partition that says how a transaction ended there.

The transaction coordinator asks for them, in this process or over the wire (WriteTxnMarkers). A marker in a partition
of `__consumer_offsets` also ends the transaction for the groups there: offsets that were committed in it become
visible, or are dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.records.control import ControlType, Marker
from ....storage.producers import MAX_EPOCH
from ...threads import DiskThreads
from ...topics.disk_reads import warm_up
from ...topics.flusher import Flusher
from ...topics.partition import Partition
from ...topics.topic_names import OFFSETS_TOPIC
from ...topics.topics import Topics
from ...turns import keeper
from .records import RAISES_EPOCH

# A log whose end is not in the page cache takes the loop some 10 ms, so the loop reads no more than these, and a thread
# the others. With none, a transaction of one partition would not have ended when its EndTxn is answered after a start.
COLD_AT_ONCE = 3

_log = logging.getLogger(__name__)


class TransactionEnd(NamedTuple):
    """How a producer's transaction ended, and the coordinator that says so."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int
    # Whether the marker is written once it is on disk, whatever the topic's configs say.
    durable: bool = False
    # The time in the record of the decision. No other record of the transactional id has it.
    decided_ms: int = 0
    # Whether a start found the decision in the log.
    is_found: bool = False


class MarkerWriter:
    """Writes markers.

    `end_offsets` is called with partition, producer id and commit once a marker is in `__consumer_offsets`.
    `is_loading` says whether the groups of a partition there are being loaded. `write_remotely` has the leader of a
    partition write a marker; None: a broker that is alone.
    """

    def __init__(
        self,
        topics: Topics,
        flusher: Flusher,
        threads: DiskThreads,
        end_offsets: Callable[[int, int, bool], None],
        is_loading: Callable[[int], bool],
        write_remotely: Callable[[str, int, TransactionEnd], asyncio.Future[None]] | None,
    ) -> None:
        self._topics = topics
        self._flusher = flusher
        self._threads = threads
        # Cold logs that markers in this turn of the loop are for.
        self._cold_this_turn = 0
        self._end_offsets = end_offsets
        self._is_loading = is_loading
        self._write_remotely = write_remotely

    def write(self, topic_name: str, index: int, end: TransactionEnd, /) -> asyncio.Future[None] | None:
        """End a transaction in one partition. Return a future if it is not ended at once. Repeating it is harmless.

        Raises (now, or from the future) KafkaError: UNKNOWN_TOPIC_OR_PARTITION if the partition is gone,
        INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR, NOT_ENOUGH_REPLICAS.
        """
        partition = self._find(topic_name, index)
        # Where another broker leads, it does not matter that the log of this one is offline.
        is_here = partition.not_leading is None or not self._topics.is_led_elsewhere(topic_name, index)
        if not is_here and self._write_remotely is not None:
            return self._write_remotely(topic_name, index, end)
        return self._write_here(partition, end)

    def write_here(self, topic_name: str, index: int, end: TransactionEnd, /) -> asyncio.Future[None] | None:
        """Do as `write`, on behalf of the coordinator of another broker. Raises NOT_LEADER_OR_FOLLOWER too."""
        return self._write_here(self._find(topic_name, index), end)

    def _find(self, topic_name: str, index: int) -> Partition:
        partition = self._topics.partition(topic_name, index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic_name}-{index} does not exist")
        return partition

    def _write_here(self, partition: Partition, end: TransactionEnd) -> asyncio.Future[None] | None:
        """Write a marker in this turn of the loop, if its slice is not over. A transaction may have thousands."""
        if keeper().is_over or (partition.is_cold and self._must_warm_up()):
            return asyncio.ensure_future(self._write_later(partition, end))
        return self._end(partition, end)

    def _must_warm_up(self) -> bool:
        if not self._cold_this_turn:
            asyncio.get_running_loop().call_soon(self._begin_turn)
        self._cold_this_turn += 1
        return self._cold_this_turn > COLD_AT_ONCE

    def _begin_turn(self) -> None:
        self._cold_this_turn = 0

    async def _write_later(self, partition: Partition, end: TransactionEnd) -> None:
        """End a transaction in a later slice, where a thread has read the log if that is cold."""
        if partition.is_cold:
            await warm_up((partition,), self._threads)
        ended: asyncio.Future[asyncio.Future[None] | None] = asyncio.get_running_loop().create_future()
        keeper().queue(partial(self._end_in_slice, partition, end, ended))
        waiting = await ended
        if waiting is not None:
            await waiting

    def _end_in_slice(
        self, partition: Partition, end: TransactionEnd, ended: asyncio.Future[asyncio.Future[None] | None]
    ) -> None:
        if ended.done():
            return
        try:
            ended.set_result(self._end(self._find(partition.topic, partition.index), end))
        except Exception as error:  # noqa: BLE001 - it is raised where the marker is waited for
            ended.set_exception(error)

    def _end(self, partition: Partition, end: TransactionEnd) -> asyncio.Future[None] | None:
        if partition.topic == OFFSETS_TOPIC and self._is_loading(partition.index):
            # The load might miss the marker, or the groups the end of their transaction.
            why = f"the groups of {partition.topic}-{partition.index} are being loaded"
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, why)
        if end.is_found and partition.replication is None:
            end = _end_of_lost(partition, end) or end
        return self._append(partition, end)

    def _append(self, partition: Partition, end: TransactionEnd) -> asyncio.Future[None] | None:
        marker = Marker(ControlType.COMMIT if end.commit else ControlType.ABORT, end.coordinator_epoch)
        version = end.transaction_version
        if partition.replication is not None:
            # It would wait for the followers, and the other markers of its request with it.
            partition.replication.check_min_isr()
        # Alone, the decision gives its marker its time, by which a start after a power cut knows it.
        time_ms = end.decided_ms if partition.replication is None else 0
        partition.append_marker(end.producer_id, end.producer_epoch, marker, version, time_ms)
        if end.durable or partition.must_flush or partition.replication is not None:
            reign, offset = partition.reign, partition.log.log_end_offset
            return asyncio.ensure_future(self._commit(partition, end, reign, offset))
        self._written(partition, end)
        return None

    async def _commit(self, partition: Partition, end: TransactionEnd, reign: int, offset: int) -> None:
        if end.durable or partition.must_flush:
            await self._flusher.flush(partition)
        await partition.committed(reign, offset)
        self._written(partition, end)

    def _written(self, partition: Partition, end: TransactionEnd) -> None:
        if partition.topic == OFFSETS_TOPIC:
            self._end_offsets(partition.index, end.producer_id, end.commit)


def _end_of_lost(partition: Partition, end: TransactionEnd) -> TransactionEnd | None:
    """Return the abort of a transaction that the coordinator has lost; None if the one that `end` means may be open.

    A power cut of a broker that is alone may lose the record that a transaction has ended, and the record of the next
    one, but not the batches of the next one. Nobody can commit that one any more. The end before it has its marker
    here: in version 2 the next one has the epoch of that marker, in version 1 that marker has the time of the decision
    (a name for it: no two times are put in order, for a clock may be set back). The abort raises the epoch of version
    1, because the producer believes that its transaction is open.

    In a cluster a record of the coordinator that others have relied on is on every replica in the ISR.
    """
    producer = partition.log.producers.with_open_transaction(end.producer_id)
    if producer is None:
        return None
    epoch = producer.epoch
    if end.transaction_version >= RAISES_EPOCH:
        is_next = epoch >= end.producer_epoch
    else:
        is_next = producer.last_marker_ms == end.decided_ms
        epoch = min(epoch + 1, MAX_EPOCH)
    if not is_next:
        return None
    _log.warning(
        "%s-%d: the transaction of producer %d that begins at offset %d is aborted: the coordinator has lost it",
        *(partition.topic, partition.index, end.producer_id, producer.current_txn_first_offset),
    )
    return end._replace(producer_epoch=epoch, commit=False, transaction_version=0)
