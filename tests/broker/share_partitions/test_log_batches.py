"""The batches of a log that a share fetch may give: which of them belong to aborted transactions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from odradek.broker.share_partitions import log_batches
from odradek.storage.segments.transaction_index import AbortedTransaction
from odradek.tests.support.brokers.call_count import calls_of

RECORDS: Any = SimpleNamespace(position=0)


def header(offset: int, producer_id: int = -1, *, is_control: bool = False) -> Any:
    is_transactional = producer_id >= 0
    return SimpleNamespace(
        base_offset=offset,
        last_offset=offset,
        producer_id=producer_id,
        is_transactional=is_transactional,
        is_control=is_control,
        size_bytes=1,
    )


def aborted_of(headers: list[Any], aborted: list[AbortedTransaction]) -> list[int]:
    found = log_batches._walk(RECORDS, enumerate(headers), 10**6, aborted)
    return [span.first for span in found.spans if span.is_aborted]


def aborted(producer_id: int, first: int, last: int) -> AbortedTransaction:
    return AbortedTransaction(producer_id, first, last, 0)


def test_only_the_batches_of_aborted_transactions_are_aborted() -> None:
    headers = [header(0, 1), header(1, 2), header(2), header(3, 1, is_control=True), header(4, 1), header(5, 2)]
    headers += [header(6, 2, is_control=True), header(7, 1), header(8, 1, is_control=True)]
    # Producer 1 aborts its first and its third transaction, which lie around one of producer 2.
    assert aborted_of(headers, [aborted(1, 0, 3), aborted(2, 1, 6), aborted(1, 7, 8)]) == [0, 1, 5, 7]


def test_many_aborted_transactions_cost_no_more_than_their_number() -> None:
    def work(count: int) -> int:
        headers = [header(at, 1, is_control=bool(at % 2)) for at in range(2 * count)]
        ends = [aborted(1, at, at + 1) for at in range(0, 2 * count, 2)]
        return calls_of(lambda: aborted_of(headers, ends))

    assert work(400) < 3 * work(200)
