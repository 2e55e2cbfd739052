"""A replica is in sync only if it holds every offset from its leader's log start to its end, each with a right CRC.

The files of one replica are damaged while its broker is away. The checks read files.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clusters.hand_cluster import HandCluster
from odradek.tests.support.clusters.whole_replicas import LOSSES, check_in_sync, crash_with_hole
from odradek.tests.support.waiting import until

RECORDS = 30


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[HandCluster]:
    async with HandCluster(tmp_path, replica_fetch_wait_max_ms=50, log_segment_bytes=1 << 20) as each:
        yield each


async def fill(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1)
    async with await cluster.connect(1) as raw:
        for number in range(RECORDS):
            answer = await raw.produce("t", batch_of(b"%0100000d" % number), acks=-1, timeout_ms=20_000)
            assert answer.error_code == 0


@pytest.mark.parametrize("lose", LOSSES)
async def test_a_member_of_the_isr_that_lost_records_leaves_it_at_once_and_copies_them_again(
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


async def test_a_leader_that_had_lost_records_keeps_what_it_was_given_since(cluster: HandCluster) -> None:
    """The last of the ISR leads although a batch is damaged. What it acknowledges then is cut by no later role."""
    await fill(cluster)
    await cluster.stop(2)
    crash_with_hole(Path(cluster.configs[2].data_dir) / "t-0")
    await cluster.start(2)
    await cluster.update_metadata()
    await cluster.assign("t", leader=2, isr=(2,))
    async with await cluster.connect(2) as raw:
        assert (await raw.produce("t", batch_of(b"more"), acks=-1, timeout_ms=20_000)).error_code == 0
    await until(lambda: set(cluster.controller.states["t", 0].isr) == {1, 2, 3})
    before = len(cluster.controller.changes)
    await cluster.assign("t", leader=1)
    async with await cluster.connect(1) as raw:
        assert (await raw.produce("t", batch_of(b"last"), acks=-1, timeout_ms=20_000)).error_code == 0
    assert cluster.controller.changes[before:] == []
    assert cluster.partition(2).log.log_end_offset == RECORDS + 2
