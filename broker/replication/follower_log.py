"""What a follower does to its log: it appends what the leader has, and goes back where the two diverge.

Before a log is cut, a recovery point that is no higher is on disk: a start after a crash would take what is appended
below the old one for flushed. What a full disk refuses so is left as it is, and tried again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from ...protocol.records import batch
from ...protocol.records.batch import BatchHeader
from ...protocol.records.control import Marker, marker_in
from ...protocol.records.errors import TruncatedBatch
from ...storage.errors import StorageError
from ...storage.leader_epochs import UNDEFINED, LeaderEpochs
from ...storage.log_view import LogView
from ...storage.producers import ProducerStates
from ..clock import Clock
from ..threads import DiskThreads
from ..topics.disk_reads import read_from_disk, warm_up
from ..topics.flusher import Flusher
from ..topics.partition import Partition
from ..topics.staging import Staging
from ..topics.validation import is_very_large
from ..turns import keeper

# A flush may raise the recovery point beside a checkpoint that lowers it, and another checkpoint note that.
MAX_CHECKPOINTS = 3

_log = logging.getLogger(__name__)


class FollowerLog:
    """The changes that a fetcher makes to logs. `checkpoint` makes the recovery points of a data directory durable."""

    def __init__(
        self,
        flusher: Flusher,
        staging: Staging,
        threads: DiskThreads,
        clock: Clock,
        checkpoint: Callable[[Path], Awaitable[None]],
        removed: Callable[[Partition], None],
    ) -> None:
        """`removed` is told of partitions whose log has retired segments."""
        self._flusher = flusher
        self._staging = staging
        self._threads = threads
        self._clock = clock
        self._checkpoint = checkpoint
        self._removed = removed

    async def append(self, partition: Partition, records: memoryview, is_current: Callable[[], bool]) -> None:
        """Append the whole batches in `records`, in turns of the loop, as long as `is_current`.

        An incomplete one at the end is left out: the next fetch brings it. Raises RecordError where bytes arrived
        damaged, StorageError.
        """
        if partition.is_cold:
            await warm_up((partition,), self._threads)
            if not is_current():
                return
        log, turns = partition.log, keeper()
        for view, header, marker in _batches(records):
            if header.last_offset < log.log_end_offset:
                continue
            if header.base_offset < log.log_end_offset and log.log_end_offset == log.log_start_offset:
                # An empty log that begins inside a batch (DeleteRecords): the batch is appended whole.
                start = log.log_start_offset
                await self._start_over(partition, header.base_offset, is_current)
                if not is_current():
                    return
                partition.append_replicated(view, header, marker)
                log.advance_log_start(start)
                partition.advance(start)
                continue
            if is_very_large(view):
                async with self._staging.staged(partition, view) as staged:
                    if is_current():
                        partition.append_replicated(view, header, marker, staged)
            else:
                partition.append_replicated(view, header, marker)
            if turns.is_over:
                await turns.next()
            if not is_current():
                return

    async def flush(self, partition: Partition) -> None:
        """Wait for the fsync that flush.messages requires before the leader may count this replica."""
        if partition.must_flush:
            await self._flusher.flush(partition)

    async def go_back(
        self, partition: Partition, leader_epoch: int, leader_end_offset: int, is_current: Callable[[], bool]
    ) -> None:
        """Truncate to where this log and the leader's can agree. Raises StorageError."""
        log = partition.log
        offset = truncation_offset(log.epochs, log.log_end_offset, leader_epoch, leader_end_offset)
        await self._truncate(partition, offset, is_current)

    async def go_back_to(self, partition: Partition, offset: int, is_current: Callable[[], bool]) -> None:
        """Truncate to `offset`. Raises StorageError."""
        if is_current() and offset < partition.log.log_end_offset:
            await self._truncate(partition, offset, is_current)

    async def give_up_lost(self, partition: Partition, is_current: Callable[[], bool]) -> None:
        """Go back to before the first record that the start has found lost; the leader has it. Raises StorageError."""
        log = partition.log
        lost_from = log.lost_from
        if not is_current() or lost_from is None:
            return
        await self._lower_point(partition, lost_from)
        producers = await self._producers_before(partition, lost_from)
        if not is_current() or producers is None or log.lower_recovery_point(lost_from):
            # A flush and a checkpoint may have come in between: the next fetch tries again.
            return
        text = "%s lost records at its start: it goes back from offset %d to %d, and copies what its leader has"
        _log.warning(text, partition, log.log_end_offset, lost_from)
        with _noting_failure(partition):
            log.give_up_lost(self._clock.now_ms(), producers)
        self._removed(partition)
        partition.is_cold = False
        partition.advance(max(min(partition.high_watermark, log.log_end_offset), log.log_start_offset))

    async def begin_at(self, partition: Partition, offset: int, is_current: Callable[[], bool]) -> None:
        """Drop everything, because the leader's log begins at `offset`, behind the end of this one."""
        if is_current():
            await self._start_over(partition, offset, is_current)

    async def _lower_point(self, partition: Partition, offset: int) -> None:
        """Have a recovery point on disk that is no higher than `offset`, and no flush run. Raises StorageError."""
        tries = 0
        await self._flusher.idle(partition)
        while partition.log.lower_recovery_point(offset):
            if tries == MAX_CHECKPOINTS:
                raise StorageError(f"the recovery point of {partition} is raised all the time")
            tries += 1
            await self._checkpoint(partition.log.directory.parent)
            await self._flusher.idle(partition)

    async def _start_over(self, partition: Partition, offset: int, is_current: Callable[[], bool]) -> None:
        await self._lower_point(partition, offset)
        if not is_current():
            return
        _log.warning("%s starts over at offset %d, where it can follow its leader", partition, offset)
        with _noting_failure(partition):
            partition.log.start_over(offset, self._clock.now_ms())
        self._removed(partition)
        partition.advance(offset)

    async def _producers_before(self, partition: Partition, offset: int) -> ProducerStates | None:
        """Return the producers of a log that is cut at `offset`, None where it has changed meanwhile.

        A thread finds them, and may read a whole segment for it; it reads what the cut reads, too. No flush runs when
        this returns.
        """
        log, end = partition.log, partition.log.log_end_offset
        if offset >= end:
            return log.producers
        now_ms = log.last_append_ms

        def read(view: LogView) -> ProducerStates:
            found = view.producers_before(offset, now_ms)
            view.read_cut(offset)
            return found

        producers = await read_from_disk(partition, read, self._threads)
        await self._flusher.idle(partition)
        is_same = partition.is_online and partition.log is log and log.log_end_offset == end
        return producers if is_same else None

    async def _truncate(self, partition: Partition, offset: int, is_current: Callable[[], bool]) -> None:
        log, before, mark = partition.log, partition.log.log_end_offset, partition.high_watermark
        start = log.log_start_offset
        if offset < log.segments[0].base_offset:
            # Retention here has removed what the leader never had, or has lost: no cut leads back there.
            await self._start_over(partition, offset, is_current)
            return
        await self._lower_point(partition, offset)
        producers = await self._producers_before(partition, offset)
        if not is_current() or producers is None or log.lower_recovery_point(offset):
            # Another leader, perhaps this broker, knows better; or a flush came in between, and the next fetch cuts.
            return
        with _noting_failure(partition):
            log.truncate_to(offset, producers, durable=False)
        _log.info("%s goes back from offset %d to %d", partition, before, log.log_end_offset)
        if log.log_end_offset < mark:
            text = "%s loses committed records from offset %d to %d, which its leader does not have"
            _log.warning(text, partition, log.log_end_offset, mark)
            partition.advance(log.log_end_offset)
        await self._flusher.force(partition)
        # A batch across the offset has gone as a whole.
        if log.log_start_offset < start or log.lower_recovery_point(log.log_end_offset):
            await self._checkpoint(log.directory.parent)


@contextmanager
def _noting_failure(partition: Partition) -> Generator[None]:
    """Tell a partition what its disk has rejected."""
    try:
        yield
    except StorageError as error:
        partition.note_failure(error)
        raise


def _batches(records: memoryview) -> Iterator[tuple[memoryview, BatchHeader, Marker | None]]:
    """Yield each whole batch with its header and its marker. Raises RecordError."""
    position = 0
    while position < len(records):
        try:
            header = batch.read_header(records, position)
            if position + header.size_bytes > len(records):
                return
            batch.check_crc(records, position, header)
        except TruncatedBatch:
            return
        view = records[position : position + header.size_bytes]
        yield view, header, marker_in(view) if header.is_control else None
        position += header.size_bytes


def truncation_offset(epochs: LeaderEpochs, log_end_offset: int, leader_epoch: int, leader_end_offset: int) -> int:
    """Return the offset to truncate to, where the leader's largest epoch at or below ours is `leader_epoch`.

    A fetch names the leader epoch of the follower's last record. Where the leader's log has another end of that epoch,
    the response names the largest epoch that the leader knows at or below it, and where that ended. The follower goes
    back to where both logs can agree, and fetches again: one round for each epoch that the leader does not know.
    (KIP-101, KIP-279)
    """
    epoch, end_offset = epochs.end_offset_for(leader_epoch, log_end_offset)
    if epoch == UNDEFINED:
        return min(leader_end_offset, log_end_offset)
    if epoch != leader_epoch:
        # This log does not know that epoch either: go back to the end of the one before, and ask again.
        return min(end_offset, log_end_offset)
    return min(end_offset, leader_end_offset, log_end_offset)
