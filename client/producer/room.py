"""Room in the buffer of a producer: callers wait for it, and whole batches are cut to fit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from ...protocol.records.values import MAX_VALUES
from .accumulator import RecordAccumulator

# What a short value without a key has around it.
_SHORT_OVERHEAD_BYTES = 8


class Room:
    """Waits until an accumulator has room. `look` raises if the producer has ended, and wakes its sender."""

    def __init__(self, accumulator: RecordAccumulator, max_block_ms: float, look: Callable[[], None]) -> None:
        self._accumulator = accumulator
        self._max_block_ms = max_block_ms
        self._look = look
        # Set when the accumulator has room again.
        self._released = asyncio.Event()
        accumulator.on_release = self._released.set

    async def wait(self, size_bytes: int) -> None:
        """Wait until a record of this size has room. Raises BufferFull after `max_block_ms`."""
        accumulator = self._accumulator
        if size_bytes > accumulator.buffer_memory:
            text = f"a record of {size_bytes} bytes is larger than buffer_memory ({accumulator.buffer_memory})"
            raise accumulator.full(text)
        try:
            async with asyncio.timeout(self._max_block_ms / 1000):
                while not accumulator.has_room(size_bytes):
                    self._look()
                    self._released.clear()
                    await self._released.wait()
        except TimeoutError:
            text = f"no room for a record within max_block_ms ({self._max_block_ms:g}): the brokers are slower than you"
            raise accumulator.full(text) from None

    async def end_turn(self, size_bytes: int) -> None:
        """Yield to the event loop, then wait until a record of this size has room."""
        await asyncio.sleep(0)
        if not self._accumulator.has_room(size_bytes):
            await self.wait(size_bytes)


def value_batches(values: Sequence[bytes], batch_size: int) -> Iterator[Sequence[bytes]]:
    """Cut values into parts that make a batch of about `batch_size` bytes, or of one larger value."""
    index, count = 0, 1024
    while index < len(values):
        part = values[index : index + count]
        while (size := sum(map(len, part)) + len(part) * _SHORT_OVERHEAD_BYTES) > batch_size and len(part) > 1:
            part = part[: max(1, min(len(part) * batch_size // size, len(part) - 1))]
        yield part
        index += len(part)
        count = min(max(1, len(part) * batch_size // size), MAX_VALUES)
