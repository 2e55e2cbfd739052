"""Old formats at the door: batches are rewritten, and message sets made of batches, beside the event loop.

What a Produce or Fetch request of an ordinary client carries never comes here. What does is worked on in a thread where
it is large (validation.is_large), and only a few pieces at a time: each may be decompressed while it is worked on, so
their number is what bounds the memory that old clients can ask for.

A fetch of version 0 to 3 is answered as any other first, with ranges of files; then each range is read and becomes a
message set of magic 0 (versions 0, 1) or 1. A range that holds nothing for such a client (transaction markers) would
keep it where it is for ever, so the next one is looked at until there is something or the end is reached.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.records.conversion import Converted, down_converted
from ...protocol.records.errors import RecordError
from .disk_reads import read

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.messages.fetch import FetchResponse, PartitionData
    from ...storage.files import FileRange
    from .fetch_sessions import Wanted
    from .partition import Partition

# Pieces that are worked on at once. One batch may be 128 MiB decompressed (MAX_DECOMPRESSED_BYTES) and as much again in
# its new form; more at once would not be faster, since all but the codecs holds the interpreter.
AT_ONCE = 2
# What is read of a file at a time for an old client: it becomes no more than its limit, whatever it asks for.
READ_BYTES = 1024 * 1024

Result = TypeVar("Result")
_log = logging.getLogger(__name__)


class Conversions:
    """Runs what takes long in threads, `AT_ONCE` at a time."""

    def __init__(self) -> None:
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def run(self, work: Callable[[], Result]) -> Result:
        """The result of `work`, which must not touch what the loop changes."""
        async with self._gate:
            return await asyncio.get_running_loop().run_in_executor(None, work)

    async def message_sets(
        self,
        response: FetchResponse | asyncio.Future[FetchResponse],
        version: int,
        wanted: list[Wanted],
        find: Callable[[Wanted], Partition | ErrorCode],
        max_bytes: int,
    ) -> FetchResponse:
        """A response to Fetch 0 to 3, its ranges of files made message sets of `max_bytes` together."""
        if isinstance(response, asyncio.Future):
            response = await response
        by_name = {(each.topic, each.partition): each for each in wanted}
        for topic in response.responses:
            for answer in topic.partitions:
                if answer.records:
                    each = by_name[topic.topic, answer.partition_index]
                    limit = min(each.max_bytes, max_bytes)
                    await self._convert(answer, each, find(each), 0 if version < 2 else 1, limit)
                    max_bytes = max(max_bytes - len(answer.records), 0)
        return response

    async def _convert(
        self, answer: PartitionData, each: Wanted, partition: Partition | ErrorCode, magic: int, limit: int
    ) -> None:
        source = cast("FileRange | None", answer.records)
        offset = each.fetch_offset
        answer.records = b""
        try:
            while source:
                found = await self.run(partial(_read, source, magic, offset, limit))
                answer.records = found.data
                if found.data or found.next_offset <= offset or isinstance(partition, ErrorCode):
                    return
                offset = found.next_offset
                source = await read(partition, offset, READ_BYTES, 0)
        except RecordError as error:
            answer.error_code = int(error.code)
            _log.error("%s-%d: no message set from offset %d on: %s", each.topic, each.partition, offset, error)
        except KafkaError as error:
            answer.error_code = int(error.code)
            _log.error("%s-%d: %s", each.topic, each.partition, error)


def _read(source: FileRange, magic: int, offset: int, max_bytes: int) -> Converted:
    return down_converted(source.read(), magic, offset, max_bytes)
