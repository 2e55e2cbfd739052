"""What a live tail keeps of a burst, and of more than can be shown."""

from __future__ import annotations

from odradek.client import ConsumerRecord
from odradek.console.reading.tail import MAX_WAITING, MAX_WAITING_BYTES, SHOWN_AT_ONCE, Backlog, Tick


def records(count: int) -> list[ConsumerRecord]:
    return [ConsumerRecord("t", 0, offset, 0, 0, None, b"", ()) for offset in range(count)]


def drained(backlog: Backlog) -> list[Tick]:
    ticks: list[Tick] = []
    while not backlog.is_empty:
        ticks.append(backlog.take())
    return ticks


def test_a_burst_is_shown_whole_a_part_at_a_time() -> None:
    backlog = Backlog()
    backlog.add(records(MAX_WAITING))
    ticks = drained(backlog)
    assert [record.offset for tick in ticks for record in tick.records] == list(range(MAX_WAITING))
    assert max(len(tick.records) for tick in ticks) == SHOWN_AT_ONCE
    assert sum(tick.left_out for tick in ticks) == 0 and ticks[0].came == MAX_WAITING


def test_above_the_bound_it_samples_and_counts_what_it_leaves_out() -> None:
    backlog = Backlog()
    backlog.add(records(50_000))
    ticks = drained(backlog)
    shown = [record.offset for tick in ticks for record in tick.records]
    assert len(shown) + sum(tick.left_out for tick in ticks) == 50_000
    assert len(shown) <= MAX_WAITING and shown == sorted(shown) and shown[-1] == 49_999


def test_large_records_are_bounded_by_their_bytes_and_the_newest_stays() -> None:
    backlog, value = Backlog(), bytes(MAX_WAITING_BYTES // 10)
    backlog.add(record._replace(value=value) for record in records(100))
    ticks = drained(backlog)
    shown = [record.offset for tick in ticks for record in tick.records]
    assert len(shown) <= 10 and shown[-1] == 99
    assert len(shown) + sum(tick.left_out for tick in ticks) == 100
    backlog.add(record._replace(value=bytes(2 * MAX_WAITING_BYTES)) for record in records(1))
    assert len(backlog.take().records) == 1 and backlog.is_empty
