"""Compaction against a plain dict: a reader of a cleaned log learns from any offset on what it would have learned."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.protocol.records.batch import decode_batch, encode_batch, read_header
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.control import ControlType, Marker, encode_marker
from odradek.protocol.records.record import Record
from odradek.storage.compaction.compaction import Compaction
from odradek.storage.compaction.plan import CleaningRules, cleanable, job_of
from odradek.storage.errors import CorruptBatch
from odradek.storage.log import Log, LogConfig
from odradek.tests.storage.batches import max_timestamp, roll
from odradek.tests.storage.cleaning import RULES, clean

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100, segment_ms=2**60)
KEYS = [b"a", b"b", b"c", b"dd", b"long-" * 20]


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


def state_from(seen: list[Seen], offset: int) -> dict[bytes | None, bytes]:
    """What is known after reading from `offset` to the end: a tombstone and no record at all are the same."""
    state = {each.key: each.value for each in seen if each.offset >= offset}
    return {key: value for key, value in state.items() if value is not None}


def pairs(largest_bytes: int, most: int) -> st.SearchStrategy[list[tuple[bytes | None, bytes | None]]]:
    """Keys with their values: a tombstone where there is none."""
    value = st.one_of(st.none(), st.binary(max_size=largest_bytes))
    return st.lists(st.tuples(st.sampled_from(KEYS), value), min_size=1, max_size=most)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), pairs(40, 6), st.sampled_from(Compression)),
        st.tuples(st.just("txn"), st.integers(1, 3), pairs(20, 4)),
        st.tuples(st.just("end"), st.integers(1, 3), st.booleans()),
        st.tuples(st.just("clean"), st.integers(0, 3)),
        st.tuples(st.just("reopen"), st.booleans()),
    ),
    max_size=40,
)


@settings(max_examples=30)
@given(ACTIONS)
def test_a_cleaned_log_tells_what_the_whole_one_did(actions: list[tuple]) -> None:  # type: ignore[type-arg]
    with tempfile.TemporaryDirectory() as name:
        log = Log.open(Path(name) / "t-0", CONFIG, clean=True, now_ms=0)
        sequences = {1: 0, 2: 0, 3: 0}
        clean_up_to: int | None = None
        now_ms = 0
        for action, *given_ in actions:
            if action == "put":
                put(log, *given_[0], compression=given_[1])
            elif action == "txn":
                producer_id, pairs = given_
                put_transactional(log, producer_id, sequences[producer_id], *pairs)
                sequences[producer_id] += len(pairs)
            elif action == "end":
                end(log, given_[0], ControlType.COMMIT if given_[1] else ControlType.ABORT)
            elif action == "reopen":
                log.flush()
                point = log.log_end_offset
                if given_[0]:
                    log.close()
                log = Log.open(
                    log.directory, CONFIG, clean=given_[0], now_ms=0, recovery_point=0 if now_ms % 2 else point
                )
            else:
                now_ms += given_[0] * 500
                before, log_end, known = committed(log), log.log_end_offset, dict(log.producers.items())
                clean_up_to = clean(log, clean_up_to, now_ms=now_ms)
                check(log, before, log_end, known)
        log.close()
        check_whole(log)


def check(log: Log, before: list[Seen], log_end: int, known: dict[int, object]) -> None:
    after = committed(log)
    for offset in {0, log_end // 2, log_end}:
        assert state_from(after, offset) == state_from(before, offset)
    assert all(each in before for each in after), "an offset, a key or a value has changed"
    assert [each.offset for each in after] == sorted(each.offset for each in after)
    assert log.log_end_offset == log_end
    assert dict(log.producers.items()) == known


def check_whole(log: Log) -> None:
    """A start that trusts nothing finds nothing to cut, and knows the same producers' last sequences."""
    last = {number: each.last_sequence for number, each in log.producers.items()}
    for path in log.directory.glob("*.snapshot"):
        path.unlink()
    again = Log.open(log.directory, CONFIG, clean=False, now_ms=0)
    assert again.recovery.cuts == []
    assert again.log_end_offset == log.log_end_offset
    assert {number: each.last_sequence for number, each in again.producers.items()} == last
    again.close()


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


def test_an_open_transaction_keeps_what_follows_it(log: Log) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    roll(log, 0)
    put_transactional(log, 7, 0, (b"a", b"3"))
    put(log, (b"a", b"4"))
    roll(log, 0)
    assert clean(log) == 2
    assert [each.value for each in committed(log)] == [b"2", b"3", b"4"]


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
    path = log.segments[1].path(".log")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    names = sorted(each.name for each in log.directory.iterdir())
    with pytest.raises(CorruptBatch):
        clean(log)
    assert sorted(each.name for each in log.directory.iterdir()) == names


def test_a_second_cleaning_of_the_same_writes_nothing(log: Log) -> None:
    for number in range(40):
        put(log, (b"k%d" % number, b"v"))
    clean(log)
    found = cleanable(log, None, log.log_end_offset, RULES, 0)
    groups = list(Compaction(job_of(log, found, RULES, 0, 1 << 20)).run())
    assert all(group.size == -1 for group in groups if group.sources == 1)


def test_what_is_too_young_stays_and_what_waits_too_long_is_due(log: Log) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    roll(log, 0)
    young = CleaningRules(min_lag_ms=1000)
    assert cleanable(log, None, log.log_end_offset, young, 1500).segments == ()
    assert len(cleanable(log, None, log.log_end_offset, young, 2500).segments) == 1
    late = CleaningRules(min_dirty_ratio=1, max_lag_ms=500)
    assert not cleanable(log, None, log.log_end_offset, late, 1200).is_due(late)
    assert cleanable(log, None, log.log_end_offset, late, 1600).is_due(late)


def test_readers_keep_what_they_hold(log: Log) -> None:
    for number in range(40):
        put(log, (b"k", b"%d" % number))
    fetched = log.read(0, 1 << 20, log.log_end_offset)
    batches = log.iter_batches(0)
    first = next(batches)
    clean(log)
    assert read_header(fetched.read()) == first[0]
    assert len(list(batches)) == 39


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
