"""Conversion for clients before Kafka 0.11, and the threads in which large batches are rewritten.

The Produce and Fetch requests of today's clients on ordinary topics never come here. A thread works on what is large
(validation.is_large), and only on a few pieces at a time: each may be decompressed meanwhile, so their number bounds
the memory that old clients can cost.

A fetch of version 0 to 3 is answered as any other first, with ranges of files. Then each range is read and becomes a
message set of magic 0 (versions 0, 1) or 1. A range that holds nothing for such a client, such as transaction markers,
would keep it at the same offset for ever. So the following ranges are read until there is something, or the log ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.fetch import PartitionData
from ...protocol.records.conversion import Converted, down_converted
from ...protocol.records.errors import RecordError
from ...storage.errors import CorruptBatch, DiskError, is_unreadable
from ...storage.files import FileRange
from ..threads import DiskThreads, Work
from .disk_reads import note_unreadable, read
from .fetch_sessions import FetchedPartition
from .partition import Partition
from .partition_state import READ_UNCOMMITTED

# Batches that are rewritten at the same time. One may have 128 MiB decompressed (MAX_DECOMPRESSED_BYTES) and as much
# again in its new form. More would not be faster, because everything but the codecs holds Python's lock.
AT_ONCE = 2
# Read from a file at a time for an old client.
READ_BYTES = 1024 * 1024
# Conversions keep a processor busy, not a disk.
_NO_DIRECTORY = Path()

Result = TypeVar("Result")
_log = logging.getLogger(__name__)


class Conversions:
    """Runs long work in threads, `AT_ONCE` at a time."""

    def __init__(self, threads: DiskThreads) -> None:
        self._threads = threads
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def run(self, work: Callable[[], Result]) -> Result:
        """Return the result of `work`, which must not touch what the event loop changes."""
        async with self._gate:
            return await self._threads.run(Work.CONVERSION, _NO_DIRECTORY, work)

    async def convert_fetched(
        self, results: Sequence[tuple[FetchedPartition, Partition, PartitionData]], version: int, max_bytes: int
    ) -> None:
        """Replace the ranges of files in the response to a Fetch 0 to 3 by message sets of `max_bytes` together."""
        magic = 0 if version < 2 else 1
        for fetched, partition, data in results:
            if data.records:
                await self._convert(fetched, partition, data, magic, min(fetched.max_bytes, max_bytes))
                max_bytes = max(max_bytes - len(data.records), 0)

    async def _convert(
        self, fetched: FetchedPartition, partition: Partition, data: PartitionData, magic: int, limit: int
    ) -> None:
        source = cast("FileRange | None", data.records)
        offset = fetched.fetch_offset
        data.records = b""
        try:
            while source:
                found = await self.run(partial(_convert_range, source, magic, offset, limit))
                data.records = found.data
                if found.data or found.next_offset <= offset:
                    return
                offset = found.next_offset
                source = await read(partition, offset, READ_BYTES, READ_UNCOMMITTED, self._threads)
        except RecordError as error:
            data.error_code = int(error.code)
            place = f"{fetched.topic}-{fetched.partition}"
            _log.error("%s: offset %d cannot be converted to a message set: %s", place, offset, error)
        except KafkaError as error:
            data.error_code = int(error.code)
            if isinstance(error, DiskError) and is_unreadable(error):
                data.error_code = int(ErrorCode.CORRUPT_MESSAGE)
                await note_unreadable(partition, error, self._threads)
            elif not isinstance(error, CorruptBatch):
                # `read` has reported damage, once.
                _log.error("%s-%d: %s", fetched.topic, fetched.partition, error)


def _convert_range(source: FileRange, magic: int, offset: int, max_bytes: int) -> Converted:
    return down_converted(source.read(), magic, offset, max_bytes)
