"""The map of the last offsets: as a dict, in a memory with a bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from odradek.storage.compaction.offset_map import ENTRY_BYTES, OffsetMap

KEYS = st.binary(max_size=3)


@given(puts=st.lists(KEYS, max_size=120), asked=st.lists(KEYS, max_size=40))
def test_it_is_a_dict_of_the_last_offsets(puts: list[bytes], asked: list[bytes]) -> None:
    told, known = OffsetMap(1 << 20, len(puts)), {}
    for offset, key in enumerate(puts):
        assert told.put(key, offset)
        known[key] = offset
    assert told.size == len(known)
    assert [told.get(key) for key in (*puts, *asked)] == [known.get(key, -1) for key in (*puts, *asked)]


def test_a_full_one_takes_no_new_key_and_forgets_none() -> None:
    told = OffsetMap(200 * ENTRY_BYTES, 1_000_000)
    keys = [b"%d" % number for number in range(1000)]
    taken = [key for offset, key in enumerate(keys) if told.put(key, offset)]
    assert taken == keys[: told.max_keys]
    assert 140 < told.max_keys < 160
    # Later offsets of what it knows have a place all the same.
    assert all(told.put(key, 5000) for key in taken)
    assert [told.get(key) for key in keys] == [5000] * len(taken) + [-1] * (1000 - len(taken))


def test_it_takes_no_more_memory_than_its_keys_can_need() -> None:
    assert OffsetMap(1 << 30, 10).max_keys < 500
    for keys in (*range(1, 2000, 7), 123_457):
        assert keys <= OffsetMap(1 << 30, keys).max_keys < keys + 500
