"""Overload: a broker that gets more than it can take stays within its bounds, says so, and recovers by itself."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.broker import BrokerConfig
from odradek.protocol.errors import ErrorCode
from odradek.tests.support.brokers.connections import connections, requests_wait
from odradek.tests.support.brokers.loop_turns import measured_broker
from odradek.tests.support.brokers.overload import PATIENCE_S, TOPIC, Overload, SlowDisk, forget_peak, peak_bytes
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.seeds import IS_SOAK

MIB = 1024 * 1024
# Errors that tell a member to join again.
JOINED = {ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS}
# The broker has a loop of its own; which loop the clients run on says nothing about it.
pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])


@pytest.fixture(autouse=True)
def many_files() -> Iterator[None]:
    """Allow thousands of sockets, both ends of which are in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16_384), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def overload(folder: Path, load: Overload, fsync_s: float, memory_bytes: int) -> None:
    """Load a broker on a slow disk, and check that it is as before afterwards."""
    config = BrokerConfig(
        listeners=("PLAINTEXT://127.0.0.1:0",),
        log_dirs=(str(folder),),
        group_initial_rebalance_delay_ms=0,
        offsets_topic_num_partitions=1,
        transaction_state_log_num_partitions=1,
    )
    disk = SlowDisk(fsync_s)
    with measured_broker(config, disk) as measured:
        before = forget_peak()
        await load.run(measured.address)
        assert peak_bytes() - before < memory_bytes
        # Each producer waits for its batch, so ten wait for each fsync that is under way.
        assert load.producers >= 10 * disk.most_at_once > 0
        assert load.produced == {ErrorCode.NONE: load.producers * load.rounds}
        # A member that joins again and again misses a rebalance some time, and is told to come as a new one.
        assert load.joined.keys() <= (JOINED | {ErrorCode.UNKNOWN_MEMBER_ID} if load.rejoins else JOINED)
        # It is fair to others: nobody is answered again and again before them. A rebalance answers a whole group.
        assert load.most_before_neighbour <= 3 * load.clients
        disk.fsync_s = 0
        async with await Raw.connect(measured.address) as raw:
            result = await raw.produce(TOPIC, batch_of(b"after"))
            assert result.error_code == 0
            async with asyncio.timeout(PATIENCE_S):
                while measured.run(lambda: len(connections(measured.broker)) > 1):
                    await asyncio.sleep(0.01)
            assert not measured.run(lambda: requests_wait(measured.broker))
            assert measured.run(lambda: len(measured.broker.services.purgatory)) == 0


async def test_ten_times_more_than_the_disk_takes(tmp_path: Path) -> None:
    load = Overload(connections=300, producers=40, joins=60, rounds=4, seed=1)
    await overload(tmp_path, load, fsync_s=0.02, memory_bytes=100 * MIB)


@pytest.mark.skipif(not IS_SOAK, reason="minutes: make soak")
@pytest.mark.parametrize("seed", range(5))
async def test_much_more_than_a_broker_can_take(tmp_path: Path, seed: int) -> None:
    load = Overload(connections=5_000, producers=400, joins=1_000, rounds=10, seed=seed)
    await overload(tmp_path, load, fsync_s=0.05, memory_bytes=1_000 * MIB)


@pytest.mark.skipif(not IS_SOAK, reason="minutes: make soak")
async def test_a_hundred_thousand_joins(tmp_path: Path) -> None:
    """ODRADEK_SOAK_JOINS says how many, 100,000 by default."""
    members = 500
    joins = int(os.environ.get("ODRADEK_SOAK_JOINS", "100000"))
    load = Overload(connections=5_000, producers=50, joins=members, rounds=10, seed=9, rejoins=joins // members - 2)
    await overload(tmp_path, load, fsync_s=0.05, memory_bytes=500 * MIB)
    assert load.joined.total() == joins
