"""Finding records: forward from a place, or back from one, until enough are found or enough were looked at.

Every partition is read in windows of offsets. A search holds the records that it found, at most `count` of each
partition and `MAX_HELD_BYTES` in all, and what the consumer has fetched ahead; never what it only looked at. Where it
ended stands in `Page.next`, so that another search goes on there, and none is left out or shown twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ...client import Consumer
from ...client.record import ConsumerRecord, TopicPartition

# What one page looks at. The next page goes on behind it.
MAX_LOOKED_AT = 1_000_000
MAX_SECONDS = 20.0
MAX_HELD_BYTES = 32 << 20
# Of the first and of the largest window back, in all partitions together: records may be large, or matches rare.
FIRST_WINDOW, LARGEST_WINDOW = 1_000, 50_000
# Options of a consumer that searches: it goes on with what is there where retention has taken what it looks for, and a
# fetch does not wait for records, because the search ends where they end. The next window would wait for it, too.
SEARCHER: Mapping[str, Any] = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 5}
# Of one poll.
_AT_A_TIME = 1_000
# A filter may take 20 ms for a large record: after so long others have their turn.
_TURN_S = 0.01
_POLL_MS = 250
# Of a record that is held, beside its key and its value.
_OVERHEAD_BYTES = 300
_FULL = f"{MAX_HELD_BYTES >> 20} MiB were found"

T = TypeVar("T")
Wanted = Callable[[ConsumerRecord], bool]
# Gets ready what is needed to look at records.
Prepare = Callable[[Iterable[ConsumerRecord]], Awaitable[None]]
Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Search:
    """What to look for. It looks at offsets from `begins` up to, not including, `ends`; backward from the ends."""

    begins: Offsets
    ends: Offsets
    count: int
    wanted: Wanted | None = None
    backward: bool = False
    prepare: Prepare | None = None
    max_looked_at: int = MAX_LOOKED_AT
    max_seconds: float = MAX_SECONDS
    # Whether nobody waits for it any more: it ends then, so that others can read.
    is_gone: Callable[[], bool] = lambda: False


@dataclass(slots=True)
class Page:
    """What a search found, in the order of time, and where the next one goes on. None: there is no more."""

    records: list[ConsumerRecord] = field(default_factory=list[ConsumerRecord])
    looked_at: int = 0
    next: dict[TopicPartition, int] | None = None
    # Why it ended before it had found enough; "" if it did not.
    ended_by: str = ""


async def find(consumer: Consumer, search: Search) -> Page:
    """Return a page of records. Raises KafkaError."""
    return await _Finder(consumer, search).page()


class _Finder:
    """One search. `_low` and `_high` are between which offsets each partition is still to be looked at."""

    def __init__(self, consumer: Consumer, search: Search) -> None:
        self._consumer = consumer
        self._search = search
        self._low = {each: begin for each, begin in search.begins.items() if begin < search.ends[each]}
        self._high = {each: search.ends[each] for each in self._low}
        self._found: dict[TopicPartition, deque[ConsumerRecord]] = {each: deque() for each in self._low}
        self._held_bytes = 0
        self._window = FIRST_WINDOW
        self._page = Page()
        self._deadline_s = asyncio.get_running_loop().time() + search.max_seconds

    async def page(self) -> Page:
        while not self._is_enough() and (windows := self._windows()):
            await self._look_at(windows)
        self._close()
        return self._page

    def _is_enough(self) -> bool:
        """Tell whether the search ends here: enough is found, or enough was looked at."""
        found = self._found.values()
        full = [len(each) >= self._search.count for each in found]
        if self._search.wanted is not None:
            # To read on for the exact order among partitions would take as long as the rarest match.
            full = [sum(map(len, found)) >= self._search.count]
        if not self._page.ended_by:
            self._page.ended_by = self._bound()
        return all(full) or bool(self._page.ended_by)

    def _bound(self) -> str:
        if self._page.looked_at >= self._search.max_looked_at:
            return f"{self._page.looked_at:,} records were looked at"
        if self._search.is_gone():
            return "the browser has gone"
        if asyncio.get_running_loop().time() > self._deadline_s:
            return f"{self._search.max_seconds:g} s are over"
        return _FULL if self._held_bytes > MAX_HELD_BYTES and not self._search.backward else ""

    def _windows(self) -> dict[TopicPartition, tuple[int, int]]:
        """Return the next offsets of each partition that is not full and not at its end."""
        open_ = [
            each
            for each, low in self._low.items()
            if low < self._high[each]
            and (self._search.wanted is not None or len(self._found[each]) < self._search.count)
        ]
        size = self._search.count if self._search.wanted is None else max(self._window // max(len(open_), 1), 1)
        self._window = min(2 * self._window, LARGEST_WINDOW)
        if self._search.backward:
            return {each: (max(self._low[each], self._high[each] - size), self._high[each]) for each in open_}
        if self._search.wanted is not None:
            return {each: (self._low[each], self._high[each]) for each in open_}
        return {each: (self._low[each], min(self._low[each] + size, self._high[each])) for each in open_}

    async def _look_at(self, windows: Mapping[TopicPartition, tuple[int, int]]) -> None:
        async with aclosing(_read(self._consumer, windows, self._search.prepare)) as chunks:
            if self._search.backward:
                await self._look_back(chunks, windows)
                return
            async for partition, records, position in chunks:
                await self._take(self._found[partition], records)
                self._low[partition] = position
                if self._is_enough():
                    return

    async def _look_back(self, chunks: _Chunks, windows: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Add what windows have in front of what is found. A window that was not read to its end counts for nothing."""
        older: dict[TopicPartition, deque[ConsumerRecord]] = {each: deque() for each in windows}
        async for partition, records, position in chunks:
            await self._take(older[partition], records)
            if position >= windows[partition][1]:
                self._high[partition] = windows[partition][0]
                self._found[partition].extendleft(reversed(older[partition]))
            if self._search.is_gone() or asyncio.get_running_loop().time() > self._deadline_s:
                return

    async def _take(self, found: deque[ConsumerRecord], records: list[ConsumerRecord]) -> None:
        self._page.looked_at += len(records)
        for record in await chosen(records, self._search.wanted):
            found.append(record)
            self._held_bytes += size_of(record)
            while self._search.backward and len(found) > 1 and self._is_too_much(found):
                # Newer ones are wanted more. The next page looks at this one again.
                self._held_bytes -= size_of(found.popleft())

    def _is_too_much(self, found: deque[ConsumerRecord]) -> bool:
        if self._held_bytes > MAX_HELD_BYTES:
            self._page.ended_by = _FULL
        return len(found) > self._search.count or self._held_bytes > MAX_HELD_BYTES

    def _close(self) -> None:
        """Choose the records that the page shows, and say where the next one begins."""
        ordered = sorted(
            (key, record) for each in self._found.values() for key, record in zip(_times(each), each, strict=True)
        )
        count = self._search.count
        shown = [record for _, record in (ordered[-count:] if self._search.backward else ordered[:count])]
        self._page.records = shown
        if len(shown) == count:
            self._page.ended_by = ""
        # Also of partitions in which nothing was left: another search must not begin with them again.
        following = dict(self._search.ends if self._search.backward else self._search.begins)
        following |= {each: self._following(each, shown) for each in self._low}
        left = any(
            at > self._search.begins[each] if self._search.backward else at < self._search.ends[each]
            for each, at in following.items()
        )
        self._page.next = following if left else None

    def _following(self, partition: TopicPartition, shown: list[ConsumerRecord]) -> int:
        """Return where the next page begins (backward: ends) in a partition."""
        offsets = [each.offset for each in shown if each.partition == partition.partition]
        found = self._found[partition]
        if self._search.backward:
            if offsets:
                return min(offsets)
            return found[-1].offset + 1 if found else self._high[partition]
        if len(offsets) < len(found):
            return offsets[-1] + 1 if offsets else found[0].offset
        return self._low[partition]


def size_of(record: ConsumerRecord) -> int:
    """Return the bytes that a record takes in memory, about."""
    return len(record.key or b"") + len(record.value or b"") + _OVERHEAD_BYTES


def _times(records: Iterable[ConsumerRecord]) -> Iterable[tuple[int, int, int]]:
    """Yield what records are ordered by: time, but never before an earlier record of the partition."""
    latest = -1
    for record in records:
        latest = max(latest, record.timestamp_ms)
        yield latest, record.partition, record.offset


_Chunks = AsyncGenerator[tuple[TopicPartition, list[ConsumerRecord], int]]


async def _read(
    consumer: Consumer, windows: Mapping[TopicPartition, tuple[int, int]], prepare: Prepare | None
) -> _Chunks:
    """Yield the records of windows as they come, each time with the offset up to which the partition is read."""
    consumer.assign(windows)
    # An earlier window has paused them, and a new assignment keeps that.
    consumer.resume(*windows)
    for partition, (begin, _) in windows.items():
        consumer.seek(partition, begin)
    left = dict(windows)
    while left:
        chunk = await consumer.getmany(timeout_ms=_POLL_MS, max_records=_AT_A_TIME)
        if prepare is not None:
            await prepare(record for records in chunk.values() for record in records)
        for partition, (_, end) in list(left.items()):
            records = chunk.get(partition, [])
            position = await consumer.position(partition)
            if position >= end:
                # What is behind the window was fetched, and is left for another one.
                records = [each for each in records if each.offset < end]
                position = end
                del left[partition]
                consumer.pause(partition)
            yield partition, records, position
        await asyncio.sleep(0)


async def stream(consumer: Consumer, search: Search) -> AsyncGenerator[list[ConsumerRecord]]:
    """Yield all records that a search wants, as they come, and without its bounds: for an export."""
    ends, wanted = search.ends, search.wanted
    windows = {each: (begin, ends[each]) for each, begin in search.begins.items() if begin < ends[each]}
    async for _, records, _ in _read(consumer, windows, search.prepare):
        yield await chosen(records, wanted)


async def chosen(records: list[ConsumerRecord], wanted: Wanted | None) -> list[ConsumerRecord]:
    """Return the wanted ones of some records, and let others have their turns meanwhile."""
    return records if wanted is None else [record async for record in in_turns(records) if wanted(record)]


async def in_turns(items: Iterable[T]) -> AsyncGenerator[T]:
    """Yield items, and let others have their turns where what is done with them takes long."""
    clock = asyncio.get_running_loop().time
    turn_ends_s = clock() + _TURN_S
    for each in items:
        yield each
        if clock() > turn_ends_s:
            await asyncio.sleep(0)
            turn_ends_s = clock() + _TURN_S
