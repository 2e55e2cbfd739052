"""The promise of the ISR, checked on files: every offset from the leader's log start to its end, with right CRCs.

`LOSSES` are what may become of a replica's folder while its broker is away.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from odradek.protocol.records.batch import check_crc, read_header
from odradek.protocol.records.errors import RecordError
from odradek.storage.checkpoints import RECOVERY_POINT, write_offsets
from odradek.tests.support.clusters.hand_cluster import HandCluster

CLEAN_STOP = ".kafka_cleanshutdown"


def offsets_on_disk(folder: Path) -> list[int]:
    """Return the offsets of the sound batches in a partition's log files, up to the first bad byte of each."""
    found: list[int] = []
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        position = 0
        while position < len(data):
            try:
                header = read_header(data, position)
                check_crc(data, position, header)
            except RecordError:
                break
            found += range(header.base_offset, header.next_offset)
            position += header.size_bytes
    return found


def check_in_sync(cluster: HandCluster, topic: str = "t", index: int = 0) -> None:
    """Assert that every running member of the ISR has the leader's committed offsets, each once, in its files."""
    state = cluster.controller.states[topic, index]
    leader = cluster.partition(state.leader, topic, index)
    wanted = range(leader.log.log_start_offset, leader.high_watermark)
    for node in state.isr:
        if node in cluster.brokers:
            found = offsets_on_disk(Path(cluster.configs[node].data_dir) / f"{topic}-{index}")
            assert [each for each in found if each in wanted] == list(wanted), f"broker {node} lacks records"


# -- Losses


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
    (folder.parent / CLEAN_STOP).unlink()
    write_recovery_point(folder, 13)
    zero_one_batch(folder)


def crash_with_hole_behind_recovery_point(folder: Path) -> None:
    (folder.parent / CLEAN_STOP).unlink()
    write_recovery_point(folder, 3)
    zero_one_batch(folder)


def write_recovery_point(folder: Path, offset: int) -> None:
    write_offsets(folder.parent / RECOVERY_POINT, {("t", 0): offset})


def lose_recovery_point(folder: Path) -> None:
    (folder.parent / CLEAN_STOP).unlink()
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
