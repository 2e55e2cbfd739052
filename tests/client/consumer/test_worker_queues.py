"""The records that wait for workers: they cost the same for few workers and for many, and no worker rests meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from types import FrameType

import pytest
from odradek.client import ConsumerRecord
from odradek.client.consumer import workers
from odradek.tests.client.consumer.test_workers import consumer_for, write
from odradek.tests.support.fakes.fake_cluster import FakeCluster


async def calls_of_workers(count: int, concurrency: int, by_key: bool) -> int:
    """Return how many calls, of C functions too, the workers make for so many records."""
    calls = done = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call") and frame.f_code.co_filename == workers.__file__

    async def handler(_: ConsumerRecord) -> None:
        nonlocal done
        await asyncio.sleep(0)
        done += 1
        if done == count:
            os.kill(os.getpid(), signal.SIGTERM)

    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t") as consumer, asyncio.timeout(60):
        write(cluster, [b"%d" % number for number in range(count)])
        sys.setprofile(note)
        try:
            await consumer.consume(handler, concurrency=concurrency, by_key=by_key, drain_on=[signal.SIGTERM])
        finally:
            sys.setprofile(None)
    return calls


@pytest.mark.parametrize("by_key", [True, False])
async def test_a_record_costs_no_more_where_there_are_more_workers(by_key: bool) -> None:
    few, many = [
        await calls_of_workers(500, concurrency, by_key) - await calls_of_workers(100, concurrency, by_key)
        for concurrency in (10, 1_000)
    ]
    assert many < 2 * few


async def test_records_in_any_order_are_handled_by_all_workers_at_once() -> None:
    running = most = 0
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t") as consumer, asyncio.timeout(10):
        write(cluster, [b"the same key"] * 200)

        async def handler(_: ConsumerRecord) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            if most == 100:
                everybody.set()
            await everybody.wait()
            running -= 1

        everybody = asyncio.Event()
        task = asyncio.create_task(consumer.consume(handler, concurrency=100, by_key=False))
        await everybody.wait()
        await consumer.drain()
        await task
    assert most == 100
