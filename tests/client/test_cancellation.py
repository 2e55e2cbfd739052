"""Cancellation at any await of any call leaves a client usable, and nothing behind: no task, no socket, no warning.

Each case is one call. It is cancelled at its first await, in a new cluster at its second, and so on, until it ends
before its turn comes. After each cancellation the client does all its work, and stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest
from odradek.client import Admin, Consumer, ConsumerRecord, Producer, ShareConsumer, SimpleConsumer, TopicPartition
from odradek.client.errors import KafkaError
from odradek.tests.support.cancellation import cancelled_at
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.fake_log import write
from odradek.tests.support.fakes.fake_transactions import committed

QUICK: dict[str, Any] = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5}
PLACES = [TopicPartition("t", number) for number in range(2)]
WITHIN_S = 20
TURNS = 5


@asynccontextmanager
async def nothing_left_behind() -> AsyncGenerator[FakeCluster]:
    """Yield a cluster. In the end no task of a client may be there, no connection, and no complaint of asyncio's."""
    loop = asyncio.get_running_loop()
    complaints: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    try:
        async with FakeCluster({"t": 2, "in": 1}) as cluster, asyncio.timeout(WITHIN_S):
            for partition in PLACES:
                write(cluster.log(*partition), 5)
            yield cluster
            while any(node.writers for node in cluster.nodes.values()):
                await asyncio.sleep(0)  # until the cluster has heard that the connections are closed
            for _ in range(TURNS):  # in which the cluster's own tasks for them end
                await asyncio.sleep(0)
            left = asyncio.all_tasks() - {asyncio.current_task()} - cluster.tasks
            assert {task.get_name() for task in left} == set()
    finally:
        loop.set_exception_handler(None)
    assert complaints == []


@dataclass
class Case:
    """A call of a client, which `prepare` makes. `check` has the client do all its work, and stops it."""

    prepare: Callable[[FakeCluster], Any]
    # Whether the client is started before the call.
    started: bool
    call: Callable[[Any], Coroutine[Any, Any, object]]
    check: Callable[[FakeCluster, Any], Awaitable[None]]


async def check_each_await(case: Case, *, late: bool) -> int:
    """Cancel a call at each of its awaits. Return how many it has."""
    number = 0
    while True:
        number += 1
        async with nothing_left_behind() as cluster:
            client = case.prepare(cluster)
            if case.started:
                await client.start()
            try:
                more, task = await cancelled_at(number, case.call(client), late=late)
                if not more:
                    task.result()
                elif not task.cancelled():
                    # It had no await left that could be interrupted, or told its caller what it was about to tell.
                    with suppress(KafkaError):
                        task.result()
                await case.check(cluster, client)
            except BaseException as error:
                error.add_note(f"cancelled at await {number}")
                raise
            finally:
                await client.stop()
                await client.stop()
        if not more:
            return number - 1


# -- Producers


def producer(cluster: FakeCluster) -> Producer:
    return Producer(cluster.address, linger_ms=1, batch_size=40, **QUICK)


async def check_producer(cluster: FakeCluster, client: Producer) -> None:
    """Records of one call are in the log once and in order, as far as the call came."""
    await client.start()
    await client.send_many("t", [(None, b"a%d" % number) for number in range(9)], partition=0)
    await client.send_and_wait("t", b"end", partition=1)
    await client.stop()
    for partition in range(2):
        values = cluster.values("t", partition)
        assert len(values) == len(set(values)), "a record is there twice"
    assert [value for value in cluster.values("t") if value and value[:1] == b"a"] == [b"a%d" % n for n in range(9)]
    early = [value for value in cluster.values("t") if value and value[:1] == b"b"]
    assert early == [b"b%d" % number for number in range(len(early))]


async def send_one(client: Producer) -> None:
    await client.send_and_wait("t", b"b0", partition=0)


async def send_many(client: Producer) -> None:
    await client.send_many("t", [(None, b"b%d" % number) for number in range(9)], partition=0)


async def send_values(client: Producer) -> None:
    await client.send_values("t", [b"b%d" % number for number in range(9)], partition=0)


async def send_and_flush(client: Producer) -> None:
    await client.send("t", b"b0", partition=0)
    await client.flush()


async def send_and_stop(client: Producer) -> None:
    sent = await client.send("t", b"b0", partition=0)
    sent.add_done_callback(lambda done: done.exception())  # a stop that is cancelled fails it
    await client.stop()


async def start(client: Any) -> None:
    await client.start()


async def partitions_for(client: Producer | Consumer) -> None:
    assert await client.partitions_for("in") == [0]


# -- Transactions


def transactional(cluster: FakeCluster) -> Producer:
    cluster.transactions.version = 2
    return Producer(cluster.address, transactional_id="x", linger_ms=1, max_block_ms=5_000, **QUICK)


async def check_transactions(cluster: FakeCluster, client: Producer) -> None:
    """What was under way can be ended; then another transaction commits."""
    try:
        await client.start()
        with suppress(KafkaError):
            await client.abort_transaction()
        async with client.transaction():
            await client.send("t", b"end", partition=0)
            await client.send_offsets({TopicPartition("in", 0): 7}, "g")
    finally:
        await client.stop()
    seen = [value for value in committed(cluster.log("t").batches) if value in (b"one", b"two", b"end")]
    assert seen in ([b"end"], [b"one", b"two", b"end"])
    assert cluster.group.committed["in", 0] == 7


async def transaction(client: Producer) -> None:
    async with client.transaction():
        await client.send("t", b"one", partition=0)
        await client.send_offsets({TopicPartition("in", 0): 3}, "g")
        await client.send("t", b"two", partition=0)


async def aborted_transaction(client: Producer) -> None:
    await client.begin_transaction()
    await client.send_and_wait("t", b"one", partition=0)
    await client.abort_transaction()


async def open_transaction_and_stop(client: Producer) -> None:
    await client.begin_transaction()
    await client.send_and_wait("t", b"one", partition=0)
    await client.stop()


# -- Consumers


def consumer(cluster: FakeCluster) -> Consumer:
    options: dict[str, Any] = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 5, "max_poll_records": 3}
    return Consumer("t", bootstrap_servers=cluster.address, group_id="g", **options, **QUICK)


READ: dict[TopicPartition, list[int]] = {}


def take(records: dict[TopicPartition, list[Any]]) -> None:
    for partition, some in records.items():
        READ[partition] += [record.offset for record in some]


async def check_consumer(cluster: FakeCluster, client: Consumer) -> None:
    """Every record is returned once and in order; again, if the consumer has left its group and did not commit it."""
    if client._session is None or not client.subscription():  # pyright: ignore[reportPrivateUsage]
        for partition in PLACES:
            READ[partition] = READ[partition][: cluster.group.committed.get((partition.topic, partition.partition), 0)]
    await client.start()
    if not client.subscription():
        client.subscribe("t")
    while sum(map(len, READ.values())) < 10:
        take(await client.getmany(timeout_ms=50))
    await client.commit()
    assert {partition: [0, 1, 2, 3, 4] for partition in PLACES} == READ
    await client.stop()
    assert cluster.group.committed == {("t", 0): 5, ("t", 1): 5}


async def poll(client: Consumer) -> None:
    while not READ[PLACES[0]]:
        take(await client.getmany(timeout_ms=1_000))


async def get_one(client: Consumer) -> None:
    record = await client.getone()
    READ[TopicPartition(record.topic, record.partition)].append(record.offset)
    async for record in client:
        READ[TopicPartition(record.topic, record.partition)].append(record.offset)
        break


async def ask_offsets(client: Consumer) -> None:
    while not client.assignment():
        take(await client.getmany(timeout_ms=5))
    assert await client.position(PLACES[0]) >= 0
    assert (await client.committed(PLACES[0])).keys() == {PLACES[0]}
    assert await client.end_offsets(PLACES) == {PLACES[0]: 5, PLACES[1]: 5}
    await client.offsets_for_times({PLACES[0]: 0})


async def poll_and_commit(client: Consumer) -> None:
    await poll(client)
    await client.commit()


async def consume_all(client: Consumer) -> None:
    async def handle(record: ConsumerRecord) -> None:
        await asyncio.sleep(0)
        if sum(map(len, READ.values())) == 9:
            await client.stop()
        READ[TopicPartition(record.topic, record.partition)].append(record.offset)

    await client.consume(handle, concurrency=1, drain_on=())


async def poll_and_unsubscribe(client: Consumer) -> None:
    await poll(client)
    await client.unsubscribe()


async def poll_and_stop(client: Consumer) -> None:
    await poll(client)
    await client.stop()


# -- Share consumers


def share(cluster: FakeCluster) -> ShareConsumer:
    return ShareConsumer("t", bootstrap_servers=cluster.address, group_id="g", max_poll_records=3, **QUICK)


async def check_share(cluster: FakeCluster, client: ShareConsumer) -> None:
    """Every record is seen, and none is accepted that was not. All locks are given back."""
    group = cluster.share_group
    if client._session is None:  # pyright: ignore[reportPrivateUsage]
        group.lose_sessions()  # as a broker does where a connection closes
    await client.start()
    while len(group.settled) < 10:
        take(await client.getmany(timeout_ms=20))
    await client.stop()
    assert {(place, offset) for place in PLACES for offset in READ[place]} >= group.settled.keys()
    assert group.acquired == {}


async def share_poll(client: ShareConsumer) -> None:
    for _ in range(2):
        take(await client.getmany(timeout_ms=1_000))


async def share_commit(client: ShareConsumer) -> None:
    take(await client.getmany(timeout_ms=1_000))
    await client.commit()


async def share_stop(client: ShareConsumer) -> None:
    take(await client.getmany(timeout_ms=1_000))
    await client.stop()


# -- Others


def simple(cluster: FakeCluster) -> SimpleConsumer:
    return SimpleConsumer("127.0.0.1", cluster.nodes[1].port)


async def check_simple(cluster: FakeCluster, client: SimpleConsumer) -> None:
    await client.start()
    await ask_simple(client)
    await client.stop()


async def ask_simple(client: SimpleConsumer) -> None:
    assert len((await client.fetch("t", 0, 0)).records) == 5
    assert len(await client.multifetch(dict.fromkeys(PLACES, 0))) == 2
    assert await client.offsets_before("t", 0)
    await client.find_leader("t", 0)
    await client.find_coordinator("g")
    await client.commit_offsets("g", {PLACES[0]: 1})
    await client.fetch_offsets("g", [PLACES[0]])


async def stop(client: Any) -> None:
    await client.stop()


def admin(cluster: FakeCluster) -> Admin:
    return Admin(cluster.address, **QUICK)


async def ask_admin(client: Admin) -> None:
    assert "t" in await client.list_topics()
    await client.describe_topics("t")
    await client.list_group_offsets("g")
    await client.list_offsets(dict.fromkeys(PLACES, -1))
    await client.describe_features()


async def check_admin(cluster: FakeCluster, client: Admin) -> None:
    await client.start()
    await ask_admin(client)
    await client.stop()


CASES = {
    "producer: start": Case(producer, False, start, check_producer),
    "producer: send_and_wait": Case(producer, True, send_one, check_producer),
    "producer: send_many": Case(producer, True, send_many, check_producer),
    "producer: send_values": Case(producer, True, send_values, check_producer),
    "producer: flush": Case(producer, True, send_and_flush, check_producer),
    "producer: partitions_for": Case(producer, True, partitions_for, check_producer),
    "producer: stop": Case(producer, True, send_and_stop, check_producer),
    "transactions: start": Case(transactional, False, start, check_transactions),
    "transactions: commit": Case(transactional, True, transaction, check_transactions),
    "transactions: abort": Case(transactional, True, aborted_transaction, check_transactions),
    "transactions: stop": Case(transactional, True, open_transaction_and_stop, check_transactions),
    "consumer: start": Case(consumer, False, start, check_consumer),
    "consumer: getmany": Case(consumer, True, poll, check_consumer),
    "consumer: getone": Case(consumer, True, get_one, check_consumer),
    "consumer: offsets": Case(consumer, True, ask_offsets, check_consumer),
    "consumer: partitions_for": Case(consumer, True, partitions_for, check_consumer),
    "consumer: commit": Case(consumer, True, poll_and_commit, check_consumer),
    "consumer: consume": Case(consumer, True, consume_all, check_consumer),
    "consumer: unsubscribe": Case(consumer, True, poll_and_unsubscribe, check_consumer),
    "consumer: stop": Case(consumer, True, poll_and_stop, check_consumer),
    "share consumer: getmany": Case(share, True, share_poll, check_share),
    "share consumer: commit": Case(share, True, share_commit, check_share),
    "share consumer: stop": Case(share, True, share_stop, check_share),
    "simple consumer: start": Case(simple, False, start, check_simple),
    "simple consumer: calls": Case(simple, True, ask_simple, check_simple),
    "simple consumer: stop": Case(simple, True, stop, check_simple),
    "admin: start": Case(admin, False, start, check_admin),
    "admin: calls": Case(admin, True, ask_admin, check_admin),
    "admin: stop": Case(admin, True, stop, check_admin),
}


# Those that are also cancelled in the turn in which what they wait for is done: records or acknowledgements are lost.
LATE = ("transactions: commit", "consumer: getmany", "consumer: commit", "share consumer: getmany", "producer: flush")


@pytest.mark.parametrize(("name", "late"), [*((name, False) for name in CASES), *((name, True) for name in LATE)])
async def test_a_call_that_is_cancelled_leaves_its_client_usable(name: str, late: bool) -> None:
    case = CASES[name]

    def prepare(cluster: FakeCluster) -> Any:
        READ.clear()
        READ.update({partition: [] for partition in PLACES})
        return case.prepare(cluster)

    assert await check_each_await(Case(prepare, case.started, case.call, case.check), late=late) > 0
