"""Prints the records of `odradek consume` on standard output, without blocking the event loop, and watches its reader.

A slow reader must not stop the heartbeats of a group. A reader that has closed its pipe must end the command even if no
record ever comes again. The printer knows which records its reader got.

Promise: what is written ends with a whole line, if lines have no more than 4 KiB, and nothing follows a write that was
given up.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from ..protocol.errors import DecodeError
from .errors import CliError
from .offset_range import Bounds
from .record_format import LineFormat

if TYPE_CHECKING:
    from ..client import ConsumerRecord, FetchedBatch, TopicPartition

# POSIX promises that a pipe which polls as writable takes this many bytes without blocking.
_PIPE_BYTES = select.PIPE_BUF
_FILE_BYTES = 1 << 20
# Behind so many lines a program that wanted a few has gone.
_LINES_IN_STEP = 1024
# How long to wait before looking again whether the reader has taken all: at first, and at most.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.0005, 0.05


class RecordOutput:
    """Writes bytes to a descriptor. `stop` is set when the reader of a pipe goes away; a write that waits gives up."""

    def __init__(self, fd: int, stop: asyncio.Event) -> None:
        kind = os.fstat(fd).st_mode
        self.is_pipe = stat.S_ISFIFO(kind)
        self.is_file = stat.S_ISREG(kind)
        self._fd = fd
        self._stop = stop
        self._has_ended = False
        self._reader_has_gone = False
        self._written = 0
        self._lines_in_step = 0
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        if self.is_pipe:
            # The write end of a pipe is never readable: the callback means that the reader has gone.
            asyncio.get_running_loop().add_reader(fd, self._close)

    async def write(self, data: bytes) -> None:
        """Write all of `data`, or give up at the end of a line when `stop` is set while the reader keeps us waiting."""
        start = 0
        while start < len(data) and not self._has_ended:
            if not await self._writable():
                self._has_ended = True
                return
            end = self._end_of_chunk(data, start)
            try:
                count = os.write(self._fd, memoryview(data)[start:end])
            except BrokenPipeError:
                self._close()
                return
            self._written += count
            start += count

    async def write_in_step(self, lines: list[bytes]) -> None:
        """Write lines. The first ones go into a pipe when its reader has taken all before: 1, 1, 2, 4, ... at a time.

        Programs take as much as there is. So `head -2` takes 2 lines, not the 1,000 that fit in what it reads at once.
        """
        while self.is_pipe and lines and self._lines_in_step < _LINES_IN_STEP and not self._has_ended:
            await self._until_all_is_taken()
            count = min(max(1, self._lines_in_step), len(lines))
            await self.write(b"".join(lines[:count]))
            self._lines_in_step += count
            lines = lines[count:]
        await self.write(b"".join(lines))

    def delivered_bytes(self) -> int:
        """Return how many bytes were written, without those that a reader left in its pipe when it went away."""
        return self.taken_bytes() if self._reader_has_gone else self._written

    def taken_bytes(self) -> int:
        """Return how many of the written bytes the reader of the pipe has taken out."""
        if not self.is_pipe:
            return self._written
        import fcntl
        import termios

        unread = array("i", [0])
        fcntl.ioctl(self._fd, termios.FIONREAD, unread)
        return self._written - unread[0]

    async def _until_all_is_taken(self) -> None:
        """Wait until the pipe is empty, or `stop` is set. No event says so: it looks again, ever less often."""
        pause_s = _FIRST_PAUSE_S
        while self.taken_bytes() < self._written and not self._stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _end_of_chunk(self, data: bytes, start: int) -> int:
        """Return where to cut what is written at once: behind a line, where one ends within the chunk."""
        if self.is_file:
            return start + _FILE_BYTES
        end = start + _PIPE_BYTES
        return end if end >= len(data) else data.rfind(b"\n", start, end) + 1 or end

    async def _writable(self) -> bool:
        """Wait until a write does not block. Return False if `stop` is set first."""
        if self.is_file or self._poll.poll(0):
            return True
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_writer(self._fd, ready.set)
        waits = [asyncio.ensure_future(ready.wait()), asyncio.ensure_future(self._stop.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_writer(self._fd)
            for each in waits:
                each.cancel()
        return ready.is_set()

    def _close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        self._has_ended = self._reader_has_gone = True
        self._stop.set()


class RecordPrinter:
    """Writes records within their bounds to an output. With `tracks`, it knows what the output's reader got."""

    def __init__(
        self, line: LineFormat, bounds: Mapping[TopicPartition, Bounds], output: RecordOutput, tracks: bool
    ) -> None:
        self.count = 0
        self._line = line
        self._bounds = bounds
        self._output = output
        self._tracks = tracks and not output.is_file
        self._end = 0
        # Where the line of each record ends in the output, for records whose lines the reader may not have got yet.
        self._pending: deque[tuple[int, TopicPartition, int]] = deque()

    @property
    def takes_batches(self) -> bool:
        """Whether `print_batches` does: it prints values and nothing else."""
        return self._line.null_value is not None and not self._tracks

    async def print(self, partition: TopicPartition, records: list[ConsumerRecord]) -> None:
        """Print records."""
        bounds = self._bounds.get(partition)
        if bounds is not None:
            records = [each for each in records if _is_within(bounds, each.offset)]
        lines = [self._line.of(record) for record in records]
        self.count += len(lines)
        if not self._tracks:
            return await self._output.write(b"".join(lines))
        taken = self._output.taken_bytes()
        while self._pending and self._pending[0][0] <= taken:
            self._pending.popleft()
        for record, line in zip(records, lines, strict=True):
            self._end += len(line)
            self._pending.append((self._end, partition, record.offset))
        await self._output.write_in_step(lines)

    async def print_batches(self, partition: TopicPartition, batches: Sequence[FetchedBatch]) -> None:
        """Print the values of whole batches, without a step of Python for each."""
        null = self._line.null_value
        assert null is not None
        for batch in batches:
            values = self._values(batch, self._bounds.get(partition))
            if values:
                self.count += len(values)
                shown = [null if value is None else value for value in values] if None in values else values
                await self._output.write(b"%b\n" % b"\n".join(cast("list[bytes]", shown)))

    def _values(self, batch: FetchedBatch, bounds: Bounds | None) -> list[bytes | None]:
        first, last = batch.header.base_offset, batch.header.last_offset
        try:
            if batch.is_whole and (bounds is None or (_is_within(bounds, first) and _is_within(bounds, last))):
                return batch.values()
            return [each.value for each in batch.records() if bounds is None or _is_within(bounds, each.offset)]
        except DecodeError as error:
            where = f"{batch.partition.topic}-{batch.partition.partition}"
            raise CliError(f"{where}: the batch at offset {first} cannot be read: {error}") from error

    def first_not_delivered(self) -> dict[TopicPartition, int]:
        """Return the first offset in each partition whose line was not written, or that its reader left in the pipe."""
        delivered = self._output.delivered_bytes()
        return {each: offset for end, each, offset in reversed(self._pending) if end > delivered}


def _is_within(bounds: Bounds, offset: int) -> bool:
    return offset >= bounds.first and (bounds.end is None or offset < bounds.end)
