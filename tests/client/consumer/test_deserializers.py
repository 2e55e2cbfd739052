"""Deserializers: what the user gets in the place of bytes, and what becomes of a record that cannot be deserialized."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from odradek.client import Consumer, ConsumerRecord, Producer, TopicPartition, blocking
from odradek.client.core.serialization import SchemaMissing
from odradek.client.errors import (
    DeserializationFailed,
    ErrorCode,
    HandlerFailed,
    InvalidOption,
    SchemaRegistryUnavailable,
)
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record
from odradek.tests.support.fakes.cluster_thread import cluster_in_thread
from odradek.tests.support.fakes.fake_cluster import FakeCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BAD = b"{"


def consumer_for(cluster: FakeCluster, **options: Any) -> Consumer[Any, Any]:
    quick = {"retry_backoff_ms": 1, "auto_offset_reset": "earliest", "heartbeat_interval_ms": 5, "group_id": "g"}
    return Consumer("t", bootstrap_servers=cluster.address, **quick | options)


def write(cluster: FakeCluster, *values: bytes | None, partition: int = 0, key: bytes | None = None) -> None:
    cluster.log("t", partition).write(encode_batch([Record(-1, 7, key, value) for value in values]))


class Upper:
    """Has both methods, as codecs do."""

    def encode(self, text: str) -> bytes:
        return text.lower().encode()

    def decode(self, content: bytes) -> str:
        return content.decode().upper()


@pytest.mark.parametrize(
    ("option", "content", "found"),
    [
        ("bytes", b"\xff", b"\xff"),
        (None, b"x", b"x"),
        ("str", "héllo", "héllo"),
        ("json", {"delay": [1, None, "ü"]}, {"delay": [1, None, "ü"]}),
        ("msgpack", {"delay": [1, None, b"\xff"]}, {"delay": [1, None, b"\xff"]}),
        (Upper(), "One", "ONE"),
    ],
    ids=["bytes", "None", "str", "json", "msgpack", "object"],
)
async def test_what_serializers_write_deserializers_return(option: Any, content: Any, found: Any) -> None:
    if option == "msgpack":
        pytest.importorskip("msgpack", reason="pip install msgpack")
    async with FakeCluster({"t": 1}) as cluster, asyncio.timeout(10):
        async with Producer(cluster.address, key_serializer=option, value_serializer=option) as producer:
            await producer.send_and_wait("t", content, key=content)
            await producer.send_and_wait("t", None, key=None)
        options = {"key_deserializer": option, "value_deserializer": option}
        async with consumer_for(cluster, **options) as consumer:
            first, null = await consumer.getone(), await consumer.getone()
        assert (first.key, first.value, first.offset) == (found, found, 0)
        assert (null.key, null.value, null.offset) == (None, None, 1)


async def test_a_key_and_a_value_have_deserializers_of_their_own() -> None:
    async with FakeCluster({"t": 1}) as cluster, asyncio.timeout(10):
        write(cluster, b"[1]", key=b"k")
        own: Callable[[bytes], int] = len
        async with consumer_for(cluster, value_deserializer=own) as consumer:
            record = await consumer.getone()
        assert (record.key, record.value) == (b"k", 3)
        consumer = consumer_for(cluster, key_deserializer="str", group_id=None)
        async with consumer:
            record = await anext(consumer)
            assert (record.key, record.value) == ("k", b"[1]")


def test_an_option_that_is_no_deserializer_is_rejected() -> None:
    with pytest.raises(InvalidOption, match="value_deserializer must be one of bytes, str, json, msgpack, or your own"):
        Consumer("t", value_deserializer="yaml")
    with pytest.raises(InvalidOption, match="key_deserializer must be a name, a function or an object with a method"):
        Consumer("t", key_deserializer=7)  # type: ignore[arg-type]


async def polled(consumer: Consumer[Any, Any], count: int) -> tuple[dict[TopicPartition, list[Any]], list[Any]]:
    """The values of so many records by partition, and the errors in between."""
    values: dict[TopicPartition, list[Any]] = {}
    errors: list[DeserializationFailed] = []
    while sum(map(len, values.values())) < count or not errors:
        try:
            for partition, records in (await consumer.getmany(timeout_ms=20, max_records=2)).items():
                values.setdefault(partition, []).extend(record.value for record in records)
        except DeserializationFailed as error:
            errors.append(error)
    return values, errors


async def test_a_record_that_cannot_be_deserialized_is_raised_with_its_place_and_holds_up_no_other_partition() -> None:
    async with FakeCluster({"t": 2}) as cluster, asyncio.timeout(10):
        write(cluster, b"0", b"1", b"2", BAD, b"4")
        write(cluster, *[b"%d" % number for number in range(6)], partition=1)
        async with consumer_for(cluster, value_deserializer="json") as consumer:
            values, errors = await polled(consumer, 9)
            assert values == {T0: [0, 1, 2], T1: [0, 1, 2, 3, 4, 5]}
            assert {(error.partition, error.offset, error.field) for error in errors} == {(T0, 3, "value")}
            error = errors[0]
            assert error.record.value == BAD and isinstance(error.__cause__, json.JSONDecodeError)
            assert error.code is ErrorCode.INVALID_RECORD and not error.retriable
            assert "t-0 at offset 3: the value cannot be deserialized" in error.message
            # Nothing is skipped unless the user says so.
            for _ in range(3):
                with pytest.raises(DeserializationFailed):
                    await consumer.getmany(timeout_ms=5_000)
                assert await consumer.position(T0) == 3
            consumer.seek(error.partition, error.offset + 1)
            assert [record.value for record in (await consumer.getmany(timeout_ms=5_000))[T0]] == [4]
        assert cluster.group.committed == {("t", 0): 5, ("t", 1): 6}


async def test_the_records_before_one_whose_registry_does_not_answer_are_returned() -> None:
    def decode(content: bytes) -> str:
        if content == b"2":
            raise SchemaRegistryUnavailable("nobody answers")
        return content.decode()

    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, value_deserializer=decode) as consumer:
        write(cluster, b"0", b"1", b"2")
        async with asyncio.timeout(20):
            assert [record.value for record in (await consumer.getmany(timeout_ms=5_000))[T0]] == ["0", "1"]
            with pytest.raises(SchemaRegistryUnavailable):
                await consumer.getmany(timeout_ms=5_000)


async def test_a_record_that_cannot_be_deserialized_is_not_committed() -> None:
    async with FakeCluster({"t": 1}) as cluster, asyncio.timeout(10):
        write(cluster, b"0", BAD, b"2")
        async with consumer_for(cluster, value_deserializer="json") as consumer:
            assert (await consumer.getone()).value == 0
            for _ in range(2):
                with pytest.raises(DeserializationFailed):
                    await consumer.getone()
        assert cluster.group.committed == {("t", 0): 1}
        # Whole batches, and columns, are bytes.
        async with consumer_for(cluster, value_deserializer="json") as consumer:
            async for columns in consumer.batches():
                assert columns.values == [BAD, b"2"]
                break


async def test_a_batch_of_which_records_were_taken_is_still_bytes() -> None:
    async with FakeCluster({"t": 1}) as cluster, asyncio.timeout(10):
        write(cluster, b"0", BAD, b"2")
        async with consumer_for(cluster, value_deserializer="json") as consumer:
            await consumer.getmany(timeout_ms=5_000)  # finds the error, which the next poll would raise
            [batch] = (await consumer.getbatches(timeout_ms=5_000))[T0]
            assert batch.columns().values == [BAD, b"2"]


async def test_tasks_get_objects_and_dead_letters_get_bytes() -> None:
    handled: list[Any] = []
    dead: list[tuple[ConsumerRecord, Exception]] = []

    async def handle(record: ConsumerRecord[Any, Any]) -> None:
        handled.append(record.value)
        if record.value == 2:
            raise ValueError("two")

    async def bury(record: ConsumerRecord, error: Exception) -> None:
        dead.append((record, error))
        if len(dead) == 2:
            await consumer.stop()

    async with FakeCluster({"t": 1}) as cluster, asyncio.timeout(10):
        write(cluster, b"0", BAD, b"2", key=b"same")
        consumer = consumer_for(cluster, key_deserializer="str", value_deserializer="json")
        async with consumer:
            await consumer.consume(handle, attempts=2, retry_backoff_ms=0, dead_letters=bury)
        assert handled == [0, 2, 2]
        assert [(record.key, record.value) for record, _ in dead] == [(b"same", BAD), (b"same", b"2")]
        assert [type(error) for _, error in dead] == [DeserializationFailed, ValueError]


@pytest.mark.parametrize(("value", "kind"), [(BAD, DeserializationFailed), (b"2", HandlerFailed)], ids=["bad", "good"])
async def test_without_dead_letters_what_fails_is_raised_and_returned_again(value: bytes, kind: Any) -> None:
    async def handle(record: ConsumerRecord[Any, Any]) -> None:
        if record.value == 2:
            raise ValueError("two")

    async with FakeCluster({"t": 1}) as cluster, asyncio.timeout(10):
        write(cluster, b"0", value, b"3")
        async with consumer_for(cluster, value_deserializer="json") as consumer:
            with pytest.raises(kind) as caught:
                await consumer.consume(handle, attempts=1)
            assert caught.value.record.offset == 1
            assert isinstance(caught.value.__cause__, ValueError)
        assert cluster.group.committed == {("t", 0): 1}


async def test_a_stream_raises_once_and_goes_on_behind_the_record() -> None:
    async with FakeCluster({"t": 1}) as cluster, asyncio.timeout(10):
        write(cluster, b"0", BAD, b"2")
        async with consumer_for(cluster, value_deserializer="json") as consumer:
            [stream] = consumer.streams({"t": 1})["t"]
            assert (await anext(stream)).value == 0
            with pytest.raises(DeserializationFailed):
                await anext(stream)
            assert (await anext(stream)).value == 2


def test_the_blocking_consumer_deserializes_too() -> None:
    with cluster_in_thread({"t": 1}) as cluster:
        with blocking.Producer(cluster.address, value_serializer="json") as producer:
            producer.send_and_wait("t", {"a": 1})
            producer.send_and_wait("t", {"a": 2})
        with blocking.Consumer(
            "t", bootstrap_servers=cluster.address, auto_offset_reset="earliest", value_deserializer="json"
        ) as consumer:
            assert consumer.getone().value == {"a": 1}
            assert [record.value for record in consumer.getmany(timeout_ms=5_000)[T0]] == [{"a": 2}]


def test_the_reason_of_a_bad_record_is_plain() -> None:
    record: ConsumerRecord[bytes, bytes] = ConsumerRecord("t", 0, 3, 0, 0, None, b"", ())
    for cause, reason in ((ValueError("no schema is named"), "no schema is named"), (KeyError("x"), "KeyError('x')")):
        assert DeserializationFailed("value", record, cause).message.endswith(f"cannot be deserialized: {reason}")


class SlowRegistry:
    """A deserializer whose schema registry is silent until the test answers."""

    def __init__(self) -> None:
        self.asked: list[Future[None]] = []

    def decode_at_once(self, content: bytes, topic: str, field: str) -> bytes:
        if self.asked and self.asked[-1].done() and self.asked[-1].exception() is None:
            return content
        raise SchemaMissing(self._ask)

    def _ask(self) -> Future[None]:
        self.asked.append(Future())
        return self.asked[-1]


async def test_a_poll_ends_in_time_while_the_schema_registry_is_silent_and_asks_it_once() -> None:
    registry = SlowRegistry()
    async with FakeCluster({"t": 1}) as cluster, asyncio.timeout(10):
        write(cluster, b"v")
        async with consumer_for(cluster, value_deserializer=registry) as consumer:
            while not registry.asked:
                assert await consumer.getmany(timeout_ms=1) == {}
            assert await consumer.getmany(timeout_ms=1) == await consumer.getmany() == {}
            registry.asked[0].set_exception(SchemaRegistryUnavailable("nobody answers"))
            with pytest.raises(SchemaRegistryUnavailable):
                await consumer.getmany(timeout_ms=10_000)
            assert await consumer.getmany(timeout_ms=1) == {}
            assert len(registry.asked) == 2
            registry.asked[1].set_result(None)
            assert [each.value for each in (await consumer.getmany(timeout_ms=10_000))[T0]] == [b"v"]


async def test_a_stop_ends_the_wait_for_a_schema() -> None:
    registry = SlowRegistry()
    async with FakeCluster({"t": 1}) as cluster, asyncio.timeout(10):
        write(cluster, b"v")
        async with consumer_for(cluster, value_deserializer=registry) as consumer:
            polling = asyncio.ensure_future(anext(consumer))
            while not registry.asked:
                await asyncio.sleep(0)
        with pytest.raises(StopAsyncIteration):
            await polling
