"""Followers compact and retain by themselves, never past the high watermark, and stay equal to their leader."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from odradek.protocol.records.batch import decode_batch, encode_batch
from odradek.protocol.records.record import Record
from odradek.tests.support.brokers.compaction_here import compact_here
from odradek.tests.support.clusters.hand_cluster import HandCluster
from odradek.tests.support.waiting import until

NODES = (1, 2, 3)
KEYS = 5
# A segment holds ten of them.
VALUE_BYTES = 100_000
SMALL_SEGMENTS = {"log_segment_bytes": 1 << 20, "log_segment_delete_delay_ms": 0}
COMPACTED = {"log_cleanup_policy": ("compact",), "log_cleaner_backoff_ms": 20, "log_cleaner_min_cleanable_ratio": 0.0}


@pytest.fixture(autouse=True)
def jobs_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    compact_here(monkeypatch)


def record_bytes(number: int) -> bytes:
    return encode_batch([Record(-1, 1000, b"key-%d" % (number % KEYS), (b"%06d" % number) * (VALUE_BYTES // 6))])


async def produce(cluster: HandCluster, node: int, first: int, count: int, acks: int = -1) -> None:
    async with await cluster.connect(node) as raw:
        for number in range(first, first + count):
            answer = await raw.produce("t", record_bytes(number), acks=acks, timeout_ms=20_000)
            assert (answer.error_code, answer.base_offset) == (0, number)


def numbers(cluster: HandCluster, node: int) -> list[int]:
    """The records that a broker has: each holds the offset that it was given."""
    log = cluster.partition(node).log
    found = [
        (record.offset, int((record.value or b"")[:6]))
        for _, data in log.iter_batches(log.log_start_offset)
        for record in decode_batch(data)
    ]
    assert all(offset == number for offset, number in found)
    return [offset for offset, _ in found]


def is_compacted(cluster: HandCluster, node: int) -> bool:
    """Whether every closed segment holds the last record of each key at most."""
    log = cluster.partition(node).log
    closed = [each for each in numbers(cluster, node) if each < log.segments[-1].base_offset]
    return len(log.segments) > 1 and len({each % KEYS for each in closed}) == len(closed)


async def agree(cluster: HandCluster, end: int) -> None:
    """Wait until all that run have everything before `end`, and check that each key has the same last record."""

    def ends() -> set[int]:
        partitions = [cluster.partition(node) for node in cluster.brokers]
        return {offset for each in partitions for offset in (each.high_watermark, each.log.log_end_offset)}

    await until(lambda: ends() == {end})
    for node in cluster.brokers:
        # Each broker cleans its own log, so they differ in the records that newer ones have replaced.
        last = {number % KEYS: number for number in numbers(cluster, node)}
        assert sorted(last.values()) == list(range(end - KEYS, end))


async def test_followers_compact_and_one_that_was_away_catches_up_over_the_gaps(tmp_path: Path) -> None:
    async with HandCluster(tmp_path, replica_fetch_wait_max_ms=50, **SMALL_SEGMENTS, **COMPACTED) as cluster:
        await cluster.assign("t", leader=1)
        await produce(cluster, 1, 0, 30)
        await until(lambda: all(is_compacted(cluster, node) for node in NODES))
        await agree(cluster, 30)
        await cluster.stop(3)
        await cluster.assign("t", leader=1, isr=(1, 2), to=(1, 2))
        await produce(cluster, 1, 30, 30)
        await until(lambda: all(is_compacted(cluster, node) for node in (1, 2)))
        # What only an old leader has goes, also beside a log with gaps.
        await cluster.assign("t", leader=2, isr=(2,), to=(2,))
        await produce(cluster, 1, 60, 3, acks=1)
        assert len(numbers(cluster, 2)) < 60, "broker 3 fetches over gaps"
        await cluster.start(3)
        await cluster.update_metadata()
        await cluster.assign("t", leader=2, isr=(2,))
        await agree(cluster, 60)
        await until(lambda: set(cluster.controller.states["t", 0].isr) == set(NODES))
        await produce(cluster, 2, 60, 1)
        await agree(cluster, 61)


async def test_nothing_at_or_behind_the_high_watermark_is_compacted(tmp_path: Path) -> None:
    async with HandCluster(tmp_path, replica_fetch_wait_max_ms=50, **SMALL_SEGMENTS, **COMPACTED) as cluster:
        # Nobody fetches from it: nothing is committed.
        await cluster.assign("t", leader=1, to=(1,))
        await produce(cluster, 1, 0, 30, acks=1)
        partition = cluster.partition(1)
        rounds = cluster.brokers[1].services.background.cleaner
        for _ in range(5):
            await asyncio.sleep(0.02)
            await until(lambda: not rounds.is_busy)
        assert partition.high_watermark == 0
        assert numbers(cluster, 1) == list(range(30))
        # The cleaner runs: it takes the same log as soon as the followers have it.
        await cluster.assign("t", leader=1)
        await until(lambda: is_compacted(cluster, 1))


async def test_followers_delete_old_segments_by_themselves(tmp_path: Path) -> None:
    retained = {"log_retention_ms": -1, "log_retention_bytes": 2 << 20, "log_retention_check_interval_ms": 50}
    async with HandCluster(tmp_path, replica_fetch_wait_max_ms=50, **SMALL_SEGMENTS, **retained) as cluster:
        await cluster.assign("t", leader=1)
        await produce(cluster, 1, 0, 60)
        await until(lambda: all(cluster.partition(node).log.log_start_offset > 20 for node in NODES))
        await agree(cluster, 60)
        for node in NODES:
            log = cluster.partition(node).log
            assert log.segments[0].base_offset == numbers(cluster, node)[0] <= log.log_start_offset
            assert sum(each.size for each in log.segments) < 4 << 20
