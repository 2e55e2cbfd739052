"""The checkpoints of a data directory: what they keep, and what they forget."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.broker.log_dirs.offset_checkpoints import OffsetCheckpoints
from odradek.storage.checkpoints import CLEANER_OFFSET, LOG_START, RECOVERY_POINT, read_offsets, write_offsets
from odradek.storage.errors import StorageError
from odradek.storage.log import Log, LogConfig
from odradek.tests.storage.batches import append, batch
from odradek.tests.support.disks.ruled_disk import FullDisk

KEY = ("t", 0)


def test_a_cleaner_offset_that_a_recovery_has_cut_off_does_not_come_back(tmp_path: Path) -> None:
    """What is appended later below that offset was never cleaned."""
    log = Log.open(tmp_path / "t-0", LogConfig(), clean=True, now_ms=0)
    write_offsets(tmp_path / CLEANER_OFFSET, {KEY: 5})
    append(log, batch(0, 3))
    checkpoints = OffsetCheckpoints(tmp_path)
    checkpoints.take({KEY: log})()
    append(log, batch(3, 3))
    checkpoints.take({KEY: log})()
    assert (checkpoints.cleaner_offsets, read_offsets(tmp_path / CLEANER_OFFSET)) == ({}, {})


def test_a_new_topic_does_not_get_the_cleaner_offset_of_a_deleted_one(tmp_path: Path) -> None:
    write_offsets(tmp_path / CLEANER_OFFSET, {KEY: 5})
    checkpoints = OffsetCheckpoints(tmp_path)
    assert checkpoints.may_name("t")
    checkpoints.take({})()
    assert not checkpoints.may_name("t")
    assert read_offsets(tmp_path / CLEANER_OFFSET) == {}


def test_a_partition_that_was_not_read_gets_no_recovery_point_that_nobody_knows(tmp_path: Path) -> None:
    write_offsets(tmp_path / RECOVERY_POINT, {KEY: 7})
    checkpoints = OffsetCheckpoints(tmp_path)
    checkpoints.take({}, unread=[KEY, ("u", 0)])()
    assert read_offsets(tmp_path / RECOVERY_POINT) == {KEY: 7}
    assert checkpoints.may_name("u")


@pytest.mark.parametrize("content", ["0\n7\n", None], ids=["damaged", "lost"])
def test_a_partition_that_was_not_read_is_no_new_one_where_recovery_points_are_gone(
    tmp_path: Path, content: str | None
) -> None:
    """After a power cut nothing of a partition that the file does not name would count as forced to disk."""
    if content is not None:
        (tmp_path / RECOVERY_POINT).write_text(content)
    OffsetCheckpoints(tmp_path).take({}, unread=[KEY])()
    again = OffsetCheckpoints(tmp_path)
    assert not again.names_points or again.recovery_points == {KEY: -1}
    again.take({}, unread=[KEY])()
    assert read_offsets(tmp_path / RECOVERY_POINT) == {KEY: -1}


@pytest.mark.parametrize("name", [RECOVERY_POINT, LOG_START, CLEANER_OFFSET])
@pytest.mark.parametrize("content", [b"", b"0\n1\nt 0\n", b"0\n7\nt 0 1\n", b"\xff\x00\xff", b"0\n1\nt 0 x\n"])
def test_a_damaged_checkpoint_is_written_again(
    tmp_path: Path, name: str, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """As in Kafka, no file of offsets keeps a whole broker from starting."""
    (tmp_path / name).write_bytes(content)
    checkpoints = OffsetCheckpoints(tmp_path)
    assert (checkpoints.recovery_points, checkpoints.log_starts, checkpoints.cleaner_offsets) == ({}, {}, {})
    assert name in caplog.text and "every partition here" in caplog.text
    log = Log.open(tmp_path / "t-0", LogConfig(), clean=True, now_ms=0)
    checkpoints.take({KEY: log})()
    if name != CLEANER_OFFSET:
        assert read_offsets(tmp_path / name) == {KEY: 0}


def flushed_log(folder: Path) -> Log:
    """Return a log with three records, on disk."""
    log = Log.open(folder / "t-0", LogConfig(), clean=True, now_ms=0)
    append(log, batch(0, 3))
    log.flush()
    return log


def test_a_log_knows_the_recovery_point_that_is_on_disk_and_not_one_that_could_not_be_written(tmp_path: Path) -> None:
    disk = FullDisk()
    log = flushed_log(tmp_path)
    checkpoints = OffsetCheckpoints(tmp_path, disk)
    checkpoints.take({KEY: log})()
    assert log.point_on_disk == 3 and log.lower_recovery_point(1)
    write = checkpoints.take({KEY: log})
    disk.fill()
    with pytest.raises(StorageError):
        write()
    assert log.lower_recovery_point(1)
    disk.free()
    write()
    assert not log.lower_recovery_point(1)


def test_an_older_state_neither_replaces_a_newer_one_that_failed_halfway_nor_passes_for_written(tmp_path: Path) -> None:
    disk = FullDisk()
    log = flushed_log(tmp_path)
    checkpoints = OffsetCheckpoints(tmp_path, disk)
    older = checkpoints.take({KEY: log})
    log.lower_recovery_point(1)
    newer = checkpoints.take({KEY: log})
    (tmp_path / LOG_START).mkdir()
    with pytest.raises(StorageError):
        newer()
    (tmp_path / LOG_START).rmdir()
    with pytest.raises(StorageError):
        older()
    assert read_offsets(tmp_path / RECOVERY_POINT) == {KEY: 1}
    newer()
    older()
    assert read_offsets(tmp_path / RECOVERY_POINT) == {KEY: 1}


def test_a_log_is_not_cut_before_a_checkpoint_says_that_what_follows_the_cut_is_dirty(tmp_path: Path) -> None:
    disk = FullDisk()
    log = flushed_log(tmp_path)
    write_offsets(tmp_path / CLEANER_OFFSET, {KEY: 3})
    checkpoints = OffsetCheckpoints(tmp_path, disk)
    checkpoints.take({KEY: log})()
    assert log.lower_recovery_point(1)
    write = checkpoints.take({KEY: log})
    # There is room for the recovery points, and none for what follows.
    (tmp_path / LOG_START).unlink()
    (tmp_path / LOG_START).mkdir()
    with pytest.raises(StorageError):
        write()
    assert log.lower_recovery_point(1)
    (tmp_path / LOG_START).rmdir()
    write()
    assert not log.lower_recovery_point(1) and read_offsets(tmp_path / CLEANER_OFFSET) == {KEY: 1}
