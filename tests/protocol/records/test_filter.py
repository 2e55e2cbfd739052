"""Batches with some of their records left out: what stays is what it was, offset for offset."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.kernel import door
from odradek.protocol.records.batch import BatchHeader, decode_batch, encode_batch, read_header
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.errors import InvalidRecord
from odradek.protocol.records.filter import (
    RECORDS_A_RUN,
    Selection,
    body_of,
    emptied,
    iter_keys,
    iter_parts,
    with_selection,
)
from odradek.protocol.records.record import Record
from odradek.tests.support.seeds import examples

NOW_MS = 1_700_000_000_000
SIZES = st.one_of(st.integers(0, 70), st.integers(120, 140), st.just(8200))
BYTES = SIZES.map(lambda size: b"x" * size)


@st.composite
def batches(draw: st.DrawFn) -> tuple[bytes, BatchHeader]:
    """Batches whose varints are of one, two and more bytes."""
    count = draw(st.integers(1, 12))
    offset, records = 6, []
    for _ in range(count):
        offset += draw(st.sampled_from([1, 1, 1, 90, 10_000]))
        late = draw(st.sampled_from([0, 1, 200, -5, 1 << 40]))
        key, value = draw(st.none() | BYTES), draw(st.none() | BYTES)
        headers = draw(st.sampled_from([(), (("h", b"1"),)]))
        records.append(Record(offset, NOW_MS + late, key, value, headers))
    data = encode_batch(records, base_offset=7, compression=draw(st.sampled_from(Compression)))
    return data, read_header(data)


@settings(max_examples=examples(150))
@given(batches(), st.data(), st.none() | st.integers(0, 2 * NOW_MS))
def test_any_batch(given_: tuple[bytes, BatchHeader], data: st.DataObject, horizon_ms: int | None) -> None:
    check_parts(*given_)
    chosen = sorted(data.draw(st.sets(st.integers(0, given_[1].record_count - 1), min_size=1)))
    check_kept_records(*given_, chosen, horizon_ms)
    check_emptied(given_[1])
    check_cut(*given_, data)


@pytest.mark.parametrize("is_compiled", [True, False])
def test_a_batch_of_several_runs_is_its_records(is_compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_compiled:
        monkeypatch.setattr(door, "compiled", None)
    records = [
        Record(7 + 2 * number, NOW_MS + number, b"%d" % number if number % 7 else None, b"v" if number % 5 else None)
        for number in range(2 * RECORDS_A_RUN + 500)
    ]
    data = encode_batch(records, base_offset=7)
    check_parts(data, read_header(data))


def check_parts(data: bytes, header: BatchHeader) -> None:
    """The parts of a batch are its records."""
    parts = list(iter_parts(body_of(memoryview(data), header), header))
    records = list(decode_batch(data))
    assert [(each.offset, each.timestamp_ms, each.key, each.has_value) for each in parts] == [
        (each.offset, each.timestamp_ms, each.key, each.value is not None) for each in records
    ]
    assert [each.start for each in parts] == [0, *(each.end for each in parts[:-1])]
    runs = list(iter_keys(body_of(memoryview(data), header), header))
    keyed = [each for each in records if each.key is not None]
    assert list(chain.from_iterable(each.offsets for each in runs)) == [each.offset for each in keyed]
    assert list(chain.from_iterable(each.keys for each in runs)) == [each.key for each in keyed]
    assert any(each.has_tombstone for each in runs) is any(each.value is None for each in keyed)


def check_kept_records(batch: bytes, header: BatchHeader, chosen: list[int], horizon_ms: int | None) -> None:
    """Those that are kept are unchanged."""
    body = body_of(memoryview(batch), header)
    parts = list(iter_parts(body, header))
    selection = Selection()
    for at in chosen:
        selection.add(parts[at])
    left = bytes(with_selection(header, body, selection, horizon_ms))
    whole = list(decode_batch(batch))
    assert selection.count == len(chosen)
    assert selection.has_tombstone is any(whole[at].value is None for at in chosen)
    assert list(decode_batch(left)) == [whole[at] for at in chosen]
    new = read_header(left)
    assert (new.base_offset, new.last_offset, new.compression) == (7, header.last_offset, header.compression)
    assert new.has_delete_horizon is (horizon_ms is not None)
    assert new.max_timestamp == max(whole[at].timestamp_ms for at in chosen)


def check_emptied(header: BatchHeader) -> None:
    """An emptied batch still tells its offsets."""
    left = bytes(emptied(header))
    new = read_header(left)
    assert list(decode_batch(left)) == []
    assert (new.base_offset, new.last_offset, new.base_sequence) == (7, header.last_offset, header.base_sequence)


def check_cut(batch: bytes, header: BatchHeader, data: st.DataObject) -> None:
    """A body that is cut, or does not fit, is refused."""
    body = body_of(memoryview(batch), header)
    cut = data.draw(st.integers(0, len(body) - 1))
    for wrong in (body[:cut], body + b"\0"):
        with pytest.raises(InvalidRecord):
            list(iter_parts(wrong, header))
        with pytest.raises(InvalidRecord):
            list(iter_keys(wrong, header))


@pytest.mark.parametrize("varint", [b"\xff" * 10 + b"\x01", b"\xff" * 20])
def test_a_varint_without_an_end_is_refused(varint: bytes) -> None:
    header = read_header(encode_batch([Record(0, NOW_MS, b"k", b"v")]))
    with pytest.raises(InvalidRecord):
        list(iter_parts(varint, header))
    with pytest.raises(InvalidRecord):
        list(iter_keys(varint, header))
