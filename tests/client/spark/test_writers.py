"""A batch of the sink is one transaction over its tasks, on Odradek. Elsewhere rows are written at least once."""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the sink needs pyspark (extra `spark`)")
pytest.importorskip("pyarrow", reason="the sink needs pyarrow (extra `spark`)")

import pyarrow as pa
from odradek.broker import Broker, BrokerConfig
from odradek.client import Admin, Consumer, TopicPartition
from odradek.client.errors import KafkaError, NoBrokerReachable
from odradek.client.spark import writers
from odradek.client.spark.columns import OptionError, SchemaError
from odradek.client.spark.options import SinkOptions, parse_sink_options
from odradek.client.spark.sink import columns_of_rows
from odradek.client.spark.writers import TaskPlace, TaskResult, TopicWriter, sink_of, write_task
from odradek.protocol.apis import OwnApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.odradek_describe_queries import OdradekDescribeQueriesRequest
from odradek.protocol.messages.odradek_end_query_batch import MAX_PARTICIPANTS
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.clusters.hand_cluster import HandCluster
from odradek.tests.support.documents.command import completed
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

TEXT = StructType([StructField("value", StringType())])


def options_of(address: str, **texts: str) -> SinkOptions:
    return parse_sink_options({"kafka.bootstrap.servers": address, "topic": "t", **texts})


async def task(options: SinkOptions, place: TaskPlace | None, *values: str) -> TaskResult:
    table = pa.table({"value": pa.array(values, pa.string())})
    batches: Any = iter(table.to_batches(max_chunksize=2))
    return await asyncio.to_thread(write_task, batches, columns_of_rows(TEXT, options), options, place)


async def end(options: SinkOptions, *results: TaskResult, commit: bool = True) -> bool:
    return await asyncio.to_thread(writers.end, results, options, commit=commit)


async def visible(address: str) -> list[bytes | None]:
    """Return what a read_committed consumer finds up to the end of the log, in order of the values."""
    async with Consumer(bootstrap_servers=address, isolation_level="read_committed") as consumer:
        partition = TopicPartition("t", 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        ends = await consumer.end_offsets([partition])
        found: list[bytes | None] = []
        while await consumer.position(partition) < ends[partition]:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                found += [record.value for record in records]
        return sorted(found, key=lambda value: value or b"")


async def queries(raw: Raw) -> list[tuple[int, list[str]]]:
    """The last committed batch of each query, and its transactions that are open."""
    described = await raw.ask(OwnApiKey.ODRADEK_DESCRIBE_QUERIES, 0, OdradekDescribeQueriesRequest())
    return [(each.committed_batch_id, each.transactional_ids) for each in described.queries]


@pytest.fixture
async def sink(broker: Broker, raw: Raw) -> SinkOptions:
    await raw.create_topic("t")
    return options_of(broker.address)


async def test_rows_of_all_tasks_are_visible_with_the_commit(sink: SinkOptions, broker: Broker) -> None:
    first = await task(sink, TaskPlace("q", "a", 0, "0.0"), "1", "2", "3")
    second = await task(sink, TaskPlace("q", "a", 0, "1.0"), "4")
    empty = await task(sink, TaskPlace("q", "a", 0, "2.0"))
    assert (first.rows, second.rows, empty.rows, empty.transaction) == (3, 1, 0, None)
    assert await visible(broker.address) == []
    assert await end(sink, first, second, empty) is False
    assert await visible(broker.address) == [b"1", b"2", b"3", b"4"]


async def test_a_batch_that_was_committed_is_not_written_again(sink: SinkOptions, broker: Broker) -> None:
    await end(sink, await task(sink, TaskPlace("q", "a", 0, "0.0"), "1"))
    again = await task(sink, TaskPlace("q", "b", 0, "0.0"), "1", "2", "3")
    assert again == TaskResult(3, TaskPlace("q", "b", 0, "0.0"), None)
    assert await end(sink, again) is True
    assert await visible(broker.address) == [b"1"]


async def test_a_commit_that_comes_again_changes_nothing(sink: SinkOptions, broker: Broker) -> None:
    first = await task(sink, TaskPlace("q", "a", 0, "0.0"), "1")
    assert [await end(sink, first), await end(sink, first)] == [False, True]
    assert await visible(broker.address) == [b"1"]


async def test_a_batch_that_fails_leaves_nothing(sink: SinkOptions, broker: Broker) -> None:
    first = await task(sink, TaskPlace("q", "a", 0, "0.0"), "1")
    await task(sink, TaskPlace("q", "a", 0, "1.0"), "of a task that told its driver nothing")
    await end(sink, first, commit=False)
    assert await visible(broker.address) == []
    good = await task(sink, TaskPlace("q", "b", 0, "0.0"), "1")
    await end(sink, good)
    assert await visible(broker.address) == [b"1"]


async def test_a_write_whose_workers_were_killed_leaves_nothing_open(
    sink: SinkOptions, broker: Broker, raw: Raw
) -> None:
    texts = {"kafka.bootstrap.servers": broker.address, "topic": "t"}
    writer = TopicWriter(*sink_of(texts, TEXT, overwrite=False, is_stream=False), is_stream=False)
    assert writer._write_id is not None
    place = TaskPlace(writer._write_id, writer._write_id, 0, "0.0")
    await task(sink, place, "of a task that told its driver nothing")
    assert [len(ids) for _, ids in await queries(raw)] == [1]
    # Spark unpickles the writer that it has sent to the tasks, and has no message of a task that failed.
    await asyncio.to_thread(pickle.loads(pickle.dumps(writer)).abort, [None])
    assert await queries(raw) == [(-1, [])]
    with pytest.raises(KafkaError):
        await task(sink, replace(place, task="1.0"), "of a task that runs on")
    assert (await queries(raw), await visible(broker.address)) == ([(-1, [])], [])


async def test_a_task_that_fails_aborts_its_own_transaction(sink: SinkOptions, broker: Broker) -> None:
    batch = pa.record_batch({"value": pa.array(["1"], pa.string())})

    def batches() -> Any:
        yield batch
        raise OSError("the row before this one was the last")

    place, columns = TaskPlace("q", "a", 0, "0.0"), columns_of_rows(TEXT, sink)
    with pytest.raises(OSError, match="was the last"):
        await asyncio.to_thread(write_task, batches(), columns, sink, place)
    assert await visible(broker.address) == []


async def test_too_many_tasks_fail_as_a_whole_and_leave_nothing(sink: SinkOptions, broker: Broker, raw: Raw) -> None:
    first = await task(sink, TaskPlace("q", "a", 0, "0.0"), "1")
    assert first.transaction is not None
    name = first.transaction.transactional_id
    others = [first.transaction._replace(transactional_id=f"{name}{number}") for number in range(MAX_PARTICIPANTS)]
    many = [first, *(replace(first, transaction=each) for each in others)]
    with pytest.raises(KafkaError, match=r"2001 tasks have written rows, and at most 2000 commit together: .*coalesce"):
        await end(sink, *many)
    await end(sink, *many[::-1], commit=False)
    assert await queries(raw) == [(-1, [])]
    assert await visible(broker.address) == []


async def test_a_topic_that_is_deleted_before_the_commit_leaves_the_others_of_the_batch(
    broker: Broker, raw: Raw
) -> None:
    for topic in ("t", "deleted"):
        await raw.create_topic(topic)
    options = parse_sink_options({"kafka.bootstrap.servers": broker.address})
    columns = columns_of_rows(StructType([*TEXT.fields, StructField("topic", StringType())]), options)
    rows: Any = iter(pa.table({"value": ["1", "2"], "topic": ["t", "deleted"]}).to_batches())
    written = await asyncio.to_thread(write_task, rows, columns, options, TaskPlace("q", "a", 0, "0.0"))
    broker.services.delete_topic(broker.services.topics.get("deleted"))
    assert await end(options, written) is False
    assert await visible(broker.address) == [b"1"]
    assert await queries(raw) == [(0, [])]


async def test_a_driver_whose_checkpoint_another_has_taken_is_fenced(sink: SinkOptions, broker: Broker) -> None:
    old = await task(sink, TaskPlace("q", "old", 0, "0.0"), "1")
    new = await task(sink, TaskPlace("q", "new", 0, "0.0"), "1")
    with pytest.raises(KafkaError, match="run new has it now") as caught:
        await end(sink, old)
    assert caught.value.code is ErrorCode.PRODUCER_FENCED
    with pytest.raises(KafkaError, match="run old may not write to query"):
        await task(sink, TaskPlace("q", "old", 0, "0.1"), "1")
    await end(sink, new)
    assert await visible(broker.address) == [b"1"]


async def test_a_speculative_attempt_is_aborted_with_the_commit(sink: SinkOptions, broker: Broker, raw: Raw) -> None:
    first = await task(sink, TaskPlace("q", "a", 0, "0.0"), "1")
    await task(sink, TaskPlace("q", "a", 0, "0.1"), "1")
    await end(sink, first)
    assert await visible(broker.address) == [b"1"]
    assert await queries(raw) == [(0, [])]


@pytest.mark.parametrize("chosen", [0, 1, 2])
async def test_a_stage_that_is_repeated_leaves_every_attempt_its_transaction(
    sink: SinkOptions, broker: Broker, chosen: int
) -> None:
    # Attempts count from 0 again, and those of the stage before are alive: Spark takes the one that ends first.
    place = TaskPlace("q", "a", 0, "0.0")
    attempts = [await task(sink, place, "1", "2") for _ in range(3)]
    await end(sink, attempts[chosen], await task(sink, replace(place, task="1.0"), "3"))
    assert await visible(broker.address) == [b"1", b"2", b"3"]
    again = await task(sink, replace(place, batch_id=1), "4")
    await end(sink, again)
    assert await visible(broker.address) == [b"1", b"2", b"3", b"4"]


async def test_admin_and_command_show_the_query_with_its_batch(sink: SinkOptions, broker: Broker) -> None:
    await end(sink, await task(sink, TaskPlace("q", "a", 6, "0.0"), "1"))
    opened = await task(sink, TaskPlace("q", "a", 7, "0.0"), "2")
    assert opened.transaction is not None
    async with Admin(broker.address) as admin:
        (found,) = await admin.list_queries()
    assert (found.query_id, found.run_id, found.committed_batch, found.current_batch) == ("q", "a", 6, 7)
    assert found.transactional_ids == (opened.transaction.transactional_id,)
    ended = await asyncio.to_thread(completed, "transactions", "queries", "--bootstrap-server", broker.address)
    assert ended.stdout.split("\t")[:5] == ["q", "a", "6", "7", "1"], ended


async def test_the_command_names_the_query_and_the_batch_of_an_open_transaction(
    sink: SinkOptions, broker: Broker
) -> None:
    async def printed(*args: str) -> list[list[str]]:
        ended = await asyncio.to_thread(completed, "transactions", *args, "--bootstrap-server", broker.address)
        assert ended.returncode == 0, ended
        return [line.split("\t") for line in ended.stdout.splitlines()]

    first = await task(sink, TaskPlace("q", "a", 7, "0.0"), "1")
    assert first.transaction is not None
    name = first.transaction.transactional_id
    (listed,) = await printed("list")
    assert (listed[0], listed[2:]) == (name, ["Ongoing", "q", "7"])
    (described,) = await printed("describe", name)
    assert (described[:2], described[-3:]) == ([name, "Ongoing"], ["t-0", "q", "7"])
    await end(sink, first)
    (listed,) = await printed("list")
    assert (listed[0], listed[-2:]) == (name, ["q", "-"])


async def test_transactional_ids_come_again_in_the_next_batch(sink: SinkOptions) -> None:
    first = await task(sink, TaskPlace("q", "a", 0, "0.0"), "1")
    await end(sink, first)
    second = await task(sink, TaskPlace("q", "a", 1, "0.0"), "2")
    assert first.transaction is not None and second.transaction is not None
    assert first.transaction.transactional_id == second.transaction.transactional_id


async def test_a_write_that_wants_no_transactions_has_none(sink: SinkOptions, broker: Broker) -> None:
    options = options_of(broker.address, transactional="never")
    assert await task(options, TaskPlace("q", "a", 0, "0.0"), "1") == TaskResult(1)
    assert await visible(broker.address) == [b"1"]


async def test_a_task_waits_for_a_broker_that_starts_again(config: BrokerConfig) -> None:
    tried = asyncio.Event()

    async def turn_away(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tried.set()
        writer.close()

    server = await asyncio.start_server(turn_away, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    writing = asyncio.ensure_future(task(options_of(address), TaskPlace("q", "a", 0, "0.0"), "1"))
    await tried.wait()
    server.close()
    async with Broker(replace(config, listeners=(f"PLAINTEXT://{address}",))):
        assert await end(options_of(address), await writing) is False
        assert await visible(address) == [b"1"]
    options = options_of(address, **{"kafka.max.block.ms": "50"})
    with pytest.raises(NoBrokerReachable):
        await task(options, TaskPlace("q", "a", 1, "0.0"), "1")


async def test_batches_that_a_topic_does_not_take_are_sent_in_parts(broker: Broker, raw: Raw) -> None:
    await raw.create_topic("t", max_message_bytes="1000")
    options = options_of(broker.address)
    values = [f"{number:050}" for number in range(300)]
    table = pa.table({"value": values})
    place, columns = TaskPlace("q", "a", 0, "0.0"), columns_of_rows(TEXT, options)
    result = await asyncio.to_thread(write_task, iter(table.to_batches()), columns, options, place)
    await end(options, result)
    assert await visible(broker.address) == [each.encode() for each in values]


async def test_another_kafka_gets_rows_at_least_once_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    writers._said.clear()
    async with FakeCluster({"t": 1}) as fake:
        options = options_of(fake.address)
        with caplog.at_level(logging.WARNING):
            for number in range(2):
                assert await task(options, TaskPlace("q", "a", number, "0.0"), "1") == TaskResult(1)
        assert len(fake.log("t", 0).records()) == 2
        warned = [each.message for each in caplog.records if "at least once" in each.message]
        assert len(warned) == 1
        assert "Odradek alone has" in warned[0]
        with pytest.raises(OptionError, match="'required', but the brokers do not offer transactions"):
            await task(options_of(fake.address, transactional="required"), TaskPlace("q", "a", 2, "0.0"), "1")


async def test_values_are_written_in_a_format(sink: SinkOptions, broker: Broker) -> None:
    options = options_of(broker.address, valueFormat="json")
    columns = columns_of_rows(StructType([StructField("value", IntegerType())]), options)
    batches: Any = iter(pa.table({"value": pa.array([1, None], pa.int32())}).to_batches())
    await asyncio.to_thread(write_task, batches, columns, options, None)
    assert await visible(broker.address) == [b"", b"1"] or await visible(broker.address) == [None, b"1"]


def test_a_format_of_text_needs_text() -> None:
    with pytest.raises(SchemaError, match="value attribute unsupported type int: it must be string for this format"):
        columns_of_rows(StructType([StructField("value", IntegerType())]), options_of("h:1", valueFormat="string"))
    with pytest.raises(OptionError, match="'xml' is none of"):
        options_of("h:1", valueFormat="xml")


async def test_a_transaction_that_was_handed_over_takes_no_more_records(broker: Broker, raw: Raw) -> None:
    from odradek.client import Producer

    await raw.create_topic("t")
    async with Producer(broker.address, transactional_id="x") as producer:
        async with producer.transaction() as transaction:
            await producer.send("t", b"1")
            handed = await transaction.hand_over()
            assert handed is not None and handed.transactional_id == "x"
        with pytest.raises(KafkaError, match="handed over"):
            await producer.send("t", b"2")
        with pytest.raises(KafkaError, match="handed over"):
            await producer.begin_transaction()


# -- Leaders move while a batch is written


TRANSACTIONS = "__transaction_state"
MOVES = [
    # What moves, and when: between two rows of a task, when all tasks have written, or while the driver commits.
    (place, moment)
    for place in ("t", TRANSACTIONS)
    for moment in ("rows", "written", "commit")
]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[HandCluster]:
    async with HandCluster(tmp_path, replica_fetch_wait_max_ms=50) as each:
        await each.assign("t", leader=1)
        await lead(each, TRANSACTIONS, 1)
        yield each


async def lead(cluster: HandCluster, topic: str, node: int) -> None:
    for index in range(1 if topic == "t" else cluster.configs[1].transaction_state_log_num_partitions):
        await cluster.assign(topic, index, leader=node)


@pytest.mark.parametrize(("topic", "moment"), MOVES)
async def test_a_batch_is_committed_whole_or_comes_again_whole_when_a_leader_moves(
    cluster: HandCluster, topic: str, moment: str
) -> None:
    addresses = ",".join(each.address for each in cluster.brokers.values())
    options, loop = options_of(addresses, transactional="required"), asyncio.get_running_loop()
    columns, moved = columns_of_rows(TEXT, options), asyncio.Event()

    async def move() -> None:
        if not moved.is_set():
            moved.set()
            await lead(cluster, topic, 2)

    def rows(*values: str) -> Any:
        for value in values:
            yield pa.record_batch({"value": pa.array([value], pa.string())})
            if moment == "rows":
                asyncio.run_coroutine_threadsafe(move(), loop).result(30)

    async def play(run: str) -> bool:
        """Play the batch as a driver does. Return whether it was committed."""
        results: list[TaskResult] = []
        try:
            for number, values in enumerate((("1", "2"), ("3",))):
                place = TaskPlace("q", run, 0, f"{number}.0")
                results.append(await asyncio.to_thread(write_task, rows(*values), columns, options, place))
            if moment == "written":
                await move()
            ended = asyncio.ensure_future(end(options, *results))
            if moment == "commit":
                await move()
            await ended
            return True
        except KafkaError:
            # Where a task fails, Spark's driver aborts the batch, and the next start plays it again.
            await end(options, *results, commit=False)
            return False

    if not await play("a"):
        assert await visible(addresses) == []
        assert await play("b")
    assert moved.is_set()
    assert await visible(addresses) == [b"1", b"2", b"3"]
