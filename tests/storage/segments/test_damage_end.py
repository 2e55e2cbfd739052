"""Where damage ends: at the next batch of the log, never at a batch that a record's value holds."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from odradek.protocol.records.batch import encode_batch, iter_headers
from odradek.protocol.records.record import Record
from odradek.storage.errors import CorruptBatch
from odradek.storage.files import DISK
from odradek.storage.integrity import verify
from odradek.storage.log import Log, LogConfig
from odradek.storage.segments.damage_end import next_sound
from odradek.storage.segments.names import segment_name
from odradek.tests.storage.batches import NEVER, append, batch
from odradek.tests.support.seeds import examples

COUNT = 6


@example(garbage=bytes(3), behind=bytes(7))
@given(garbage=st.binary(max_size=300), behind=st.binary(max_size=100))
@settings(max_examples=examples(100), deadline=None)
def test_the_next_sound_batch_is_found_behind_any_bytes(garbage: bytes, behind: bytes) -> None:
    sound = batch(70, size=3)
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"x" + garbage + sound + behind)
        file.flush()
        opened_file = DISK.open(Path(file.name), writable=False)
        start = 1 + len(garbage)
        end = start + len(sound) + len(behind)
        assert next_sound(DISK, opened_file, 0, end, 50) == start
        assert next_sound(DISK, opened_file, start, end, 50) == end
        assert next_sound(DISK, opened_file, 0, end, 71) == end


def test_a_sound_batch_is_found_across_the_windows_of_the_search(tmp_path: Path) -> None:
    sound = batch(0)
    for before in range((1 << 20) - len(sound) - 20, (1 << 20) + 20, 7):
        path = tmp_path / "x.log"
        path.write_bytes(random.Random(before).randbytes(before).replace(b"\x02", b"\0") + sound)
        file = DISK.open(path, writable=False)
        assert next_sound(DISK, file, 0, before + len(sound), 0) == before


# -- Batches in values -------------------------------------------------------------------------------------------------


def carrying(offset: int, first: int, count: int, place: str) -> bytes:
    """A batch at `offset` with a record that holds `count` batches from offset `first` on."""
    inner = b"".join(batch(first + n) for n in range(count))
    # As the last header's value, they end where the batch does.
    value, headers = (b"v", [("copy", inner)]) if place == "header" else (b"before" * (place == "value") + inner, [])
    return encode_batch(
        [Record(timestamp_ms=1000, value=value, headers=headers)], base_offset=offset, producer_id=-1, base_sequence=-1
    )


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[bytes], int]:
    """The batches of a log, most of which carry batches, and the number of one that does."""
    batches: list[bytes] = []
    for offset in range(COUNT):
        first = draw(st.integers(0, COUNT + 2))
        count = draw(st.integers(0, 4))
        place = draw(st.sampled_from(["value", "header", "whole value"]))
        batches.append(carrying(offset, first, count, place) if count else batch(offset))
    return batches, draw(st.integers(0, COUNT - 1))


@settings(max_examples=examples(250), deadline=None)
@given(log=logs(), data=st.data(), index=st.booleans())
def test_damage_ends_at_the_next_batch_of_the_log_and_never_inside_a_value(
    log: tuple[list[bytes], int], data: st.DataObject, index: bool
) -> None:
    batches, victim = log
    starts = [sum(map(len, batches[:n])) for n in range(COUNT + 1)]
    content = bytearray(b"".join(batches))
    bit = data.draw(st.integers(8 * 8, len(batches[victim]) * 8 - 1), label="bit")
    content[starts[victim] + bit // 8] ^= 1 << (bit % 8)
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        known = frozenset(starts[victim + 1 :: 2]) if index else frozenset[int]()
        opened_file = DISK.open(Path(file.name), writable=False)
        found = next_sound(DISK, opened_file, starts[victim], len(content), 0, known)
        assert found == starts[victim + 1]


@pytest.mark.parametrize("zeros", [(0, 61), (0, 300), (61, 200)])
@pytest.mark.parametrize("place", ["value", "whole value"])
def test_a_lost_header_makes_no_batch_of_a_value(tmp_path: Path, zeros: tuple[int, int], place: str) -> None:
    outer = carrying(1, 1, 12, place)
    content = bytearray(batch(0) + outer + batch(2) + batch(3))
    start, end = len(batch(0)), len(batch(0) + outer)
    content[start + zeros[0] : start + zeros[1]] = bytes(zeros[1] - zeros[0])
    path = tmp_path / "x.log"
    path.write_bytes(content)
    file = DISK.open(path, writable=False)
    assert next_sound(DISK, file, start, len(content), 0) == end
    # With other damage behind it, the index tells.
    path.write_bytes(content + b"\xff" * 99)
    file = DISK.open(path, writable=False)
    assert next_sound(DISK, file, start, len(content) + 99, 0, frozenset([len(content) - len(batch(3))])) == end


def test_two_damages_in_a_row_end_at_the_first_sound_batch(tmp_path: Path) -> None:
    batches = [carrying(n, n, 3, "value") for n in range(5)]
    content = bytearray(b"".join(batches))
    for n in (1, 2):
        content[sum(map(len, batches[:n])) + 70] ^= 1
    path = tmp_path / "x.log"
    path.write_bytes(content)
    file = DISK.open(path, writable=False)
    start = len(batches[0])
    assert next_sound(DISK, file, start, len(content), 0) == sum(map(len, batches[:3]))


@pytest.mark.parametrize("point", [COUNT, -1])
@pytest.mark.parametrize("field", [8, 16, 30])
def test_a_start_a_reader_and_verify_serve_no_batch_of_a_value(tmp_path: Path, point: int, field: int) -> None:
    config = LogConfig(index_interval_bytes=100)
    log = Log.open(tmp_path, config, clean=False, now_ms=1000)
    for n in range(COUNT):
        append(log, carrying(n, n, 2, "header"))
    log.close()
    path = tmp_path / f"{segment_name(0)}.log"
    content = bytearray(path.read_bytes())
    places = [position for position, _ in iter_headers(bytes(content))]
    content[places[2] + field : places[2] + field + 2] = b"\xff\xfe"
    path.write_bytes(content)
    (found,) = (each for each in verify(tmp_path, point) if each.path == path)
    assert (found.position, found.size) == (places[2], places[3] - places[2])
    log = Log.open(tmp_path, config, clean=False, now_ms=1000, recovery_point=point)
    assert log.log_end_offset == COUNT
    for offset in range(COUNT):
        try:
            data = log.read(offset, 1, NEVER).read()
        except CorruptBatch:
            assert offset == 2
        else:
            # A wrong CRC below the recovery point is found by the reader.
            assert data == bytes(content[places[offset] : places[offset] + len(data)])
    assert places[3] in {each.end for each in log.recovery.damages} or (point, field) == (COUNT, 30)
