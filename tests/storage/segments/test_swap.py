"""A cleaning cut off at every step: the next start finds the old segments or the new, the same state by both."""

from __future__ import annotations

import errno
import shutil
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest
from odradek.protocol.records.batch import decode_batch, encode_batch, read_header
from odradek.protocol.records.control import ControlType, Marker, encode_marker
from odradek.protocol.records.record import Record
from odradek.storage.errors import DiskError, LogClosed, TornSwap, is_lasting
from odradek.storage.files import Disk
from odradek.storage.log import Log, LogConfig
from odradek.storage.segments import swap
from odradek.tests.storage.cleaning import clean
from odradek.tests.support.disks.disk import FaultyDisk, PowerCut
from odradek.tests.support.disks.ruled_disk import RuledDisk, disk_error

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=100, segment_ms=2**60)
LARGE = LogConfig(segment_bytes=5000, index_interval_bytes=100, segment_ms=2**60)
# The last steps of a cleaning give names.
NAMING_STEPS = 20
# Records that fill two closed segments, each cleaned by itself.
FEW = 10


def filled(directory: Path, disk: Disk, records: int = 18) -> Log:
    """A log of some segments with aborted transactions, all of it on disk."""
    log = Log.open(directory, CONFIG, clean=True, now_ms=0, disk=disk)
    for number in range(records):
        transactional = number % 3 == 0
        data = encode_batch(
            [Record(-1, 1000, b"k%d" % (number % 4), b"v%d" % number)],
            base_offset=log.log_end_offset,
            producer_id=7 if transactional else -1,
            producer_epoch=0 if transactional else -1,
            base_sequence=number // 3 if transactional else -1,
            transactional=transactional,
        )
        log.append(data, read_header(data), 0)
        if transactional:
            marker = Marker(ControlType.ABORT if number % 2 else ControlType.COMMIT, 0)
            end = encode_marker(
                marker, producer_id=7, producer_epoch=0, timestamp_ms=1000, base_offset=log.log_end_offset
            )
            log.append(end, read_header(end), 0, marker)
    log.flush()
    return log


def steps_of_cleaning(directory: Path, records: int = FEW, config: LogConfig = CONFIG) -> list[int]:
    """The steps of the disk at which the operations of a cleaning begin."""
    disk = FaultyDisk()
    log = filled(directory, disk, records)
    log.config = config
    before = disk.steps
    clean(log, disk=disk)
    return [mark - before for mark in disk.marks if mark >= before]


def state(log: Log) -> tuple[dict[bytes | None, bytes | None], int, int]:
    """The last committed value of each key, the end, the producer's last sequence."""
    aborted = [each for segment in log.segments for each in segment.aborted.entries()]
    values: dict[bytes | None, bytes | None] = {}
    for header, data in log.iter_batches(0):
        gone = any(
            each.producer_id == header.producer_id and each.first_offset <= header.base_offset <= each.last_offset
            for each in aborted
        )
        if not header.is_control and not gone:
            values |= {each.key: each.value for each in decode_batch(data)}
    producer = log.producers.get(7)
    assert producer is not None
    return values, log.log_end_offset, producer.last_sequence


def test_a_crash_at_any_step_of_a_cleaning_leaves_old_or_new(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = filled(tmp_path / "whole", disk, FEW)
    expected, before = state(log), disk.steps
    clean(log, disk=disk)
    for segment in log.take_retired():
        segment.unlink()
    steps = disk.steps - before
    # Every operation's first step, and the middle of the writes.
    marks = sorted({mark - before for mark in disk.marks if mark >= before} | set(range(0, steps, 997)))
    assert len(marks) > 40
    for at in marks:
        directory = tmp_path / f"{at}"
        disk = FaultyDisk()
        log = filled(directory, disk, FEW)
        point = log.recovery_point
        disk.stop_after(at)
        with pytest.raises(PowerCut):
            clean(log, disk=disk)
            for segment in log.take_retired():
                segment.unlink()
        del log
        # Both are left by the same crash: what a power cut leaves, and what a process leaves that is killed.
        for left in (after_power_cut(disk, directory, seed=at), directory):
            disk = FaultyDisk()
            again = Log.open(left, CONFIG, clean=False, now_ms=0, recovery_point=point, disk=disk)
            assert state(again) == expected, (at, left)
            assert again.recovery.cuts == []
            suffixes = {each.suffix for each in left.iterdir()}
            assert not suffixes & {".swap", ".cleaned", ".deleted"}, (at, left)
            # And it can be cleaned to the end.
            clean(again, disk=disk)
            assert state(again) == expected, (at, left)
            again.close()
            shutil.rmtree(left)


@pytest.mark.parametrize("left", [(".index",), (".log", ".index", ".timeindex")], ids=["no log", "a damaged log"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_swap_that_cannot_be_read_does_not_replace_what_it_was_made_from(
    tmp_path: Path, left: tuple[str, ...], clean: bool
) -> None:
    log = filled(tmp_path / "t-0", FaultyDisk(), FEW)
    expected = state(log)
    log.close()
    for suffix in left:
        (tmp_path / "t-0" / ("0" * 20 + suffix + ".swap")).write_bytes(b"damaged" * 20)
    again = Log.open(tmp_path / "t-0", CONFIG, clean=clean, now_ms=0)
    assert state(again) == expected
    assert not list((tmp_path / "t-0").glob("*.swap"))
    again.close()


def test_a_power_cut_that_keeps_any_part_of_the_new_names_leaves_each_batch_once(tmp_path: Path) -> None:
    """File systems reorder renames: the new name may be there, and a replaced segment too."""
    disk = FaultyDisk()
    log = filled(tmp_path / "whole", disk)
    # One cleaned segment then replaces several.
    log.config = LARGE
    before, sources = disk.steps, len(log.segments) - 1
    clean(log, disk=disk)
    assert (sources, len(log.segments)) == (3, 2)
    named = [mark - before for mark in disk.marks if mark >= before][-NAMING_STEPS:]
    for at, seed in product(named, range(2)):
        directory = tmp_path / f"{at}-{seed}"
        disk = FaultyDisk()
        log = filled(directory, disk)
        log.config = LARGE
        point, end = log.recovery_point, log.log_end_offset
        disk.stop_after(at)
        with pytest.raises(PowerCut):
            clean(log, disk=disk)
        del log
        disk.lose(seed)
        again = Log.open(directory, CONFIG, clean=False, now_ms=0, recovery_point=point, disk=disk)
        offsets = [header.base_offset for header, _ in again.iter_batches(0)]
        assert offsets == sorted(set(offsets)), (at, seed)
        assert (again.recovery.cuts, again.recovery.damages, again.log_end_offset) == ([], [], end), (at, seed)
        again.close()
        shutil.rmtree(directory)


@pytest.mark.parametrize("config", [CONFIG, LARGE], ids=["one for one", "one for several"])
def test_a_full_directory_at_any_step_of_a_swap_costs_nothing(tmp_path: Path, config: LogConfig) -> None:
    failed = 0
    for at in steps_of_cleaning(tmp_path / "whole", config=config):
        directory = tmp_path / f"{at}"
        disk = FaultyDisk()
        log = filled(directory, disk, FEW)
        log.config = config
        expected, point = state(log), log.recovery_point
        disk.nameless = range(disk.steps + at, disk.steps + at + 1)
        try:
            clean(log, disk=disk)
        except DiskError:
            failed += 1
            assert state_after(disk, seed=at, directory=directory, point=point) == expected, at
            swap.tidy(directory, disk)
        assert state(log) == expected, at
        assert state_after(disk, seed=at, directory=directory, point=point) == expected, at
        # The log takes writes, and the next cleaning does what this one could not.
        data = encode_batch([Record(-1, 1000, b"more", b"v")], base_offset=log.log_end_offset)
        log.append(data, read_header(data), 0)
        clean(log, disk=disk)
        expected = state(log)
        assert not list(directory.glob("*.swap"))
        for segment in log.take_retired():
            segment.unlink()
        log.close()
        again = Log.open(directory, config, clean=True, now_ms=0, disk=disk)
        assert state(again) == expected
        again.close()
        shutil.rmtree(directory)
    assert failed > 8


def lose(operation: str, path: Path) -> None:
    """Have a directory be full, and somebody remove from it what has retired."""
    if operation == "link":
        for each in path.parent.glob("*.deleted"):
            each.unlink()
        if path.suffix == ".log":
            raise disk_error(operation, path, errno.ENOSPC)


def test_a_start_completes_a_swap_that_has_lost_what_it_was_made_from(tmp_path: Path) -> None:
    disk = RuledDisk(lose)
    log = filled(tmp_path / "log", disk)
    expected = state(log)
    with pytest.raises(TornSwap):
        clean(log, disk=disk)
    with pytest.raises(LogClosed):
        log.advance_log_start(1)
    again = Log.open(tmp_path / "log", CONFIG, clean=False, now_ms=0)
    assert state(again) == expected
    again.close()


def after_power_cut(disk: FaultyDisk, directory: Path, seed: int) -> Path:
    """Return a directory with what a power cut now would leave of another one."""
    copy = directory.with_name("after-a-power-cut")
    copy.mkdir()
    for path, content in disk.after_power_cut(seed).items():
        (copy / path.name).write_bytes(content)
    return copy


def state_after(disk: FaultyDisk, *, seed: int, directory: Path, point: int) -> object:
    """Return the state of the log that a start finds if the power fails now. The log itself goes on."""
    copy = after_power_cut(disk, directory, seed)
    again = Log.open(copy, CONFIG, clean=False, now_ms=0, recovery_point=point)
    found = state(again)
    assert (again.recovery.cuts, again.recovery.damages) == ([], [])
    again.close()
    shutil.rmtree(copy)
    return found


def test_a_swap_that_cannot_be_taken_back_is_completed_by_the_next_start(tmp_path: Path) -> None:
    torn = 0
    for at in steps_of_cleaning(tmp_path / "whole"):
        directory = tmp_path / f"{at}"
        disk = FaultyDisk()
        log = filled(directory, disk, FEW)
        expected, point = state(log), log.recovery_point
        disk.nameless = range(disk.steps + at, 1 << 60)
        with suppress(DiskError):
            try:
                clean(log, disk=disk)
            except TornSwap as error:
                torn += 1
                assert is_lasting(error)
                data = encode_batch([Record(-1, 1000, b"more", b"v")], base_offset=log.log_end_offset)
                with pytest.raises(LogClosed):
                    log.append(data, read_header(data), 0)
        del log
        disk.kill()
        again = Log.open(directory, CONFIG, clean=False, now_ms=0, recovery_point=point, disk=disk)
        assert (state(again), again.recovery.cuts, again.recovery.damages) == (expected, [], []), at
        again.close()
        shutil.rmtree(directory)
    assert torn > 3
