"""The promise of the ISR, checked on files: every offset from the leader's log start to its end, with right CRCs.

`WholeReplicas` is three brokers and a controller in one loop, by seed: records are produced, leaders move, and brokers
stop, lose files, and come back. Some go unseen and are in the ISR all the time. A broker that is to join the ISR must
have every committed record in its files, and one that has lost some must leave it before it has them again.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

from odradek.broker import BrokerConfig
from odradek.broker.log_dirs.log_dirs import LogDirs
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_partition import PartitionData
from odradek.protocol.records.batch import check_crc, read_header
from odradek.protocol.records.errors import RecordError
from odradek.storage.checkpoints import RECOVERY_POINT, write_offsets
from odradek.storage.config import LogConfig
from odradek.storage.errors import LogClosed
from odradek.storage.log import Log
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clusters.hand_cluster import HandCluster
from odradek.tests.support.waiting import until

STEPS = 6
VALUE_BYTES = 100_000
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


def kill_in_start(config: BrokerConfig) -> None:
    """Do what a start does that is killed as soon as it has opened the log: nobody is told of what it finds."""
    dirs = LogDirs.open(config)
    (home,) = dirs.online
    assert home.data is not None
    log = Log.open(
        Path(config.data_dir) / "t-0",
        LogConfig(segment_bytes=config.log_segment_bytes),
        clean=home.is_clean,
        now_ms=0,
        recovery_point=home.checkpoints.recovery_points.get(("t", 0), -1),
        log_start_offset=home.checkpoints.log_starts.get(("t", 0), 0),
        known=home.take_known("t-0"),
    )
    log.give_up(LogClosed(log.directory, "killed"))
    home.data.close()


def whole(cluster: HandCluster, node: int, leader: int, topic: str = "t", index: int = 0) -> bool:
    """Return whether the files of a broker hold everything that the leader has committed."""
    partition = cluster.partition(leader, topic, index)
    found = set(offsets_on_disk(Path(cluster.configs[node].data_dir) / f"{topic}-{index}"))
    return found >= set(range(partition.log.log_start_offset, partition.high_watermark))


class WholeReplicas:
    """See the module's text."""

    def __init__(self, folder: Path, chance: random.Random, *, is_seen: bool | None = None) -> None:
        """`is_seen`: whether the controller notes that a broker was away; None: by chance."""
        self.cluster = HandCluster(folder, replica_fetch_wait_max_ms=50, log_segment_bytes=1 << 20)
        self.chance = chance
        # What the controller was asked for though it must not be.
        self.broken: list[str] = []
        self._is_seen = is_seen
        self._number = 0

    async def __aenter__(self) -> WholeReplicas:
        await self.cluster.__aenter__()
        self.cluster.controller.judge = self._judge
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.cluster.__aexit__(*error)

    def _judge(self, topic: str, index: int, wanted: PartitionData) -> ErrorCode | None:
        state = self.cluster.controller.states[topic, index]
        for node in {each.broker_id for each in wanted.new_isr_with_epochs} - set(state.isr):
            if not whole(self.cluster, node, state.leader):
                self.broken.append(f"broker {node} is to join the ISR and lacks records")
        return None

    async def run(self) -> None:
        """Let things happen, and check the promise after each of them."""
        await self.cluster.assign("t", leader=1)
        await self._produce(25)
        for _ in range(STEPS):
            await self.chance.choice([self._bounce, self._bounce, self._move_leader, self._produce])()
            assert not self.broken, self.broken
            check_in_sync(self.cluster)

    async def _produce(self, count: int = 5) -> None:
        leader = self.cluster.controller.states["t", 0].leader
        async with await self.cluster.connect(leader) as raw:
            for _ in range(count):
                value = b"%0*d" % (VALUE_BYTES, self._number)
                assert (await raw.produce("t", batch_of(value), acks=-1, timeout_ms=20_000)).error_code == 0
                self._number += 1

    async def _move_leader(self) -> None:
        await self.cluster.assign("t", leader=self.chance.choice(self.cluster.controller.states["t", 0].isr))
        await self._settle()

    async def _bounce(self) -> None:
        """Stop a follower, let it lose something, and start it; the controller may have seen nothing of it."""
        cluster, state = self.cluster, self.cluster.controller.states["t", 0]
        node = self.chance.choice([each for each in state.replicas if each != state.leader])
        is_seen = self.chance.random() < 0.5 if self._is_seen is None else self._is_seen
        before = len(cluster.controller.changes)
        await cluster.stop(node)
        if is_seen:
            await cluster.assign("t", leader=state.leader, isr=[each for each in state.isr if each != node])
            await self._produce()
        self.chance.choice(LOSSES)(Path(cluster.configs[node].data_dir) / "t-0")
        if self.chance.random() < 0.5:
            kill_in_start(cluster.configs[node])
        await cluster.start(node)
        await cluster.update_metadata()
        await cluster.leader_and_isr(node, [("t", 0)])
        if not is_seen:
            await until(lambda: whole(cluster, node, state.leader))
            left = [isr for _, _, isr in cluster.controller.changes[before:] if node not in isr]
            assert left, f"broker {node} has lost records and stayed in the ISR"
        await self._settle()

    async def _settle(self) -> None:
        cluster = self.cluster
        await until(lambda: bool(self.broken) or set(cluster.controller.states["t", 0].isr) == {1, 2, 3})
        end = cluster.partition(cluster.controller.states["t", 0].leader).log.log_end_offset
        marks = [cluster.partition(node) for node in cluster.brokers]
        await until(lambda: bool(self.broken) or all(each.high_watermark == end for each in marks))
