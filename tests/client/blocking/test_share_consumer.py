"""The blocking share consumer: the same calls, from any thread."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from odradek.client.blocking import ShareConsumer
from odradek.client.errors import ClientStopped
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.fake_log import write

ACCEPT, REJECT = 1, 3


async def with_records(count: int, work: Any) -> FakeCluster:
    """Call `work` in a thread with the address of a cluster whose topic has so many records. Return the cluster."""
    async with FakeCluster({"t": 1}) as cluster:
        write(cluster.log("t"), count)
        await asyncio.to_thread(work, cluster.address)
        return cluster


def kinds(cluster: FakeCluster) -> list[int]:
    return [cluster.share_group.settled[each] for each in sorted(cluster.share_group.settled)]


async def test_records_are_taken_one_by_one_and_accepted() -> None:
    def work(address: str) -> None:
        with ShareConsumer("t", group_id="g", bootstrap_servers=address) as consumer:
            assert consumer.subscription() == {"t"}
            assert [next(consumer).value for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]

    cluster = await with_records(5, work)
    assert kinds(cluster) == [ACCEPT] * 5
    assert cluster.share_group.left


async def test_any_thread_says_what_became_of_a_record() -> None:
    def work(address: str) -> None:
        options = {"group_id": "g", "bootstrap_servers": address, "share_acknowledgement_mode": "explicit"}
        with ShareConsumer("t", **options) as consumer:
            while not (found := consumer.getmany(timeout_ms=100, max_records=2)):
                pass
            ((first, second),) = found.values()
            consumer.renew(first)
            assert consumer.lock_left_ms(first) > 0
            other = threading.Thread(target=lambda: (consumer.accept(first), consumer.reject(second)))
            other.start()
            other.join()
            consumer.commit()

    assert kinds(await with_records(2, work)) == [ACCEPT, REJECT]


async def test_a_stop_by_another_thread_ends_the_iteration() -> None:
    def work(address: str) -> None:
        consumer = ShareConsumer("t", group_id="g", bootstrap_servers=address)
        consumer.start()
        read: list[Any] = []
        reader = threading.Thread(target=lambda: read.extend(consumer))
        reader.start()
        consumer.stop()
        reader.join(30)
        assert not reader.is_alive()
        with pytest.raises(ClientStopped):
            consumer.getmany()

    await with_records(1, work)


async def test_handlers_run_in_threads() -> None:
    def work(address: str) -> None:
        threads: set[str] = set()
        with ShareConsumer("t", group_id="g", bootstrap_servers=address) as consumer:

            def handle(record: Any) -> None:
                threads.add(threading.current_thread().name.rpartition("_")[0])
                if record.offset == 1:
                    consumer.reject(record)
                if record.offset == 9:
                    consumer.drain()

            consumer.consume(handle, concurrency=2)
        assert threads == {"odradek-handler"}

    cluster = await with_records(10, work)
    assert kinds(cluster) == [ACCEPT, REJECT, *[ACCEPT] * 8]
