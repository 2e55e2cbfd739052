"""`ShareConsumer.consume`: what becomes of each record, how long it is locked, and how it ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from odradek.client import ShareConsumer, ShareRecord
from odradek.client.errors import ConcurrentPoll, InvalidOption
from odradek.client.share import held_records
from odradek.client.share.deliveries import Acknowledgement
from odradek.protocol.apis import ApiKey
from odradek.tests.client.share.workers import explicit, kinds, take, worker
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.fake_log import write
from odradek.tests.support.fakes.wire import Call
from odradek.tests.support.waiting import until

ACCEPT, REJECT = Acknowledgement.ACCEPT, Acknowledgement.REJECT
QUICK: dict[str, Any] = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_records, "_LOOK_MS", 2)


async def consume(consumer: ShareConsumer[Any, Any], handle: Any, **options: Any) -> None:
    async with asyncio.timeout(30):
        await consumer.consume(handle, **QUICK | options)


def until_it_is_lost(consumer: ShareConsumer[Any, Any]) -> Callable[[ShareRecord[Any, Any]], Awaitable[None]]:
    """Return a handler that lasts until the lock of its record has ended, and then drains the consumer."""

    async def handle(record: ShareRecord[Any, Any]) -> None:
        await until(lambda: not consumer.lock_left_ms(record))
        await consumer.drain()

    return handle


@pytest.mark.parametrize("consumer_of", [worker, explicit])
async def test_what_a_handler_has_done_is_accepted(cluster: FakeCluster, consumer_of: Any) -> None:
    write(cluster.log("t"), 50)
    seen: list[int] = []
    async with consumer_of(cluster) as consumer:

        async def handle(record: ShareRecord[Any, Any]) -> None:
            seen.append(record.offset)
            await asyncio.sleep(0)
            if len(seen) == 50:
                await consumer.drain()

        await consume(consumer, handle, concurrency=4)
        assert kinds(cluster) == dict.fromkeys(range(50), ACCEPT)
    assert sorted(seen) == list(range(50))


async def test_a_handler_may_say_itself_what_becomes_of_a_record(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 3)
    async with worker(cluster) as consumer:

        async def handle(record: ShareRecord[Any, Any]) -> None:
            if record.offset == 1:
                consumer.reject(record)
            if record.offset == 2:
                await consumer.drain()

        await consume(consumer, handle)
    assert kinds(cluster) == {0: ACCEPT, 1: REJECT, 2: ACCEPT}


async def test_a_record_whose_handler_fails_is_released_after_a_pause_and_comes_again(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 2)
    counts: list[tuple[int, int]] = []
    async with worker(cluster) as consumer:

        async def handle(record: ShareRecord[Any, Any]) -> None:
            counts.append((record.offset, record.delivery_count))
            if record.offset == 0 and record.delivery_count < 3:
                raise RuntimeError("not yet")
            if len(counts) == 4:
                await consumer.drain()

        await consume(consumer, handle)
    assert sorted(counts) == [(0, 1), (0, 2), (0, 3), (1, 1)]
    assert kinds(cluster) == {0: ACCEPT, 1: ACCEPT}


async def test_what_pauses_or_waits_at_the_end_is_released(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 10)
    async with worker(cluster) as consumer:

        async def handle(record: ShareRecord[Any, Any]) -> None:
            if record.offset == 0:
                raise RuntimeError("later")
            await consumer.drain()
            await asyncio.Event().wait()

        await consume(consumer, handle, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000, drain_timeout_ms=1)
        assert (kinds(cluster), cluster.share_group.acquired) == ({}, {})


async def test_locks_are_renewed_while_a_handler_runs(cluster: FakeCluster) -> None:
    cluster.share_group.lock_ms = 200
    write(cluster.log("t"), 3)
    done = asyncio.Event()
    async with worker(cluster) as consumer:

        async def handle(record: ShareRecord[Any, Any]) -> None:
            if record.offset == 0:
                await until(lambda: len(cluster.share_group.renewed) >= 3 * 3)
                done.set()
            if record.offset == 2:
                await consumer.drain()

        await consume(consumer, handle)
    assert done.is_set() and kinds(cluster) == dict.fromkeys(range(3), ACCEPT)


async def test_a_handler_that_lasts_too_long_loses_its_record(cluster: FakeCluster) -> None:
    cluster.share_group.lock_ms = 100
    write(cluster.log("t"), 1)
    async with worker(cluster, max_poll_interval_ms=1) as consumer:
        await consume(consumer, until_it_is_lost(consumer))
    assert cluster.share_group.renewed == [] and len(set(cluster.share_group.left)) == 1


async def test_where_renewals_are_rejected_each_record_is_tried_once(cluster: FakeCluster) -> None:
    cluster.share_group.lock_ms = 150
    cluster.share_group.may_renew = False
    write(cluster.log("t"), 3)
    async with worker(cluster) as consumer:
        await consume(consumer, until_it_is_lost(consumer))
    assert cluster.share_group.renewed == []


async def test_a_stop_waits_for_the_handlers(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 1)
    begun = asyncio.Event()
    consumer = worker(cluster)
    await consumer.start()

    async def handle(record: ShareRecord[Any, Any]) -> None:
        begun.set()
        await asyncio.sleep(0.02)

    consuming = asyncio.create_task(consumer.consume(handle, **QUICK))
    async with asyncio.timeout(20):
        await begun.wait()
        await consumer.stop()
        await consuming
    assert kinds(cluster) == {0: ACCEPT}


async def test_a_handler_may_stop_the_consumer(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 1)
    consumer = worker(cluster)
    await consumer.start()

    async def handle(record: ShareRecord[Any, Any]) -> None:
        await consumer.stop()

    await consume(consumer, handle)
    assert kinds(cluster) == {0: ACCEPT}


async def test_a_signal_ends_it(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 1)
    async with worker(cluster) as consumer:

        async def handle(record: ShareRecord[Any, Any]) -> None:
            signal.raise_signal(signal.SIGUSR1)

        await consume(consumer, handle, drain_on=[signal.SIGUSR1])
    assert kinds(cluster) == {0: ACCEPT}


async def test_it_is_one_at_a_time_and_its_options_are_checked(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 1)
    async with worker(cluster) as consumer:

        async def handle(record: ShareRecord[Any, Any]) -> None:
            with pytest.raises(ConcurrentPoll):
                await consumer.consume(handle)
            await consumer.drain()

        with pytest.raises(InvalidOption):
            await consumer.consume(handle, concurrency=0)
        await consume(consumer, handle)


async def test_a_record_that_cannot_be_deserialized_is_released(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 2)

    def deserialize(data: bytes) -> int:
        if data == b"0":
            raise ValueError("no number")
        return int(data)

    async with worker(cluster, value_deserializer=deserialize) as consumer:

        async def handle(record: ShareRecord[Any, Any]) -> None:
            await consumer.drain()

        await consume(consumer, handle, concurrency=2)
    assert kinds(cluster)[1] == ACCEPT


async def test_what_no_handler_will_soon_have_stays_with_the_group(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_records, "_LOOK_MS", 100)
    cluster.share_group.lock_ms = 600
    write(cluster.log("t"), 500)
    held: list[int] = []
    async with worker(cluster) as consumer:

        async def handle(record: ShareRecord[Any, Any]) -> None:
            if record.offset in (0, 1):
                await until(lambda: min(cluster.share_group.renewed.count(each) for each in (0, 1)) >= 2)
                held.append(len(cluster.share_group.acquired))
            if record.offset == 499:
                await consumer.drain()

        await consume(consumer, handle, concurrency=2)
    assert held[0] == 2
    asked = [call.request.max_records for call in cluster.calls(ApiKey.SHARE_FETCH)]
    assert asked[0] == 2 < max(asked) <= 500


async def test_locks_are_renewed_of_what_was_fetched_and_no_worker_has(cluster: FakeCluster) -> None:
    cluster.share_group.lock_ms, cluster.share_group.gives_whole_batches = 600, True
    write(cluster.log("t"), 60)
    async with worker(cluster) as consumer:

        async def handle(record: ShareRecord[Any, Any]) -> None:
            if record.offset == 0:
                await until(lambda: set(cluster.share_group.renewed) >= set(range(60)))
            if record.offset == 59:
                await consumer.drain()

        await consume(consumer, handle)
        assert kinds(cluster) == dict.fromkeys(range(60), ACCEPT)


async def test_a_leader_that_does_not_answer_holds_no_other_renewal_up() -> None:
    answers, default = asyncio.Event(), None

    async def acknowledge(call: Call) -> Any:
        if call.node.node_id == 2:
            await answers.wait()
        assert default is not None
        return await default(call)

    async with FakeCluster({"t": 2}, nodes=2) as cluster:
        default, cluster.defaults[ApiKey.SHARE_ACKNOWLEDGE] = cluster.defaults[ApiKey.SHARE_ACKNOWLEDGE], acknowledge
        cluster.share_group.lock_ms = 600
        for number in range(2):
            write(cluster.log("t", number), 1)
        async with worker(cluster) as consumer:

            async def handle(record: ShareRecord[Any, Any]) -> None:
                if record.partition == 0:
                    await until(lambda: len(cluster.share_group.renewed) >= 2)
                    answers.set()
                    await consumer.drain()
                else:
                    await answers.wait()

            await consume(consumer, handle, concurrency=2)
            assert kinds(cluster)[0] == ACCEPT


async def test_a_record_that_is_lost_is_not_in_the_way_of_later_polls(cluster: FakeCluster) -> None:
    cluster.share_group.lock_ms = 200
    write(cluster.log("t"), 1)
    async with explicit(cluster, max_poll_interval_ms=1) as consumer:
        await consume(consumer, until_it_is_lost(consumer))
        assert await consumer.getmany() == {}


async def test_a_record_that_is_settled_while_its_renewal_waits_spoils_no_other(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 3)
    async with explicit(cluster) as consumer:
        first, second, third = await take(consumer, 3)
        cluster.share_group.wait_s, fetches = 0.1, len(cluster.calls(ApiKey.SHARE_FETCH))
        await consumer.renew(first, second, third)
        async with asyncio.timeout(20):
            while len(cluster.calls(ApiKey.SHARE_FETCH)) == fetches:
                await consumer.getmany()
        # What follows waits for the answer to the fetch.
        consumer.accept(first)
        consumer.commit_soon()
        renewal = asyncio.create_task(consumer.renew(second, third))
        await asyncio.sleep(0)
        consumer.accept(second)
        await renewal
        consumer.accept(third)
        await consumer.commit()
    assert kinds(cluster) == dict.fromkeys(range(3), ACCEPT)
