"""The map of the last offsets: as a dict, in a memory with a bound."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.protocol.records.filter import Keys
from odradek.storage.compaction.offset_map import DICT_ENTRY_BYTES, ENTRY_BYTES, MIN_DICT_MEMORY_BYTES, OffsetMap

KEYS = st.binary(max_size=3)
# With a dict, and with the arrays alone.
MEMORY = st.sampled_from([MIN_DICT_MEMORY_BYTES, MIN_DICT_MEMORY_BYTES // 100])


def run_of(records: dict[int, bytes]) -> Keys:
    return Keys(list(records), list(records.values()), has_tombstone=False)


def put(told: OffsetMap, key: bytes, offset: int) -> bool:
    return told.put_all([run_of({offset: key})], offset)


@given(
    runs=st.lists(st.lists(KEYS, max_size=30), max_size=8),
    asked=st.lists(KEYS, max_size=40),
    first=st.integers(0, 1 << 40),
    memory=MEMORY,
)
def test_it_is_a_dict_of_the_last_offsets(runs: list[list[bytes]], asked: list[bytes], first: int, memory: int) -> None:
    puts = [key for run in runs for key in run]
    told, known = OffsetMap(memory, first, first + len(puts)), dict[bytes, int]()
    offset = first
    for run in runs:
        assert told.put_all([run_of(dict(enumerate(run, offset)))], offset + len(run) - 1)
        known |= {key: at for at, key in enumerate(run, offset)}
        offset += len(run)
    assert told.size == len(known)
    assert told.latest_offset == first + len(puts) - 1
    assert [told.get(key) for key in (*puts, *asked)] == [known.get(key, -1) for key in (*puts, *asked)]
    last = set(known.values())
    marks = told.marks_of(first, first + len(puts) - 1)
    assert marks is not None
    assert list(marks) == [offset in last for offset in range(first, first + len(puts))]


def test_nothing_is_lost_where_the_dict_is_packed() -> None:
    told, known = OffsetMap(MIN_DICT_MEMORY_BYTES, 0, 6_000), dict[bytes, int]()
    for first in range(0, 6_000, 100):
        run = {offset: b"%d" % (offset * 7_919 % 2_500) for offset in range(first, first + 100)}
        assert told.put_all([run_of(run)], first + 99)
        known |= {key: offset for offset, key in run.items()}
        assert {key: told.get(key) for key in known} == known
    assert told.size == len(known) > MIN_DICT_MEMORY_BYTES / 4 / DICT_ENTRY_BYTES
    last = set(known.values())
    assert told.marks_of(0, 5_999) == bytes(offset in last for offset in range(6_000))


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
    runs = [run_of({number: b"%d" % number for number in range(first, first + 10)}) for first in range(0, 1000, 10)]
    assert not told.put_all(runs, 999)
    assert told.latest_offset == told.max_keys - 1


@pytest.mark.parametrize("key_bytes", [10, 100, 3_000])
def test_it_takes_no_more_memory_than_it_is_given(key_bytes: int) -> None:
    tracemalloc.start()
    try:
        told = OffsetMap(1 << 20, 0, 10_000)
        for first in range(0, 10_000, 100):
            run = run_of({offset: b"%0*d" % (key_bytes, offset) for offset in range(first, first + 100)})
            assert told.put_all([run], first + 99)
            del run
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert told.size == 10_000
    # A run of keys comes from outside.
    assert peak_bytes < (1 << 20) + 2 * 100 * (key_bytes + DICT_ENTRY_BYTES)


def test_marks_are_not_kept_where_they_would_take_the_memory_of_the_keys() -> None:
    told = OffsetMap(1 << 20, 0, 1 << 40)
    assert put(told, b"k", 1)
    assert told.marks_of(0, 1) is None
    assert told.get(b"k") == 1


@pytest.mark.parametrize("offsets", [[5, 5], [5, 9], [6, 5]])
@pytest.mark.parametrize("at_once", [True, False])
def test_marks_are_given_up_where_records_do_not_lie_where_their_batch_says(offsets: list[int], at_once: bool) -> None:
    told = OffsetMap(1 << 20, 0, 100)
    one, two = offsets
    runs = [Keys([one], [b"a"], False), Keys([two], [b"b"], False)]
    assert told.put_all([Keys(offsets, [b"a", b"b"], False)] if at_once else runs, 8)
    assert told.marks_of(5, 8) is None
    assert (told.get(b"a"), told.get(b"b")) == (one, two)


def test_a_record_that_comes_twice_stays() -> None:
    told = OffsetMap(1 << 20, 0, 10)
    assert put(told, b"k", 5)
    assert put(told, b"k", 5)
    assert told.marks_of(5, 5) == b"\1"


def test_records_before_the_first_offset_are_left_out() -> None:
    told = OffsetMap(1 << 20, 5, 8)
    assert told.put_all([run_of({3: b"a", 4: b"b", 5: b"c", 6: b"a"})], 6)
    assert [told.get(key) for key in (b"a", b"b", b"c")] == [6, -1, 5]
    assert told.marks_of(5, 6) == b"\1\1"
