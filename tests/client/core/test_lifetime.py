"""One start and one stop of a client in one event loop, whatever tasks, loops and threads ask for at the wrong time."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import copy_context
from typing import Any

import pytest
from odradek.client import Admin, Consumer, Producer, SimpleConsumer, blocking
from odradek.client.core.lifetime import Lifetime
from odradek.client.errors import ClientStopped, WrongEventLoop
from odradek.protocol.apis import ApiKey
from odradek.tests.support.clients.stopping import in_time
from odradek.tests.support.fakes.cluster_thread import cluster_in_thread
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.fake_log import write
from odradek.tests.support.fakes.wire import Call
from odradek.tests.support.waiting import until

Task = asyncio.Task[None]
# The kinds of consumers, with their group protocols.
MEMBERS = {"Consumer": "auto", "classic Consumer": "classic"}
QUICK: dict[str, Any] = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5}


class Held:
    """Answers of a broker that come when the test says so."""

    def __init__(self, cluster: FakeCluster, key: ApiKey, times: int = 1) -> None:
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        cluster.on(key, *[self.answer] * times)

    async def answer(self, call: Call) -> Any:
        self.asked.set()
        await self.go.wait()
        return await call.default()


def make(kind: str, cluster: FakeCluster) -> Any:
    if kind == "Producer":
        return Producer(cluster.address, **QUICK)
    if kind in MEMBERS:
        options = {"group_id": "g", "auto_offset_reset": "earliest", "group_protocol": MEMBERS[kind], **QUICK}
        return Consumer("t", bootstrap_servers=cluster.address, **options)
    return Admin(cluster.address) if kind == "Admin" else SimpleConsumer(cluster.address)


def cluster_with_records() -> FakeCluster:
    cluster = FakeCluster({"t": 1})
    write_records(cluster)
    return cluster


@contextmanager
def cluster_with_records_in_thread() -> Iterator[FakeCluster]:
    with cluster_in_thread({"t": 1}) as cluster:
        write_records(cluster)
        yield cluster


def write_records(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 5)


async def is_over(cluster: FakeCluster, before: set[asyncio.Task[Any]]) -> None:
    """Wait until the broker has seen the last connection end, and no task is left."""
    await until(lambda: not any(node.writers for node in cluster.nodes.values()) and asyncio.all_tasks() == before)


async def with_work(client: Any) -> None:
    """Leave the client something to do in its stop."""
    if isinstance(client, Producer):
        await client.send("t", b"x")
    else:
        assert await client.getone()


STOPS = [("Producer", ApiKey.PRODUCE), ("Consumer", ApiKey.OFFSET_COMMIT)]
STOPS += [("classic Consumer", ApiKey.LEAVE_GROUP)]


@asynccontextmanager
async def stopping(kind: str, key: ApiKey, **limits: float) -> AsyncIterator[tuple[FakeCluster, Held, Any, Task]]:
    """Start a client, give it work, and stop it until it waits for the held answer to `key`."""
    async with cluster_with_records() as cluster:
        held = Held(cluster, key)
        client = make(kind, cluster)
        await client.start()
        await with_work(client)
        stop = asyncio.create_task(client.stop(**limits))
        await asyncio.wait_for(held.asked.wait(), 10)
        yield cluster, held, client, stop


@pytest.mark.parametrize(("kind", "key"), STOPS, ids=lambda each: getattr(each, "name", each))
async def test_stops_at_the_same_time_wait_for_the_same_end(kind: str, key: ApiKey) -> None:
    before = asyncio.all_tasks()
    async with stopping(kind, key) as (cluster, held, client, first):
        second = asyncio.create_task(client.stop())
        await asyncio.sleep(0.01)
        assert not first.done()
        assert not second.done()
        held.go.set()
        await second
        assert not client.is_connected
        await first
        await is_over(cluster, before)


@pytest.mark.parametrize(("kind", "key"), STOPS, ids=lambda each: getattr(each, "name", each))
async def test_the_earliest_limit_of_several_stops_holds(kind: str, key: ApiKey) -> None:
    async with stopping(kind, key, timeout_ms=60_000) as (_, held, client, first):
        await in_time(client.stop)
        await first
        held.go.set()


@pytest.mark.parametrize("kind", ["Producer", "Consumer", "Admin", "SimpleConsumer"])
async def test_a_client_that_is_stopped_while_it_starts_does_not_start(kind: str) -> None:
    before = asyncio.all_tasks()
    async with cluster_with_records() as cluster:
        held = Held(cluster, ApiKey.API_VERSIONS)
        client = make(kind, cluster)
        starting = asyncio.create_task(client.start())
        await asyncio.wait_for(held.asked.wait(), 10)
        await asyncio.wait_for(client.stop(), 5)
        with pytest.raises(ClientStopped, match="was stopped while it started"):
            await starting
        held.go.set()
        await is_over(cluster, before)


@pytest.mark.parametrize(("kind", "key"), STOPS, ids=lambda each: getattr(each, "name", each))
async def test_a_start_during_a_stop_waits_for_its_end_and_starts_again(kind: str, key: ApiKey) -> None:
    async with stopping(kind, key) as (_, held, client, stop):
        starting = asyncio.create_task(client.start())
        await asyncio.sleep(0.01)
        assert not starting.done()
        held.go.set()
        await asyncio.gather(stop, starting)
        await with_work(client)
        await client.stop()


async def test_a_stop_that_a_listener_asks_for_does_not_wait_for_the_stop_that_called_it() -> None:
    asked: list[str] = []

    class Listener:
        async def on_partitions_revoked(self, partitions: object) -> None:
            await consumer.stop()
            asked.append("stopped")

        async def on_partitions_assigned(self, partitions: object) -> None: ...

        async def on_partitions_lost(self, partitions: object) -> None: ...

    async with cluster_with_records() as cluster:
        consumer = Consumer(bootstrap_servers=cluster.address, group_id="g", auto_offset_reset="earliest", **QUICK)
        consumer.subscribe("t", listener=Listener())
        await consumer.start()
        assert await consumer.getone()
        await asyncio.wait_for(consumer.stop(), 10)
        assert asked == ["stopped"]
        assert cluster.group.left


def test_a_stop_that_a_blocking_listener_asks_for_does_not_wait_either() -> None:
    asked: list[str] = []

    class Listener:
        def on_partitions_revoked(self, partitions: object) -> None:
            consumer.stop()
            asked.append("stopped")

        def on_partitions_assigned(self, partitions: object) -> None: ...

        def on_partitions_lost(self, partitions: object) -> None: ...

    with cluster_with_records_in_thread() as cluster:
        consumer = blocking.Consumer(
            bootstrap_servers=cluster.address, group_id="g", auto_offset_reset="earliest", **QUICK
        )
        consumer.subscribe("t", listener=Listener())
        consumer.start()
        assert consumer.getone()
        consumer.stop()
        assert asked == ["stopped"]


CALLS: dict[str, list[Callable[[Any], Awaitable[Any]]]] = {
    "Producer": [
        lambda each: each.send("t", b"x"),
        lambda each: each.send_many("t", [(None, b"x")]),
        lambda each: each.send_values("t", [b"x"]),
        lambda each: asyncio.to_thread(each.send_nowait, "t", b"x"),
        lambda each: each.flush(),
        lambda each: each.partitions_for("t"),
        lambda each: each.start(),
        lambda each: each.stop(),
    ],
    "Consumer": [
        lambda each: each.getmany(),
        lambda each: each.getbatches(),
        lambda each: each.commit(),
        lambda each: each.committed(),
        lambda each: each.start(),
        lambda each: each.stop(),
    ],
    "Admin": [lambda each: each.list_topics(), lambda each: each.start(), lambda each: each.stop()],
    "SimpleConsumer": [lambda each: each.fetch("t", 0, 0), lambda each: each.start(), lambda each: each.stop()],
}


def errors_of(kind: str, client: Any) -> list[BaseException | None]:
    """Return what each call raises in a loop of its own."""

    async def one(call: Callable[[Any], Awaitable[Any]]) -> BaseException | None:
        try:
            await asyncio.wait_for(call(client), 5)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            return error
        return None

    return [asyncio.run(one(call)) for call in CALLS[kind]]


@pytest.mark.parametrize("kind", CALLS)
async def test_a_client_of_another_loop_says_so(kind: str) -> None:
    async with cluster_with_records() as cluster, make(kind, cluster) as client:
        for error in await asyncio.to_thread(errors_of, kind, client):
            assert isinstance(error, WrongEventLoop), error
            assert "was started in another event loop: call it there" in error.message


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_client_whose_loop_has_ended_says_so(kind: str) -> None:
    with cluster_with_records_in_thread() as cluster:
        client = make(kind, cluster)
        asyncio.run(client.start())
        for error in errors_of(kind, client):
            assert isinstance(error, WrongEventLoop | ClientStopped), error
            assert "its event loop" in error.message
        del client
        gc.collect()


@pytest.mark.parametrize("kind", CALLS)
def test_a_client_that_nobody_stopped_is_named_in_a_warning(kind: str) -> None:
    with cluster_with_records_in_thread() as cluster, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        client = make(kind, cluster)
        asyncio.run(client.start())
        del client
        gc.collect()
        named = [str(each.message) for each in caught if "was not stopped" in str(each.message)]
        assert len(named) == 1
        assert "use `async with`, or await stop() before the event loop ends" in named[0]


async def test_a_stop_that_its_loop_has_not_ended_is_closed_in_any_context() -> None:
    async def work() -> None:
        return

    async def endless() -> None:
        await asyncio.get_running_loop().create_future()

    lifetime = Lifetime("client")
    await lifetime.start(work)
    stop = lifetime.stop(work, endless)
    copy_context().run(stop.send, None)
    # As the collector does.
    stop.close()
    assert await lifetime.stop(endless)


async def test_a_consumer_that_is_lost_leaves_its_group_while_the_loop_runs(cluster: FakeCluster) -> None:
    consumer = Consumer("t", bootstrap_servers=cluster.address, group_id="g")
    await consumer.start()
    async with asyncio.timeout(60):
        while not consumer.assignment():
            await consumer.getmany(timeout_ms=5)
    await asyncio.sleep(0)  # Python 3.13 keeps the frames of a time-out until the step of the task has ended
    with pytest.warns(ResourceWarning, match="a consumer was not stopped"):
        del consumer
        gc.collect()
    async with asyncio.timeout(10):
        while not cluster.group.left or any(node.writers for node in cluster.nodes.values()):
            await asyncio.sleep(0)


async def test_a_program_that_cancels_all_tasks_learns_that_its_clients_are_over() -> None:
    async with cluster_with_records() as cluster:
        producer, consumer = make("Producer", cluster), make("Consumer", cluster)
        mine = asyncio.all_tasks()
        await asyncio.gather(producer.start(), consumer.start())
        held = Held(cluster, ApiKey.PRODUCE)
        future = await producer.send("t", b"x")
        assert await consumer.getone()
        await held.asked.wait()
        for task in asyncio.all_tasks() - mine:
            if task.get_name() in ("sender", "fetcher", "membership", "auto-commit", "metadata refresh"):
                task.cancel()
        for _ in range(3):
            with pytest.raises(ClientStopped, match="was cancelled: the program cancelled all tasks"):
                await consumer.getmany(timeout_ms=1_000)
            with pytest.raises(ClientStopped, match="was cancelled: the program cancelled all tasks"):
                await producer.send("t", b"x")
        with pytest.raises(ClientStopped):
            await future
        held.go.set()
        await asyncio.gather(producer.stop(), consumer.stop())


async def test_a_stop_beside_a_request_that_is_not_answered_leaves_no_error_that_nobody_retrieved(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with cluster_with_records() as cluster:
        held = Held(cluster, ApiKey.PRODUCE)
        producer = make("Producer", cluster)
        await producer.start()
        future = await producer.send("t", b"x")
        await asyncio.wait_for(held.asked.wait(), 10)
        await producer.stop(timeout_ms=0)
        with pytest.raises(ClientStopped):
            await future
        held.go.set()
    del producer
    gc.collect()
    assert "never retrieved" not in caplog.text
