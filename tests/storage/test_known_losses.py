"""What a start finds lost is known to every start after it, until another replica has brought the records back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from odradek.storage.config import LogConfig
from odradek.storage.known_damage import LOST_RECORDS
from odradek.storage.log import Log
from odradek.tests.storage.batches import append, batch, flip
from odradek.tests.support.disks.disk import FaultyDisk, PowerCut

BATCHES = 12
CONFIG = LogConfig(segment_bytes=400)


def opened(directory: Path, point: int = BATCHES, start: int = 0, disk: FaultyDisk | None = None) -> Log:
    return Log.open(
        directory, CONFIG, clean=False, now_ms=0, recovery_point=point, log_start_offset=start,
        disk=disk or FaultyDisk(),
    )  # fmt: skip


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log whose batches are all on disk, and which nobody has closed."""
    log = opened(tmp_path / "t-0", 0)
    for number in range(BATCHES):
        append(log, batch(number, size=60))
    log.flush()
    return log.directory


def lose_files(directory: Path) -> None:
    for path in directory.iterdir():
        path.unlink()


def lose_end(directory: Path) -> None:
    for path in sorted(directory.glob("*.log"))[-2:]:
        path.unlink()


def zero_header(directory: Path) -> None:
    path = sorted(directory.glob("*.log"))[1]
    path.write_bytes(bytes(50) + path.read_bytes()[50:])


LOSSES = [(shutil.rmtree, BATCHES), (lose_files, BATCHES), (lose_end, BATCHES), (zero_header, -1)]


@pytest.mark.parametrize(("lose", "point"), LOSSES, ids=["directory", "files", "end", "batch"])
@pytest.mark.parametrize("has_new_checkpoint", [False, True])
def test_a_killed_start_leaves_the_loss_to_the_next(
    directory: Path, lose: Callable[[Path], None], point: int, has_new_checkpoint: bool
) -> None:
    lose(directory)
    log = opened(directory, point)
    lost_from = log.lost_from
    assert lost_from is not None
    known = (log.checkpoint(), log.log_start_offset) if has_new_checkpoint else (point, 0)
    again = opened(directory, *known)
    assert (again.lost_from, again.recovery.has_lost) == (lost_from, True)
    again.give_up_lost(0, again.view().producers_before(lost_from, 0) if lost_from else again.producers)
    assert again.log_end_offset == lost_from
    append(again, batch(lost_from, size=60))
    last = opened(directory, lost_from)
    assert (last.lost_from, last.recovery.has_lost, last.log_end_offset) == (None, False, lost_from + 1)


@pytest.mark.parametrize("lose", [shutil.rmtree, lose_files])
def test_a_power_cut_at_any_step_of_the_start_hides_no_loss(directory: Path, lose: Callable[[Path], None]) -> None:
    for steps in range(200):
        if directory.exists():
            lose(directory)
        disk = FaultyDisk()
        disk.stop_after(steps)
        try:
            opened(directory, disk=disk)
        except PowerCut:
            disk.lose(steps)
            assert opened(directory).lost_from == 0, steps
        else:
            assert steps > 10
            return
    raise AssertionError("the start takes too many steps")


def test_who_leads_has_lost_nothing(directory: Path) -> None:
    shutil.rmtree(directory)
    log = opened(directory)
    log.keep()
    assert log.lost_from is None and not (directory / LOST_RECORDS).exists()
    assert opened(directory).lost_from is None


@pytest.mark.parametrize("content", ["", "0\n1\nx\n", "7\n"])
def test_a_note_that_cannot_be_read_says_that_all_may_be_lost(directory: Path, content: str) -> None:
    (directory / LOST_RECORDS).write_text(content)
    assert opened(directory).lost_from == 0


# -- What lies right below a recovery point that is known


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def clear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: -len(batch(0, size=60))] + bytes(len(batch(0, size=60))))


@pytest.mark.parametrize("damage", [flip, shorten, clear])
def test_the_end_of_a_closed_segment_is_checked_where_the_recovery_point_lies_behind_it(
    directory: Path, damage: Callable[[Path], None]
) -> None:
    """A roll has forced it to disk, and the checkpoint says so. The start looked at the next segment alone."""
    closed, following = sorted(directory.glob("*.log"))[-2:]
    point = int(following.stem)
    damage(closed)
    log = opened(directory, point)
    assert (log.lost_from, log.recovery.has_lost) == (point - 1, True)
    assert log.log_end_offset == BATCHES


def test_a_sound_segment_before_the_recovery_point_is_not_checked_as_a_whole(directory: Path) -> None:
    log = opened(directory, int(sorted(directory.glob("*.log"))[-1].stem))
    assert (log.lost_from, log.recovery.has_lost, log.recovery.checked_segments) == (None, False, 1)


def test_an_only_segment_that_is_empty_below_the_recovery_point_has_lost_its_records(tmp_path: Path) -> None:
    """No offset is given away a second time."""
    log = opened(tmp_path / "t-0", 0)
    append(log, batch(0, size=60))
    log.flush()
    next(log.directory.glob("*.log")).write_bytes(b"")
    for _ in range(2):
        again = opened(log.directory, 1)
        assert (again.lost_from, again.log_end_offset, again.recovery.has_lost) == (0, 1, True)
