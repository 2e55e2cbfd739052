"""Streams for threads: iterators over disjoint partitions of one blocking consumer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Protocol

from ..consumer.streams import Stream as AsyncioStream
from ..record import ConsumerRecord

Work = Callable[[], Coroutine[Any, Any, ConsumerRecord[Any, Any] | None]]


class Calls(Protocol):
    """Carries out work on the loop; a result that the caller missed goes to `undo`."""

    def __call__(
        self, work: Work, undo: Callable[[ConsumerRecord[Any, Any] | None], object]
    ) -> ConsumerRecord[Any, Any] | None:
        """Return the result of `work`."""
        ...


class Stream(Iterator[ConsumerRecord[Any, Any]]):
    """Records of some partitions. One thread at a time may read it; it ends when the consumer stops."""

    def __init__(self, inner: AsyncioStream, call: Calls) -> None:
        self._inner = inner
        self._call = call
        # A record that an interrupted thread did not receive.
        self._missed: ConsumerRecord[Any, Any] | None = None

    def __next__(self) -> ConsumerRecord[Any, Any]:
        """Return the next record, and wait for it. The record before it then counts as processed."""
        record = self._call(self._take, self._keep)
        if record is None:
            raise StopIteration
        return record

    async def _take(self) -> ConsumerRecord[Any, Any] | None:
        missed, self._missed = self._missed, None
        if missed is not None:
            return missed
        try:
            return await self._inner.__anext__()
        except StopAsyncIteration:
            return None

    def _keep(self, record: ConsumerRecord[Any, Any] | None) -> None:
        self._missed = record
