"""Logs with transactions: what read_committed sees, what aborts leave behind, and that no stop changes any of it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.protocol.records.batch import iter_headers
from odradek.storage.errors import DiskError
from odradek.storage.log import Log, LogConfig
from odradek.testing.lossy_disk import LossyDisk
from odradek.tests.storage.batches import cut, roll
from odradek.tests.storage.transactions import (
    COORDINATOR_EPOCH,
    Written,
    aborted_entries,
    opened,
    read_committed,
    stable_offset,
)
from odradek.tests.support.disks.disk import FaultyDisk
from odradek.tests.support.seeds import examples

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=200)

PRODUCERS = st.integers(0, 3)
STEPS = st.one_of(
    st.tuples(st.just("write"), PRODUCERS, st.integers(1, 3)),
    st.tuples(st.just("plain"), st.integers(-1, -1), st.integers(1, 3)),
    st.tuples(st.just("commit"), PRODUCERS, st.just(0)),
    st.tuples(st.just("abort"), PRODUCERS, st.just(0)),
)


def do(written: Written, step: tuple[str, int, int]) -> None:
    kind, producer_id, records = step
    if kind in ("write", "plain"):
        written.write(producer_id, records)
    else:
        written.finish(producer_id, commit=kind == "commit")


def check(log: Log, written: Written) -> None:
    """The log says of its transactions what the model says."""
    model = written.model
    assert log.log_end_offset == model.end
    assert stable_offset(log) == model.stable
    assert aborted_entries(log) == model.aborted
    for producer_id, offsets in model.open.items():
        state = log.producers.get(producer_id)
        assert state is not None
        assert state.current_txn_first_offset == offsets[0]


@given(
    steps=st.lists(STEPS, max_size=60),
    segment_bytes=st.sampled_from([200, 500, 2000]),
    max_bytes=st.sampled_from([1, 150, 400, 5000]),
)
@settings(max_examples=examples(150), deadline=None)
def test_read_committed_is_every_committed_record_and_no_other_at_any_size(
    steps: list[tuple[str, int, int]], segment_bytes: int, max_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=100)
        written = Written(opened(Path(directory), config))
        for step in steps:
            do(written, step)
            assert stable_offset(written.log) == written.model.stable
        check(written.log, written)
        assert list(read_committed(written.log, max_bytes)) == written.model.visible()


@given(steps=st.lists(STEPS, max_size=40), offset=st.integers(0, 60), max_bytes=st.sampled_from([1, 150, 400, 5000]))
@settings(max_examples=examples(150), deadline=None)
def test_a_read_gets_the_aborted_transactions_that_overlap_it(
    steps: list[tuple[str, int, int]], offset: int, max_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        written = Written(opened(Path(directory), LogConfig(segment_bytes=500, index_interval_bytes=1)))
        for step in steps:
            do(written, step)
        up_to = written.model.stable
        if offset >= up_to:
            return
        fetched = written.log.read(offset, max_bytes, up_to)
        told = written.log.aborted_transactions(offset, fetched, up_to)
        read = [header.next_offset for _, header in iter_headers(fetched.read())]
        # All that matter; and beyond them only what begins in the batch that the range ends in.
        assert set(written.model.reaching_into(offset, max(read, default=offset))) <= set(told)
        assert set(told) <= set(written.model.reaching_into(offset, up_to))


@given(steps=st.lists(STEPS, min_size=1, max_size=60), stops=st.data())
@settings(max_examples=examples(100), deadline=None)
def test_stops_and_crashes_at_any_point_change_nothing(steps: list[tuple[str, int, int]], stops: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        written = Written(opened(path, CONFIG))
        for step in steps:
            do(written, step)
            match stops.draw(st.sampled_from(["go on"] * 5 + ["flush", "stop", "crash", "roll"])):
                case "flush":
                    written.log.flush()
                case "roll":
                    roll(written.log, 1000)
                case "stop":
                    written.log.close()
                    written.log = opened(path, CONFIG)
                case "crash":
                    written.log = opened(path, CONFIG, clean=False, point=written.log.recovery_point)
                case _:
                    pass
            check(written.log, written)
        assert list(read_committed(written.log, 300)) == written.model.visible()


@given(steps=st.lists(STEPS, min_size=5, max_size=40), cut=st.floats(0, 1))
@settings(max_examples=examples(100), deadline=None)
def test_a_log_that_a_crash_has_cut_has_the_state_of_that_earlier_end(
    steps: list[tuple[str, int, int]], cut: float
) -> None:
    config = LogConfig(segment_bytes=1_000_000, index_interval_bytes=200)
    with tempfile.TemporaryDirectory() as directory:
        whole = Written(opened(Path(directory) / "whole-0", config))
        sizes = []
        for step in steps:
            do(whole, step)
            sizes.append(whole.log.size_bytes)
        file = Path(directory) / "whole-0" / f"{0:020d}.log"
        keep = int(file.stat().st_size * cut)
        torn = Path(directory) / "torn-0"
        shutil.copytree(Path(directory) / "whole-0", torn)
        (torn / file.name).write_bytes(file.read_bytes()[:keep])
        expected = Written(opened(Path(directory) / "part-0", config))
        for step, size in zip(steps, sizes, strict=True):
            if size <= keep:
                do(expected, step)
        check(opened(torn, config, clean=False), expected)


def test_an_index_that_ends_inside_an_entry_is_built_again_with_all_others(tmp_path: Path) -> None:
    written = Written(opened(tmp_path, CONFIG))
    for _ in range(6):
        written.write(1, 3)
        written.write(2, 3)
        written.finish(1, commit=False)
        roll(written.log, 1000)
    written.finish(2, commit=False)
    written.log.close()
    first = next(iter(sorted(tmp_path.glob("*.txnindex"))))
    first.write_bytes(first.read_bytes()[:-1])
    log = opened(tmp_path, CONFIG, point=written.model.end)
    assert not log.recovery.clean
    check(log, written)


@pytest.mark.parametrize("seed", range(6))
def test_indexes_that_a_start_builds_again_survive_a_power_cut_below_the_recovery_point(
    tmp_path: Path, seed: int
) -> None:
    written = Written(opened(tmp_path, CONFIG))
    for commit in (False, True, False):
        roll(written.log, 1000)
        written.write(1, 3)
        written.finish(1, commit=commit)
    written.log.close()
    (torn,) = sorted(tmp_path.glob("*.txnindex"))[1:]
    torn.write_bytes(torn.read_bytes()[:-1])
    disk = LossyDisk()
    Log.open(tmp_path, CONFIG, clean=False, now_ms=1000, recovery_point=written.model.end, disk=disk)
    disk.lose(seed)
    check(opened(tmp_path, CONFIG, clean=False, point=written.model.end), written)


def test_many_restarts_within_a_segment_leave_a_snapshot_from_before_it(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=1_000_000)
    written = Written(opened(tmp_path, config))
    written.write(1)
    roll(written.log, 1000)
    base = written.model.end
    for _ in range(6):
        written.write(1)
        written.log.close()
        written.log = opened(tmp_path, config)
    assert (tmp_path / f"{base:020d}.snapshot").exists()
    written.finish(1, commit=False)
    check(opened(tmp_path, config, clean=False, point=written.model.end - 1), written)


def test_coordinator_epochs_survive_a_crash(tmp_path: Path) -> None:
    written = Written(opened(tmp_path, CONFIG))
    written.write(1)
    written.finish(1, commit=True)
    state = opened(tmp_path, CONFIG, clean=False).producers.get(1)
    assert state is not None
    assert state.coordinator_epoch == COORDINATOR_EPOCH


def test_no_file_where_nothing_was_aborted(tmp_path: Path) -> None:
    written = Written(opened(tmp_path, CONFIG))
    written.write(1)
    written.finish(1, commit=True)
    written.log.close()
    assert not list(tmp_path.glob("*.txnindex"))


def test_the_index_goes_with_its_segment(tmp_path: Path) -> None:
    written = Written(opened(tmp_path, CONFIG))
    written.write(1)
    written.finish(1, commit=False)
    roll(written.log, 1000)
    written.write(2)
    assert len(list(tmp_path.glob("*.txnindex"))) == 1
    written.log.advance_log_start(written.model.end - 1)
    for segment in written.log.take_retired():
        segment.unlink()
    assert not list(tmp_path.glob("*.txnindex"))


def test_an_index_without_its_log_is_removed_at_opening(tmp_path: Path) -> None:
    written = Written(opened(tmp_path, CONFIG))
    written.write(1)
    written.log.close()
    stray = tmp_path / f"{77:020d}.txnindex"
    stray.write_bytes(bytes(34))
    opened(tmp_path, CONFIG)
    assert not stray.exists()


def test_truncation_takes_the_aborts_along(tmp_path: Path) -> None:
    written = Written(opened(tmp_path, CONFIG))
    written.write(1)
    written.finish(1, commit=False)
    kept = list(written.model.aborted)
    written.write(1)
    written.finish(1, commit=False)
    cut(written.log, 3)
    assert aborted_entries(written.log) == kept
    assert stable_offset(written.log) == 2  # open again, for its marker is gone


def test_a_marker_that_cannot_be_written_leaves_no_entry(tmp_path: Path) -> None:
    disk = FaultyDisk()
    written = Written(Log.open(tmp_path, CONFIG, clean=True, now_ms=1000, disk=disk))
    written.write(1)
    written.write(2)
    written.finish(2, commit=False)
    disk.room_bytes = 40  # the entry fits, the marker does not
    with pytest.raises(DiskError):
        written.finish(1, commit=False)
    disk.room_bytes = None
    check(written.log, written)
    assert (tmp_path / f"{0:020d}.txnindex").stat().st_size == 34
    written.finish(1, commit=False)
    check(written.log, written)


@pytest.mark.parametrize("is_before_roll", [True, False])
def test_a_power_cut_behind_a_flush_and_a_roll_loses_no_aborted_transaction(
    tmp_path: Path, is_before_roll: bool
) -> None:
    for seed in range(20):
        directory, disk = tmp_path / str(seed), FaultyDisk()
        written = Written(Log.open(directory, CONFIG, clean=True, now_ms=1000, disk=disk))
        written.write(1)
        written.finish(1, commit=False)
        written.log.flush()
        early = written.log.checkpoint() if is_before_roll else 0
        roll(written.log)
        written.write(-1)
        point = early if is_before_roll else written.log.checkpoint()
        disk.lose(seed)
        log = Log.open(directory, CONFIG, clean=False, now_ms=1000, recovery_point=point, disk=disk)
        assert aborted_entries(log) == written.model.aborted
