"""Compaction against a plain dict: a reader of a cleaned log learns from any offset on what it would have learned."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from odradek.protocol.records.batch import decode_batch, encode_batch, read_header, with_body
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.control import ControlType, Marker, encode_marker
from odradek.protocol.records.filter import body_of
from odradek.protocol.records.record import Record
from odradek.storage.compaction.compaction import Compaction
from odradek.storage.compaction.plan import cleanable, job_of
from odradek.storage.errors import CorruptBatch, StaleView
from odradek.storage.log import Log, LogConfig
from odradek.storage.segments.transaction_index import AbortedTransaction
from odradek.tests.storage.batches import flip, max_timestamp, roll
from odradek.tests.storage.cleaning import RULES, clean
from odradek.tests.support.brokers.python_calls import Calls
from odradek.tests.support.disks.disk import FaultyDisk

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100, segment_ms=2**60)


@dataclass
class Seen:
    """A record as a consumer of committed records sees it."""

    offset: int
    key: bytes | None
    value: bytes | None


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log.open(tmp_path / "t-0", CONFIG, clean=True, now_ms=0)
    yield log
    log.close()


def put(
    log: Log,
    *pairs: tuple[bytes | None, bytes | None],
    compression: Compression = Compression.NONE,
    first_ms: int = 1000,
    **rest: int,
) -> None:
    records = [Record(-1, first_ms + at, key, value) for at, (key, value) in enumerate(pairs)]
    data = encode_batch(records, base_offset=log.log_end_offset, compression=compression, **rest)
    log.append(data, read_header(data), 0)


def put_transactional(log: Log, producer_id: int, sequence: int, *pairs: tuple[bytes, bytes | None]) -> None:
    put(log, *pairs, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)


def end(log: Log, producer_id: int, kind: ControlType) -> None:
    marker = Marker(kind, 0)
    data = encode_marker(
        marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=1000, base_offset=log.log_end_offset
    )
    log.append(data, read_header(data), 0, marker)


def committed(log: Log) -> list[Seen]:
    """What a read_committed consumer is handed from the start on."""
    end = log.log_end_offset
    aborted = [entry for segment in log.segments for entry in segment.aborted.entries()]
    found: list[Seen] = []
    for header, data in log.iter_batches(log.log_start_offset):
        gone = any(
            each.producer_id == header.producer_id and each.first_offset <= header.base_offset <= each.last_offset
            for each in aborted
        )
        if header.is_control or (header.is_transactional and gone):
            continue
        found += [Seen(each.offset, each.key, each.value) for each in decode_batch(data)]
    assert all(each.offset < end for each in found)
    return found


def test_only_the_last_value_of_a_key_stays_and_segments_become_one(log: Log) -> None:
    for number in range(40):
        put(log, (b"k%d" % (number % 3), b"v%d" % number))
    assert len(log.segments) > 3
    before = len(log.segments)
    up_to = clean(log)
    assert up_to == log.segments[-1].base_offset
    put(log, (b"later", b"v"))
    roll(log, 0)
    clean(log, up_to)
    assert len(log.segments) < before
    assert len(committed(log)) == 4


def test_a_tombstone_stays_until_its_horizon(log: Log) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", None), (b"b", b"1"))
    roll(log, 0)
    up_to = clean(log, now_ms=10_000)
    assert [(each.key, each.value) for each in committed(log)] == [(b"a", None), (b"b", b"1")]
    (header, _) = next(log.iter_batches(0))
    assert (header.has_delete_horizon, header.base_timestamp) == (True, 11_000)
    assert [record.timestamp_ms for _, data in log.iter_batches(0) for record in decode_batch(data)] == [1000, 1001]
    put(log, (b"c", b"1"))
    roll(log, 0)
    up_to = clean(log, up_to, now_ms=10_999)
    assert (b"a", None) in [(each.key, each.value) for each in committed(log)]
    put(log, (b"d", b"1"))
    roll(log, 0)
    clean(log, up_to, now_ms=11_000)
    assert [each.key for each in committed(log)] == [b"b", b"c", b"d"]


def test_aborted_records_go_and_their_marker_follows_after_two_cleanings(log: Log) -> None:
    put_transactional(log, 7, 0, (b"a", b"aborted"))
    end(log, 7, ControlType.ABORT)
    put_transactional(log, 7, 1, (b"a", b"committed"))
    end(log, 7, ControlType.COMMIT)
    put(log, (b"z", b"1"))

    def controls() -> list[int]:
        return [header.base_offset for header, _ in log.iter_batches(0) if header.is_control and header.record_count]

    up_to: int | None = None
    seen: list[list[int]] = []
    for now_ms in (0, 0, 5000):
        roll(log, 0)
        up_to = clean(log, up_to, now_ms=now_ms)
        seen.append(controls())
        put(log, (b"z", b"2"))
    assert seen == [[1, 3], [1, 3], [3]]
    assert [each.value for each in committed(log) if each.key == b"a"] == [b"committed"]


def test_an_abort_in_the_clean_part_leaves_out_no_later_record_of_its_producer(log: Log) -> None:
    put_transactional(log, 7, 0, (b"k", b"1"))
    end(log, 7, ControlType.COMMIT)
    put_transactional(log, 7, 1, (b"other", b"aborted"))
    end(log, 7, ControlType.ABORT)
    roll(log, 0)
    up_to = clean(log)
    put_transactional(log, 7, 2, (b"k", None))
    end(log, 7, ControlType.COMMIT)
    roll(log, 0)
    up_to = clean(log, up_to)
    assert [(each.key, each.value) for each in committed(log)] == [(b"k", None)]
    put(log, (b"z", b"1"))
    roll(log, 0)
    clean(log, up_to, now_ms=RULES["delete_retention_ms"])
    assert [each.key for each in committed(log)] == [b"z"]


def test_an_abort_stays_in_the_index_of_its_own_segment(log: Log) -> None:
    put_transactional(log, 7, 0, (b"a", b"aborted"))
    end(log, 7, ControlType.ABORT)
    roll(log, 0)
    up_to = clean(log)
    # What is left of the first segment does not change in the second cleaning; the second segment does.
    for number in range(20):
        put(log, (b"k", b"%d" % number * 10))
    roll(log, 0)
    clean(log, up_to)
    entries = [
        (segment.base_offset, entry.last_offset) for segment in log.segments for entry in segment.aborted.entries()
    ]
    assert entries == [(0, 1)]


def test_an_entry_that_outlived_its_marker_hides_nothing_and_goes(log: Log) -> None:
    """Older versions of the cleaner have left such entries."""
    put(log, (b"a", b"1"))
    put(log, (b"b", b"1"))
    roll(log, 0)
    put_transactional(log, 7, 0, (b"k", b"1"))
    end(log, 7, ControlType.COMMIT)
    put_transactional(log, 7, 1, (b"l", b"1"))
    roll(log, 0)
    log.segments[1].aborted.append(AbortedTransaction(7, 0, 1, 2))
    end(log, 7, ControlType.COMMIT)
    roll(log, 0)
    clean(log)
    assert [each.key for each in committed(log)] == [b"a", b"b", b"k", b"l"]
    assert [len(segment.aborted) for segment in log.segments] == [0] * len(log.segments)


def test_the_time_of_a_tombstone_begins_when_no_older_value_is_left(log: Log) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", b"2"), (b"c", b"1"), (b"b", None))
    roll(log, 0)
    # The map has room for two keys. The first cleaning ends inside the second batch, before its tombstone.
    up_to = clean(log, buffer_bytes=24 * 4, now_ms=0)
    assert up_to == 3
    # A reader may be between the two batches now, and know the old value.
    up_to = clean(log, up_to, now_ms=RULES["delete_retention_ms"])
    assert [(each.key, each.value) for each in committed(log)] == [(b"a", b"2"), (b"c", b"1"), (b"b", None)]
    clean(log, up_to, now_ms=2 * RULES["delete_retention_ms"])
    assert [each.key for each in committed(log)] == [b"a", b"c"]


def test_a_cleaning_relies_only_on_records_that_are_on_disk(tmp_path: Path) -> None:
    """A power cut must not take the record because of which a cleaning has removed an older one."""
    disk = FaultyDisk()
    log = Log.open(tmp_path / "t-0", CONFIG, clean=True, now_ms=0, disk=disk)
    put(log, (b"k", b"1"))
    log.flush()
    put(log, (b"k", b"2"))
    roll(log, 0)
    found = cleanable(log, None, log.log_end_offset, 0)
    with pytest.raises(AssertionError, match="power cut"):
        job_of(log, found, 0, 1 << 20)
    clean(log, disk=disk)
    disk.lose(seed=0)
    log = Log.open(tmp_path / "t-0", CONFIG, clean=False, now_ms=0, disk=disk)
    assert [each.value for each in committed(log)] == [b"2"]


def test_the_last_batch_of_a_producer_stays_as_an_empty_one(log: Log) -> None:
    put(log, (b"a", b"1"), producer_id=5, producer_epoch=0, base_sequence=0)
    put(log, (b"a", b"2"))
    put(log, (b"b", b"2"))
    roll(log, 0)
    clean(log)
    first, _ = next(log.iter_batches(0))
    assert (first.producer_id, first.last_sequence, first.record_count) == (5, 0, 0)


def test_keys_that_do_not_fit_are_left_for_the_next_cleaning(log: Log) -> None:
    for number in range(150):
        put(log, (b"key-%d" % number, b"1"))
    for number in range(150):
        put(log, (b"key-%d" % number, b"2"))
    roll(log, 0)
    reached = clean(log, buffer_bytes=24 * 128)
    assert 0 < reached < 150
    passes = 1
    while reached < log.log_end_offset:
        reached, before = clean(log, reached, buffer_bytes=24 * 128), reached
        assert reached > before
        passes += 1
    assert passes > 2
    assert {each.key: each.value for each in committed(log)} == {b"key-%d" % number: b"2" for number in range(150)}
    assert len(committed(log)) == 150


def test_a_damaged_batch_stops_a_cleaning_and_nothing_changes(log: Log) -> None:
    for number in range(30):
        put(log, (b"k", b"%d" % number))
    flip(log.segments[1].path(".log"))
    names = sorted(each.name for each in log.directory.iterdir())
    with pytest.raises(CorruptBatch):
        clean(log)
    assert sorted(each.name for each in log.directory.iterdir()) == names


def test_a_compressed_record_that_is_too_large_stops_a_cleaning(log: Log) -> None:
    for number in range(30):
        put(log, (b"k", bytes(200)), (b"k", b"%d" % number), compression=Compression.GZIP)
    log.config.max_decompressed_message_bytes = 100
    with pytest.raises(CorruptBatch, match="100 is the most"):
        clean(log)
    log.config.max_decompressed_message_bytes = 300
    assert clean(log)


def test_a_second_cleaning_of_the_same_writes_nothing(log: Log) -> None:
    for number in range(40):
        put(log, (b"k%d" % number, b"v"))
    clean(log)
    found = cleanable(log, None, log.log_end_offset, 0)
    log.flush()
    groups = list(Compaction(job_of(log, found, 0, 1 << 20)).run())
    assert all(group.size == -1 for group in groups if group.sources == 1)


def test_young_records_stay_dirty_and_a_partition_that_waits_too_long_is_due(log: Log) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    roll(log, 0)
    log.config = replace(CONFIG, min_compaction_lag_ms=1000)
    assert cleanable(log, None, log.log_end_offset, 1500).segments == ()
    assert len(cleanable(log, None, log.log_end_offset, 2500).segments) == 1
    log.config = replace(CONFIG, min_cleanable_dirty_ratio=1, max_compaction_lag_ms=500)
    assert not cleanable(log, None, log.log_end_offset, 1200).is_due(log.config)
    assert cleanable(log, None, log.log_end_offset, 1600).is_due(log.config)


def test_readers_keep_what_they_hold(log: Log) -> None:
    for number in range(40):
        put(log, (b"k", b"%d" % number))
    fetched = log.read(0, 1 << 20, log.log_end_offset)
    batches = log.iter_batches(0)
    first = next(batches)
    clean(log)
    assert read_header(fetched.read()) == first[0]
    assert len(list(batches)) == 39


def test_a_view_from_before_a_cleaning_does_not_read_the_cleaned_files(log: Log) -> None:
    """They have the same names. A copy that finds its index wrong would also build it again, in the place of theirs."""
    for number in range(40):
        put(log, (b"k", b"%d" % number))
    for segment in log.segments[:-1]:
        segment.seal()
        segment.release()
        segment._indexes = None
    view = log.view()
    assert list(view.segments)
    clean(log)
    cleaned = {path.name: path.read_bytes() for path in log.directory.iterdir() if path.suffix != ".deleted"}
    with pytest.raises(StaleView):
        view.locate(1, log.log_end_offset)
    with pytest.raises(StaleView):
        view.find_time(1000, log.log_end_offset)
    log.learn(view)
    assert {path.name: path.read_bytes() for path in log.directory.iterdir() if path.name in cleaned} == cleaned
    assert log.view().locate(1, log.log_end_offset) is not None


def test_the_largest_timestamp_is_one_that_a_record_still_has(log: Log) -> None:
    put(log, (b"a", b"old"), first_ms=9000)
    put(log, (b"b", b"v"), (b"c", b"v"), first_ms=5000)
    roll(log, 0)
    put(log, (b"d", b"v"), first_ms=7000)
    roll(log, 0)
    put(log, (b"a", b"new"), first_ms=1000)
    roll(log, 0)
    clean(log)
    assert max_timestamp(log) == (7000, 3)
    put(log, (b"d", b"gone"), first_ms=1000)
    roll(log, 0)
    clean(log)
    # Batches that end a segment stay, empty, with the timestamp that they had.
    assert max_timestamp(log) == (5001, 2)


def test_the_largest_timestamp_is_not_one_below_the_log_start(log: Log) -> None:
    put(log, (b"a", b"v"), (b"b", b"v"), (b"c", b"v"), first_ms=1000)
    put(log, (b"d", b"v"), first_ms=500)
    assert max_timestamp(log) == (1002, 2)
    put(log, (b"e", b"v"), (b"f", b"v"), first_ms=900)
    log.advance_log_start(3)
    assert max_timestamp(log) == (901, 5)
    log.advance_log_start(6)
    assert max_timestamp(log) == (-1, -1)


def test_a_batch_across_the_log_start_counts_by_what_is_left_of_it(log: Log) -> None:
    records = [Record(-1, timestamp_ms, b"k", b"v") for timestamp_ms in (900, 300, 600)]
    data = encode_batch(records, base_offset=0)
    log.append(data, read_header(data), 0)
    put(log, (b"a", b"v"), first_ms=400)
    log.advance_log_start(1)
    assert max_timestamp(log) == (600, 2)


@pytest.mark.parametrize("keep_every", [1, 2])
def test_a_small_batch_of_many_records_takes_memory_for_its_bytes_only(tmp_path: Path, keep_every: int) -> None:
    """Few bytes may decompress to many records. An object for each of these would take 3 MiB."""
    count = 8_000
    log = Log.open(tmp_path / "t-0", LogConfig(), clean=True, now_ms=0)
    pairs = ((b"x" if at % keep_every else b"%d" % at, None) for at in range(count))
    put(log, *pairs, compression=Compression.ZSTD)
    roll(log, 0)
    tracemalloc.start()
    try:
        clean(log, buffer_bytes=1 << 19)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    (header, _) = next(log.iter_batches(0))
    assert (header.record_count, header.has_delete_horizon) == (count // keep_every + (keep_every - 1), True)
    assert peak < 1600 * 1024


def test_a_record_that_is_superseded_costs_two_calls(tmp_path: Path) -> None:
    """Its key is read once, and its batch is dropped unparsed: what the cleaner's speed is made of, without noise."""
    log = Log.open(tmp_path / "t-0", LogConfig(), clean=True, now_ms=0)
    keys = [(b"key-%d" % at, b"v" * 20) for at in range(100)]
    for _ in range(10):
        put(log, *keys)
        roll(log, 0)
    calls = Calls(1)
    sys.setprofile(calls.note)
    try:
        clean(log)
    finally:
        sys.setprofile(None)
    assert [each.key for each in committed(log)] == [key for key, _ in keys]
    # Some two hundred calls a segment are not for records.
    assert calls.counts.total() < 2 * 1000 + 10 * 400


@pytest.mark.parametrize("deltas", [[0, 0, 2], [0, 4, 2], [1, 0, 2]], ids=["twice", "outside", "backwards"])
def test_records_that_do_not_lie_where_their_batch_says_are_kept_by_their_keys(log: Log, deltas: list[int]) -> None:
    """Nobody checks the offsets inside a batch that a client sends."""
    put(log, (b"a", b"1"), (b"b", b"2"), (b"c", b"3"))
    data = bytearray(encode_batch([Record(-1, 1000, key, b"new") for key in (b"a", b"b", b"c")], base_offset=3))
    body = bytearray(body_of(memoryview(data), read_header(data)))
    size = len(body) // 3
    for number, delta in enumerate(deltas):
        assert body[number * size + 3] == 2 * number
        body[number * size + 3] = 2 * delta
    data = with_body(read_header(data), body, Compression.NONE)
    log.append(data, read_header(data), 0)
    roll(log, 0)
    clean(log)
    values = {record.key: record.value for _, data in log.iter_batches(0) for record in decode_batch(data)}
    assert values == {b"a": b"new", b"b": b"new", b"c": b"new"}
