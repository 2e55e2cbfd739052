"""The checkpoints of a data directory: what they keep, and what they forget."""

from __future__ import annotations

from pathlib import Path

from odradek.broker.log_dirs.offset_checkpoints import OffsetCheckpoints
from odradek.storage.checkpoints import CLEANER_OFFSET, RECOVERY_POINT, read_offsets, write_offsets
from odradek.storage.log import Log, LogConfig
from odradek.tests.storage.batches import append, batch

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


def test_a_damaged_cleaner_checkpoint_makes_everything_dirty(tmp_path: Path) -> None:
    (tmp_path / CLEANER_OFFSET).write_text("0\n1\nt 0\n")
    assert OffsetCheckpoints(tmp_path).cleaner_offsets == {}


def test_a_partition_that_was_not_read_gets_no_recovery_point_that_nobody_knows(tmp_path: Path) -> None:
    write_offsets(tmp_path / RECOVERY_POINT, {KEY: 7})
    checkpoints = OffsetCheckpoints(tmp_path)
    checkpoints.take({}, unread=[KEY, ("u", 0)])()
    assert read_offsets(tmp_path / RECOVERY_POINT) == {KEY: 7}
    assert checkpoints.may_name("u")
