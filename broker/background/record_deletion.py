"""Record deletion: moves the start of a log (DeleteRecords) and drops the segments that lie wholly below it."""

from __future__ import annotations

import asyncio
import logging

from ...storage.errors import StorageError
from ..topics.partition import Partition
from .file_removal import FileRemoval

# To drop a segment takes a rename: a turn of the event loop takes a millisecond or two at most.
SEGMENTS_A_TURN = 16

_log = logging.getLogger(__name__)


class RecordDeletion:
    """Drops segments, a few a turn of the event loop, so that no client waits for it."""

    def __init__(self, file_removal: FileRemoval) -> None:
        self._file_removal = file_removal

    def delete_records(self, partition: Partition, offset: int) -> None:
        """Make `offset` the log start offset at once; drop the segments below it in this and the next turns.

        OffsetOutOfRange if it is past the end of the log, KAFKA_STORAGE_ERROR if the disk fails.
        """
        try:
            partition.log.advance_log_start(offset, SEGMENTS_A_TURN)
        except StorageError as error:
            partition.note_failure(error)
            raise
        finally:
            self._file_removal.remove_segments(partition)
        partition.note_log_start()
        self._drop_rest(partition)

    def drop_segments(self, partition: Partition) -> bool:
        """Drop a few segments that lie wholly below the log start offset; return whether there may be more."""
        log, before = partition.log, partition.log.size_bytes
        try:
            log.advance_log_start(log.log_start_offset, SEGMENTS_A_TURN)
        except StorageError as error:
            _log.error("segments of %s-%d could not be dropped: %s", partition.topic, partition.index, error.message)
            partition.note_failure(error)
            return False
        finally:
            self._file_removal.remove_segments(partition)
        return log.size_bytes < before

    def _drop_rest(self, partition: Partition) -> None:
        if partition.is_online and self.drop_segments(partition):
            asyncio.get_running_loop().call_soon(self._drop_rest, partition)
