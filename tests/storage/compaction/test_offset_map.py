"""The map of the last offsets: as a dict, in a memory with a bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.storage.compaction.offset_map import ENTRY_BYTES, OffsetMap

KEYS = st.binary(max_size=3)


def put(told: OffsetMap, key: bytes, offset: int, last_offset: int | None = None) -> bool:
    return told.put_all([(offset, key, True)], offset if last_offset is None else last_offset)


@given(puts=st.lists(KEYS, max_size=120), asked=st.lists(KEYS, max_size=40), first=st.integers(0, 1 << 40))
def test_it_is_a_dict_of_the_last_offsets(puts: list[bytes], asked: list[bytes], first: int) -> None:
    told, known = OffsetMap(1 << 20, first, first + len(puts)), {}
    for offset, key in enumerate(puts, first):
        assert put(told, key, offset)
        known[key] = offset
    assert told.size == len(known)
    assert told.latest_offset == first + len(puts) - 1
    assert [told.get(key) for key in (*puts, *asked)] == [known.get(key, -1) for key in (*puts, *asked)]
    last = set(known.values())
    marks = told.marks_of(first, first + len(puts) - 1)
    assert marks is not None
    assert list(marks) == [offset in last for offset in range(first, first + len(puts))]


def test_a_full_one_takes_no_new_key_and_forgets_none() -> None:
    told = OffsetMap(200 * ENTRY_BYTES, 0, 1_000_000)
    keys = [b"%d" % number for number in range(1000)]
    taken = [key for offset, key in enumerate(keys) if put(told, key, offset)]
    assert taken == keys[: told.max_keys]
    assert 140 < told.max_keys < 160
    # Later offsets of what it knows have a place all the same.
    assert all(put(told, key, 5000) for key in taken)
    assert [told.get(key) for key in keys] == [5000] * len(taken) + [-1] * (1000 - len(taken))


def test_it_takes_no_more_memory_than_its_keys_can_need() -> None:
    assert OffsetMap(1 << 30, 0, 10).max_keys < 500
    for keys in (*range(1, 2000, 7), 123_457):
        assert keys <= OffsetMap(1 << 30, 0, keys).max_keys < keys + 500


def test_it_covers_a_batch_up_to_the_first_record_without_a_place() -> None:
    told = OffsetMap(200 * ENTRY_BYTES, 0, 1_000_000)
    records = [(number, b"%d" % number, True) for number in range(1000)]
    assert not told.put_all(records, 999)
    assert told.latest_offset == told.max_keys - 1


def test_marks_are_not_kept_where_they_would_take_the_memory_of_the_keys() -> None:
    told = OffsetMap(1 << 20, 0, 1 << 40)
    assert put(told, b"k", 1)
    assert told.marks_of(0, 1) is None
    assert told.get(b"k") == 1


@pytest.mark.parametrize("records", [[(5, b"a", True), (5, b"b", True)], [(5, b"a", True), (9, b"b", True)]])
def test_marks_are_given_up_where_records_do_not_lie_where_their_batch_says(
    records: list[tuple[int, bytes, bool]],
) -> None:
    told = OffsetMap(1 << 20, 0, 100)
    assert told.put_all(records, 8)
    assert told.marks_of(5, 8) is None
    assert (told.get(b"a"), told.get(b"b")) == (5, records[1][0])
