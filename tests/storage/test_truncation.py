"""Truncation: a log that goes back, or starts over, as that of a follower whose leader has other records."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from odradek.storage.log import Log, LogConfig
from odradek.storage.producers import ProducerStates
from odradek.tests.storage.batches import NEVER, append, batch, cut, find_time, headers_of, read_all
from odradek.tests.storage.test_log import filled, opened
from odradek.tests.support.disks.cold_disk import ColdDisk
from odradek.tests.support.disks.disk import FaultyDisk


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "topic-0"


@pytest.mark.parametrize("offset", [0, 1, 2, 9, 10, 11, 19])
def test_truncating_drops_every_batch_that_reaches_the_offset(directory: Path, offset: int) -> None:
    log = filled(directory, 10, segment_bytes=300, index_interval_bytes=0)
    log.flush()
    cut(log, offset)
    kept = offset // 2 * 2
    assert log.log_end_offset == kept
    assert log.recovery_point == kept
    assert [header.next_offset for header in headers_of(log)] == list(range(2, kept + 1, 2))
    append(log, batch(kept, timestamp_ms=5000))
    assert find_time(log, 4000, NEVER) == (5000, kept, 0)
    assert find_time(log, 1000 + 10 * (kept // 2), NEVER) == (5000, kept, 0)
    log.close()
    assert opened(directory).log_end_offset == kept + 1


def test_the_segment_that_a_roll_has_closed_may_go_whole(directory: Path) -> None:
    """A flush, a roll, and a leader whose log ends where the closed segment begins."""
    log = filled(directory, 2, records=1, segment_bytes=100)
    log.flush()
    log.roll(2000)
    cut(log, 1)
    assert log.log_end_offset == 1
    append(log, batch(1))
    log.close()
    assert opened(directory).log_end_offset == 2


def test_truncating_takes_epochs_and_producers_back(directory: Path) -> None:
    log = opened(directory, segment_bytes=250)
    for number in range(9):
        append(log, batch(number, producer_id=7, sequence=number, leader_epoch=number // 3))
    cut(log, 4)
    assert log.epochs.entries == ((0, 0), (1, 3))
    producer = log.producers.get(7)
    assert producer is not None
    assert producer.last_sequence == 3


@pytest.mark.parametrize("is_forgotten_by", ["a truncation", "a start"])
def test_an_epoch_that_wrote_nothing_does_not_come_back_after_a_crash(directory: Path, is_forgotten_by: str) -> None:
    """A leader that wrote nothing follows another, and gets records of an older epoch where its own began."""
    log = opened(directory)
    append(log, batch(0, leader_epoch=0))
    log.epochs.assign(1, 1)
    log.flush()
    if is_forgotten_by == "a start":
        log = opened(directory, clean=False, point=1)
    else:
        cut(log, 1)
    append(log, batch(1, leader_epoch=0))
    append(log, batch(2, leader_epoch=2))
    assert opened(directory, clean=False, point=1).epochs.entries == ((0, 0), (2, 2))


@pytest.mark.parametrize("seed", range(8))
def test_truncated_batches_do_not_come_back_after_a_power_cut(directory: Path, seed: int) -> None:
    disk = FaultyDisk()
    log = opened(directory, disk=disk, segment_bytes=300)
    for offset in range(10):
        append(log, batch(offset))
    log.flush()
    cut(log, 4)
    disk.lose(seed)
    assert opened(directory, clean=False, disk=disk, point=4).log_end_offset == 4


def test_truncating_to_the_end_takes_only_an_epoch_that_wrote_nothing(directory: Path) -> None:
    log = filled(directory, 3)
    log.epochs.assign(5, 4)
    log.epochs.assign(8, 6)
    cut(log, 6)
    assert log.log_end_offset == 6
    assert log.epochs.latest == 5


def test_a_log_that_starts_over_has_nothing_of_what_was(directory: Path) -> None:
    log = opened(directory, segment_bytes=250)
    for number in range(9):
        append(log, batch(number, producer_id=7, sequence=number, leader_epoch=number // 3))
    log.flush()
    log.start_over(100, 1000)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (100, 100, 100)
    assert (log.epochs.entries, len(log.producers), read_all(log)) == ((), 0, b"")
    for segment in log.take_retired():
        segment.unlink()
    append(log, batch(100, producer_id=7, sequence=5, leader_epoch=4))
    log.close()
    again = opened(directory)
    assert [header.base_offset for header in headers_of(again)] == [100]
    assert again.epochs.entries == ((4, 100),)
    assert sorted({each.stem for each in directory.glob("*.log")}) == [f"{100:020d}"]


def test_a_log_starts_over_at_an_earlier_offset_too(directory: Path) -> None:
    log = opened(directory)
    append(log, batch(50))
    log.start_over(10, 1000)
    append(log, batch(10))
    assert log.appended_bytes == len(batch(50)) + len(batch(10))
    log.close()
    assert [header.base_offset for header in headers_of(opened(directory))] == [10]


@pytest.mark.parametrize("seed", range(8))
def test_records_from_before_a_log_started_over_do_not_come_back_after_a_power_cut(directory: Path, seed: int) -> None:
    disk = FaultyDisk()
    log = opened(directory, disk=disk, segment_bytes=300)
    for offset in range(10):
        append(log, batch(offset))
    log.flush()
    log.start_over(100, 1000)
    disk.lose(seed)
    again = opened(directory, clean=False, disk=disk, point=100)
    assert (again.log_end_offset, read_all(again)) == (100, b"")


@pytest.mark.parametrize("offset", [1, 150, 299, 333, 500, 998])
@pytest.mark.parametrize("interval", [0, 400, 4096])
@pytest.mark.parametrize("is_opened_again", [True, False])
def test_what_a_thread_has_read_a_cut_does_not_read_from_the_disk(
    directory: Path, offset: int, interval: int, is_opened_again: bool
) -> None:
    disk = ColdDisk()
    config = LogConfig(segment_bytes=30_000, index_interval_bytes=interval)
    log = Log.open(directory, config, clean=True, now_ms=0, disk=disk)
    for at in range(1000):
        append(log, batch(at, timestamp_ms=1000 + at * 7 % 1000))
    if is_opened_again:
        log.close()
        log = Log.open(directory, config, clean=True, now_ms=0, disk=disk)
    disk.chill()
    disk.open_up()
    view = log.view()

    def read() -> ProducerStates:
        found = view.producers_before(offset, 0)
        view.read_cut(offset)
        return found

    with ThreadPoolExecutor(1) as thread:
        producers = thread.submit(read).result()
    log.learn(view)
    # From here on a read that waits for the disk is an error on this thread.
    log.truncate_to(offset, producers, durable=False)
    disk.thaw()
    log.flush()
    assert log.log_end_offset == offset
    append(log, batch(offset, timestamp_ms=5000))
    assert [header.base_offset for header in headers_of(log)] == list(range(offset + 1))
    log.close()
    assert opened(directory, clean=False, segment_bytes=30_000).log_end_offset == offset + 1
