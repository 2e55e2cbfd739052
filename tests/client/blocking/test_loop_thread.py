"""The thread of the blocking clients: it is shared, ends with the last client, and stays out of forks and exits."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.client import NewTopic, TopicPartition
from odradek.client.blocking import Admin, Consumer, Producer, wait_for_broker
from odradek.client.blocking.loop_thread import Call, leased
from odradek.client.errors import ClientStopped, NoBrokerReachable
from odradek.protocol.apis import ApiKey
from odradek.tests.support.fakes.cluster_thread import cluster_in_thread
from odradek.tests.support.fakes.fake_cluster import FakeCluster

WITHIN_S = 20
QUICK: dict[str, Any] = {"retry_backoff_ms": 1, "heartbeat_interval_ms": 5}


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with cluster_in_thread({"t": 1}) as each:
        yield each


def runs() -> int:
    return [each.name for each in threading.enumerate()].count("odradek-client")


def started(producer: Producer[bytes, bytes]) -> Producer[bytes, bytes]:
    producer.start()
    return producer


def test_clients_share_one_thread_that_ends_with_the_last_of_them(cluster: FakeCluster) -> None:
    assert runs() == 0
    producer = Producer(cluster.address)
    assert runs() == 0
    with Admin(cluster.address) as admin:
        producer.start()
        with Consumer("t", bootstrap_servers=cluster.address):
            assert runs() == 1
        assert admin.list_topics() == ["t"]
    assert runs() == 1
    producer.stop()
    assert runs() == 0
    producer.stop()
    assert wait_for_broker(cluster.address)[0].node_id == 1
    assert runs() == 0


def test_nothing_is_left_of_a_client_that_could_not_start() -> None:
    with pytest.raises(NoBrokerReachable), Admin("127.0.0.1:1", default_api_timeout_ms=50):
        pytest.fail("started")
    assert runs() == 0


async def test_a_program_with_an_event_loop_may_use_blocking_clients(cluster: FakeCluster) -> None:
    """As a cell of a notebook does: the call blocks the cell's loop, and needs none of its turns."""
    assert asyncio.get_running_loop()
    with Producer(cluster.address) as producer:
        assert producer.send_and_wait("t", b"x").offset == 0


def test_a_loop_that_ends_under_its_clients_fails_their_calls(cluster: FakeCluster) -> None:
    """As after sys.exit() in a callback: nobody waits for ever, and new clients work."""

    async def leave() -> None:
        asyncio.get_running_loop().call_soon(sys.exit, 1)
        await asyncio.sleep(WITHIN_S)

    producer = Producer(cluster.address)
    producer.start()
    with pytest.raises(ClientStopped), leased() as thread:
        thread.run(leave)
    with pytest.raises(ClientStopped):
        producer.send("t", b"x")
    producer.stop()
    with Producer(cluster.address) as another:
        assert another.send_and_wait("t", b"x").offset == 0
    assert runs() == 0


# -- Other processes


def run(code: str, address: str, *more: str) -> subprocess.CompletedProcess[str]:
    script = f"import sys\naddress = {address!r}\n{code}"
    command = [sys.executable, "-W", "error", *more, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


LEFT_RUNNING = """
from odradek.client.blocking import Consumer, Producer
producer = Producer(address, linger_ms=60_000)
producer.start()
producer.partitions_for("t")
future = producer.send("t", b"sent at the exit")
consumer = Consumer("t", bootstrap_servers=address, group_id="g")
consumer.start()
print("done")
"""


def test_clients_that_nobody_stopped_are_stopped_at_the_exit(cluster: FakeCluster) -> None:
    ended = run(LEFT_RUNNING, cluster.address)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
    assert ended.stderr == "2 clients were not stopped before the program's end: they are stopped now\n"
    assert cluster.values("t") == [b"sent at the exit"]


def test_one_client_that_nobody_stopped_is_told_of_as_one(cluster: FakeCluster) -> None:
    ended = run("from odradek.client.blocking import Admin\nadmin = Admin(address)\nadmin.start()\n", cluster.address)
    assert ended.stderr == "1 client was not stopped before the program's end: it is stopped now\n"


FORKED = """
import os, threading
from odradek.client.blocking import Admin, ClientForked, Producer
with Producer(address) as producer:
    assert producer.send_and_wait("t", b"parent").offset == 0
    child = os.fork()
    if child == 0:
        try:
            producer.send("t", b"child")
        except ClientForked as error:
            assert "before the process was forked" in str(error)
            assert threading.active_count() == 1
            with Producer(address) as own:
                assert own.send_and_wait("t", b"child").offset == 1
            producer.stop()
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert producer.send_and_wait("t", b"parent again").offset == 2
    child = os.fork()
    if child == 0:
        sys.exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 8
    assert producer.send_and_wait("t", b"and again").offset == 3
print("done")
"""


@pytest.mark.parametrize("in_cycle", [False, True])
def test_a_consumer_that_is_lost_leaves_its_group(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, in_cycle: bool
) -> None:
    consumer = Consumer("t", bootstrap_servers=cluster.address, group_id="g", **QUICK)
    consumer.start()
    while not consumer.assignment():
        consumer.getmany(timeout_ms=5)
    if in_cycle:
        vars(consumer)["itself"] = consumer
    thread = next(each for each in threading.enumerate() if each.name == "odradek-client")
    del consumer
    before_s = time.monotonic() + WITHIN_S
    while thread.is_alive() and time.monotonic() < before_s:
        gc.collect()  # again: the last call's task may end after the call has returned
        thread.join(0.01)
    assert not thread.is_alive()
    assert len(cluster.calls(ApiKey.LEAVE_GROUP)) == 1
    assert "a client was lost before it was stopped" in caplog.text


def test_the_records_of_a_producer_that_is_lost_are_sent(cluster: FakeCluster) -> None:
    future = started(Producer(cluster.address, linger_ms=60_000)).send("t", b"x")
    gc.collect()
    assert future.result(WITHIN_S).offset == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_leaves_the_clients_to_the_parent(cluster: FakeCluster) -> None:
    ended = run(FORKED, cluster.address, "-X", "dev")
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
    assert cluster.values("t") == [b"parent", b"child", b"parent again", b"and again"]


# -- A broker


def test_a_transaction_walks_through_a_broker_in_a_thread(config: BrokerConfig) -> None:
    """Read, write and commit the offsets in a transaction, and read it committed."""
    with Broker(config) as broker:
        options: dict[str, Any] = {"bootstrap_servers": broker.address, "auto_offset_reset": "earliest"}
        with Admin(broker.address) as admin, Producer(broker.address, transactional_id="x") as producer:
            admin.create_topics([NewTopic("in", 1), NewTopic("out", 1)])
            assert admin.list_topics() == ["in", "out"]
            with producer.transaction():
                producer.send_many("in", ((None, b"%d" % number) for number in range(300)))
            with Consumer("in", group_id="g", enable_auto_commit=False, **options) as consumer:
                seen: list[bytes | None] = []
                while len(seen) < 300:
                    for records in consumer.getmany(timeout_ms=500).values():
                        with producer.transaction():
                            for record in records:
                                producer.send("out", record.value)
                            last = {TopicPartition("in", 0): records[-1].offset + 1}
                            producer.send_offsets(last, consumer.group_metadata())
                        seen += [record.value for record in records]
            assert admin.list_group_offsets("g")[TopicPartition("in", 0)].offset == 300
        with Consumer("out", isolation_level="read_committed", **options) as reader:
            assert [next(reader).value for _ in range(300)] == seen == [b"%d" % number for number in range(300)]
    assert runs() == 0


def test_a_caller_goes_on_before_what_its_call_has_set_off() -> None:
    went_on, seen = threading.Event(), list[bool]()

    async def work() -> int:
        asyncio.get_running_loop().call_soon(lambda: seen.append(went_on.wait(5)))
        return 7

    async def nothing() -> None: ...

    with leased() as thread:
        assert thread.run(work) == 7
        went_on.set()
        thread.run(nothing)
    assert seen == [True]


def test_a_call_that_was_given_up_ends_also_where_its_result_cannot_be_given_back() -> None:
    async def main() -> list[object]:
        told: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
        given_up = asyncio.Event()

        async def work() -> int:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                given_up.set()
            return 7

        def undo(result: int) -> None:
            raise LookupError(result)

        call = Call(work, undo)
        call.begin()
        await asyncio.sleep(0)
        call.give_up()
        await given_up.wait()
        waiting = threading.Thread(target=call.wait, daemon=True)
        waiting.start()
        await asyncio.to_thread(waiting.join, 10)
        assert not waiting.is_alive()
        return told

    (error,) = asyncio.run(main())
    assert isinstance(error, LookupError)
