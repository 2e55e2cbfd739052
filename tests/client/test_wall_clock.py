"""A wall clock that steps back and forth: it gives timestamps to records, and nothing waits or times out by it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from odradek.client import Consumer, Producer
from odradek.protocol.apis import ApiKey
from odradek.tests.support.fakes.fake_cluster import FakeCluster

DAY_NS = 86_400 * 10**9


async def test_a_client_goes_on_while_the_wall_clock_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    began_ns, steps = time.time_ns(), 0

    def jumping_ns() -> int:
        nonlocal steps
        steps += 1
        return began_ns + (DAY_NS if steps % 2 else -DAY_NS)

    monkeypatch.setattr(time, "time_ns", jumping_ns)
    monkeypatch.setattr(time, "time", lambda: jumping_ns() / 1e9)
    options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest", "max_poll_interval_ms": 60_000}
    options |= {"heartbeat_interval_ms": 5, "auto_commit_interval_ms": 5, "max_poll_records": 1}
    async with FakeCluster({"t": 1}) as cluster:
        async with (
            Producer(cluster.address, delivery_timeout_ms=60_000, linger_ms=5) as producer,
            Consumer("t", bootstrap_servers=cluster.address, **options) as consumer,
        ):
            read: list[bytes | None] = []
            for number in range(20):
                await producer.send_and_wait("t", b"%d" % number)
                read.append((await consumer.getone()).value)
                assert all((each.lag_seconds or 0) >= 0 for each in consumer.explain().partitions)
            while len(cluster.calls(ApiKey.HEARTBEAT)) < 3 or not cluster.calls(ApiKey.OFFSET_COMMIT):
                await consumer.getmany(timeout_ms=5)
        assert read == [b"%d" % number for number in range(20)]
        assert steps >= 20
        assert len(cluster.calls(ApiKey.JOIN_GROUP)) <= 2  # a member id, then its join: it has never left
        assert len(cluster.calls(ApiKey.PRODUCE)) == 20
