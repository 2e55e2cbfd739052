"""A replica is in sync only if it holds every offset from its leader's log start to its end, each with a right CRC.

The files of one replica are damaged while its broker is away. The checks read files.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from odradek.storage.checkpoints import RECOVERY_POINT, write_offsets
from odradek.tests.support.hand_cluster import HandCluster, until
from odradek.tests.support.raw import batch_of
from odradek.tests.support.whole_replicas import check_in_sync, offsets_on_disk

RECORDS = 30


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[HandCluster]:
    async with HandCluster(tmp_path, replica_fetch_wait_max_ms=50, log_segment_bytes=1 << 20) as each:
        yield each


def lose_directory(folder: Path) -> None:
    shutil.rmtree(folder)


def lose_files(folder: Path) -> None:
    for each in folder.iterdir():
        each.unlink()


def lose_first_segment(folder: Path) -> None:
    min(folder.glob("*.log")).unlink()


def lose_middle_segment(folder: Path) -> None:
    sorted(folder.glob("*.log"))[1].unlink()


def lose_end(folder: Path) -> None:
    for each in sorted(folder.glob("*.log"))[-2:]:
        each.unlink()


def crash_with_hole(folder: Path) -> None:
    """Zeros in the place of one batch, after a power cut before the first checkpoint."""
    lose_recovery_point(folder)
    zero_one_batch(folder)


def crash_with_hole_in_flushed_segment(folder: Path) -> None:
    """The same in the segment of a recovery point that is known, and before it."""
    (folder.parent / ".kafka_cleanshutdown").unlink()
    write_recovery_point(folder, 13)
    zero_one_batch(folder)


def crash_with_hole_behind_recovery_point(folder: Path) -> None:
    (folder.parent / ".kafka_cleanshutdown").unlink()
    write_recovery_point(folder, 3)
    zero_one_batch(folder)


def write_recovery_point(folder: Path, offset: int) -> None:
    write_offsets(folder.parent / RECOVERY_POINT, {("t", 0): offset})


def lose_recovery_point(folder: Path) -> None:
    (folder.parent / ".kafka_cleanshutdown").unlink()
    (folder.parent / RECOVERY_POINT).unlink()


def zero_one_batch(folder: Path) -> None:
    path = sorted(folder.glob("*.log"))[1]
    data = path.read_bytes()
    size = 12 + int.from_bytes(data[8:12], "big")
    path.write_bytes(data[:size] + bytes(size) + data[2 * size :])


LOSSES = [
    lose_directory,
    lose_files,
    lose_first_segment,
    lose_middle_segment,
    lose_end,
    crash_with_hole,
    crash_with_hole_in_flushed_segment,
    crash_with_hole_behind_recovery_point,
]


async def fill(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1)
    async with await cluster.connect(1) as raw:
        for number in range(RECORDS):
            answer = await raw.produce("t", batch_of(b"%0100000d" % number), acks=-1, timeout_ms=20_000)
            assert answer.error_code == 0


@pytest.mark.parametrize("lose", LOSSES)
async def test_a_follower_that_lost_records_copies_them_again(
    cluster: HandCluster, lose: Callable[[Path], None]
) -> None:
    await fill(cluster)
    await cluster.stop(2)
    await cluster.assign("t", leader=1, isr=(1, 3))
    lose(Path(cluster.configs[2].data_dir) / "t-0")
    await cluster.start(2)
    await cluster.update_metadata()
    await cluster.leader_and_isr(2, [("t", 0)])
    await until(lambda: set(cluster.controller.states["t", 0].isr) == {1, 2, 3})
    await cluster.stop(2)
    assert offsets_on_disk(Path(cluster.configs[2].data_dir) / "t-0") == list(range(RECORDS))


@pytest.mark.parametrize("lose", LOSSES)
async def test_a_member_of_the_isr_that_lost_records_leaves_it_at_once(
    cluster: HandCluster, lose: Callable[[Path], None]
) -> None:
    """As after a power cut of all: no controller has seen the broker go."""
    await fill(cluster)
    await cluster.stop(2)
    lose(Path(cluster.configs[2].data_dir) / "t-0")
    await cluster.start(2)
    await cluster.update_metadata()
    await cluster.leader_and_isr(2, [("t", 0)])
    await until(lambda: ("t", 0, (1, 3)) in cluster.controller.changes)
    await until(lambda: set(cluster.controller.states["t", 0].isr) == {1, 2, 3})
    check_in_sync(cluster)
