"""What a consumer sees of the batches that a fetch brought."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.client.consumer.fetched_batch import CompletedFetch
from odradek.client.errors import CorruptRecords
from odradek.client.record import TopicPartition
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.control import ControlType, Marker, encode_marker
from odradek.protocol.records.legacy import encode_message_set
from odradek.protocol.records.record import Record
from odradek.tests.support.brokers.compiled_kernel import records_by

TP = TopicPartition("t", 3)


def batch(base: int, count: int, *, producer_id: int = -1, transactional: bool = False) -> bytes:
    records = [Record(-1, 1000 + n, b"k", b"%d" % (base + n)) for n in range(count)]
    sequence = -1 if producer_id < 0 else 0
    return encode_batch(
        records,
        base_offset=base,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=sequence,
        transactional=transactional,
    )


def marker(offset: int, producer_id: int, kind: ControlType) -> bytes:
    return encode_marker(Marker(kind, 0), producer_id=producer_id, producer_epoch=0, timestamp_ms=0, base_offset=offset)


def fetch_of(data: bytes, start: int = 0, aborted: list[tuple[int, int]] | None = None) -> CompletedFetch:
    return CompletedFetch(TP, memoryview(data), start, aborted or [])


def offsets(fetch: CompletedFetch, limit: int = 1000) -> list[int]:
    found: list[int] = []
    while records := fetch.take(limit):
        assert len(records) <= limit
        found += [record.offset for record in records]
        assert fetch.position == found[-1] + 1
    return found


def test_records_carry_where_they_come_from() -> None:
    [record] = fetch_of(batch(7, 1)).take(10)
    assert record == ("t", 3, 7, 1000, 0, b"k", b"7", ())


def test_a_piece_that_begins_in_front_of_the_position_gives_nothing_from_there() -> None:
    fetch = fetch_of(batch(0, 5) + batch(5, 5), start=7)
    assert offsets(fetch) == [7, 8, 9]
    assert fetch.next_offset == 10


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch() -> None:
    fetch = fetch_of(batch(0, 2) + batch(2, 2)[:-1])
    assert (offsets(fetch), fetch.next_offset) == ([0, 1], 2)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(1, 8), st.integers(0, 10))
def test_whatever_is_taken_at_a_time_all_come_once_and_in_order(sizes: list[int], limit: int, start: int) -> None:
    bases = [sum(sizes[:n]) for n in range(len(sizes))]
    data = b"".join(batch(base, size) for base, size in zip(bases, sizes, strict=True))
    fetch = fetch_of(data, start)
    assert offsets(fetch, limit) == list(range(start, sum(sizes)))
    assert fetch.position == fetch.next_offset == max(start, sum(sizes))


def test_markers_are_passed_over_and_the_position_with_them() -> None:
    fetch = fetch_of(batch(0, 1) + marker(1, 9, ControlType.COMMIT))
    assert offsets(fetch) == [0]
    assert fetch.position == fetch.next_offset == 2


def test_aborted_transactions_are_dropped_up_to_their_marker() -> None:
    data = (
        batch(0, 2, producer_id=9, transactional=True)
        + batch(2, 1, producer_id=8, transactional=True)
        + batch(3, 1, producer_id=9)  # not of the transaction
        + marker(4, 9, ControlType.ABORT)
        + batch(5, 1, producer_id=9, transactional=True)
        + marker(6, 9, ControlType.COMMIT)
        + batch(7, 1, producer_id=9, transactional=True)
        + marker(8, 9, ControlType.ABORT)
        + marker(9, 8, ControlType.COMMIT)
    )
    assert offsets(fetch_of(data, aborted=[(9, 7), (9, 0)])) == [2, 3, 5]
    assert offsets(fetch_of(data)) == [0, 1, 2, 3, 5, 7], "read_uncommitted lists none"


def test_a_transaction_that_was_aborted_before_the_piece_begins_is_known_from_the_list() -> None:
    data = batch(10, 2, producer_id=9, transactional=True) + marker(12, 9, ControlType.ABORT) + batch(13, 1)
    assert offsets(fetch_of(data, start=11, aborted=[(9, 4)])) == [13]


def test_old_formats_are_read_too() -> None:
    records = [Record(offset, 5, None, b"%d" % offset) for offset in (3, 4, 6)]
    fetch = fetch_of(encode_message_set(records, magic=1), start=4)
    assert offsets(fetch, limit=1) == [4, 6]
    assert fetch.next_offset == 7


def test_a_damaged_batch_says_where_it_lies() -> None:
    data = bytearray(batch(0, 2) + batch(2, 2))
    data[-1] ^= 1
    for take in (lambda fetch: fetch.take(10), CompletedFetch.take_batch):
        fetch = fetch_of(bytes(data))
        assert len(fetch.take(10)) == 2
        with pytest.raises(CorruptRecords, match=r"t-3: what was fetched at offset 2 cannot be read.*CRC"):
            take(fetch)


def test_the_crc_can_be_left_unchecked() -> None:
    data = bytearray(batch(0, 1))
    data[17] ^= 1
    assert len(CompletedFetch(TP, memoryview(bytes(data)), 0, check_crcs=False).take(10)) == 1


def test_bytes_that_are_no_batch_are_refused_at_once() -> None:
    with pytest.raises(CorruptRecords):
        fetch_of(b"\xff" * 100)


def test_an_empty_piece_is_no_piece() -> None:
    assert offsets(fetch_of(b"", start=5)) == []


def test_whole_batches_come_as_they_are_without_markers_and_aborted_ones() -> None:
    first, aborted = batch(0, 3), batch(3, 2, producer_id=7, transactional=True)
    fetch = fetch_of(first + aborted + marker(5, 7, ControlType.ABORT) + batch(6, 1), aborted=[(7, 3)])
    whole = fetch.take_batch()
    assert whole is not None and bytes(whole.data) == first and whole.is_whole and fetch.position == 3
    last = fetch.take_batch()
    assert last is not None and last.values() == [b"6"] and fetch.position == 7
    assert fetch.take_batch() is None


def test_a_batch_from_its_middle_says_so() -> None:
    found = fetch_of(batch(10, 5), start=12).take_batch()
    assert found is not None and not found.is_whole
    assert [record.offset for record in found.records()] == [12, 13, 14]


def test_the_rest_of_a_batch_and_old_message_sets_come_as_batches() -> None:
    fetch = fetch_of(batch(0, 5))
    fetch.take(2)
    rest = fetch.take_batch()
    assert rest is not None and [record.offset for record in rest.records()] == [2, 3, 4]
    old = fetch_of(encode_message_set([Record(4, 9, b"k", b"v")], 1)).take_batch()
    assert old is not None and list(old.records()) == [Record(4, 9, b"k", b"v", ())]


def test_records_that_are_taken_and_dropped_rarely_start_the_garbage_collector() -> None:
    """A batch of a thousand tuples at once starts it each time."""
    fetches = [fetch_of(batch(0, 1000)) for _ in range(20)]
    gc.collect()
    before = gc.get_stats()[0]["collections"]
    with records_by("Python"):
        while fetches:
            fetch = fetches.pop()
            while fetch.take(500):
                pass
    assert gc.get_stats()[0]["collections"] - before < 10


def test_a_record_that_cannot_be_read_comes_up_behind_those_before_it() -> None:
    data = bytearray(batch(0, 1000))
    data[-1] = 9  # headers of the last record that are not there
    fetch = CompletedFetch(TP, memoryview(data), 0, check_crcs=False)
    assert len(fetch.take(600)) == 600
    for _ in range(2):
        with pytest.raises(CorruptRecords, match="offset 600"):
            fetch.take(600)
    assert fetch.position == 600


def test_what_is_left_of_a_batch_comes_as_a_batch_after_few_records_of_it() -> None:
    fetch = fetch_of(batch(10, 1000) + batch(1010, 3), start=20)
    assert [record.offset for record in fetch.take(5)] == [20, 21, 22, 23, 24]
    rest = fetch.take_batch()
    assert rest is not None and [record.offset for record in rest.records()] == list(range(25, 1010))
    assert fetch.position == 1010 and [record.offset for record in fetch.take(9)] == [1010, 1011, 1012]
