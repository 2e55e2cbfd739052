"""The promise of the ISR, checked on files: every offset from the leader's log start to its end, with right CRCs."""

from __future__ import annotations

from pathlib import Path

from odradek.protocol.records.batch import check_crc, read_header
from odradek.protocol.records.errors import RecordError
from odradek.tests.support.hand_cluster import HandCluster


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
