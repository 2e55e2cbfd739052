"""Rows that become records: which columns there may be, what each option means, and what reaches the topic."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the sink needs pyspark (extra `spark`)")
pytest.importorskip("pyarrow", reason="the sink needs pyarrow (extra `spark`)")

import pyarrow as pa
from odradek.client import Producer
from odradek.client.errors import KafkaError, UnknownTopic
from odradek.client.spark.columns import OptionError, SchemaError
from odradek.client.spark.options import SinkOptions, parse_sink_options, reject_mode
from odradek.client.spark.sink import SinkColumns, columns_of_rows, write
from odradek.protocol.apis import ApiKey
from odradek.protocol.records.batch import decode_batch
from odradek.protocol.records.record import Record
from odradek.tests.support.brokers.compiled_kernel import records_by
from odradek.tests.support.brokers.python_calls import Calls
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.wire import Call
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

BASE = {"kafka.bootstrap.servers": "h:1"}
TYPES = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def parse(**texts: str) -> SinkOptions:
    return parse_sink_options(BASE | {name.replace("__", "."): text for name, text in texts.items()})


def schema(text: str) -> StructType:
    """The schema of `name type, name type`; Spark's own parser needs a session."""
    return StructType([StructField(name, TYPES[kind]) for name, kind in (each.split() for each in text.split(", "))])


@pytest.mark.parametrize(
    ("ddl", "texts", "said"),
    [
        ("key binary", {"topic": "t"}, "Required attribute 'value' not found."),
        ("value int", {"topic": "t"}, "value attribute unsupported type int"),
        ("value binary, key bigint", {"topic": "t"}, "key attribute unsupported type bigint"),
        ("value binary, partition string", {"topic": "t"}, "partition attribute unsupported type string"),
        ("value binary", {}, "Topic option required when no 'topic' attribute is present"),
        ("value binary, at int", {"topic": "t", "timestampColumn": "at"}, "'at' is no column of timestamps"),
    ],
)
def test_columns_that_cannot_be_written_are_rejected(ddl: str, texts: dict[str, str], said: str) -> None:
    with pytest.raises((OptionError, SchemaError), match=said):
        columns_of_rows(schema(ddl), parse(**texts))


DAY, VARIANT = DayTimeIntervalType(), VariantType()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (VARIANT, "value has the type variant, which cannot be written as json"),
        (DAY, "value has the type interval day to second"),
        (ArrayType(VARIANT), "value.element has the type variant"),
        (MapType(StringType(), DAY), "value.value has the type interval"),
        (StructType([StructField("at", ArrayType(StructType([StructField("v", VARIANT)])))]), "value.at.element.v has"),
    ],
)
def test_types_without_a_form_outside_of_spark_are_rejected_on_the_driver(kind: Any, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        columns_of_rows(StructType([StructField("value", kind)]), parse(topic="t", valueFormat="json"))


@pytest.mark.parametrize(
    ("is_stream", "said"), [(False, r"'mode': overwrite is not"), (True, r"'outputMode': complete is not supported")]
)
def test_a_mode_that_is_not_append_is_rejected_by_the_name_that_the_job_gave_it(is_stream: bool, said: str) -> None:
    reject_mode(False, is_stream=is_stream)
    with pytest.raises(OptionError, match=said):
        reject_mode(True, is_stream=is_stream)


def test_what_the_producer_rejects_is_said_by_kafkas_names() -> None:
    with pytest.raises(OptionError, match=r"kafka\.delivery\.timeout\.ms \(9\) must not be below kafka\.linger\.ms"):
        parse(topic="t", kafka__delivery__timeout__ms="9")


def test_options_of_the_producer_are_taken_by_kafkas_names() -> None:
    options = parse(topic="t", kafka__linger__ms="7", kafka__acks="1", kafka__enable__idempotence="false")
    assert options.producer["linger_ms"] == 7
    assert options.producer["acks"] == 1
    assert options.producer["enable_idempotence"] is False
    assert parse(topic="t", kafka__linger__ms="7").warnings == ()


@pytest.mark.parametrize(
    "texts",
    [
        {"kafka__acks": "1", "kafka__enable__idempotence": "false"},
        {"kafka__acks": "0"},
        {"kafka__max__in__flight__requests__per__connection": "6"},
        {"kafka__enable__idempotence": "False"},
    ],
)
def test_what_rules_idempotence_out_rules_transactions_out_with_a_warning_and_writes(texts: dict[str, str]) -> None:
    options = parse(topic="t", **texts)
    assert (options.transactional, options.producer["enable_idempotence"]) == ("never", False)
    assert [each.partition(":")[0] for each in options.warnings] == ["rows are written at least once"]
    Producer(**options.producer, **options.security)
    with pytest.raises(OptionError, match=r"'required' needs kafka\.acks=all"):
        parse(topic="t", transactional="required", **texts)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("kafka.key.serializer", "keys are bytes"),
        ("valueFormat", "'x' is none of json, msgpack, avro, string"),
        ("keyAvroSchema", "needs keyFormat"),
        ("kafka.transactional.id", "each task gets its own"),
        ("path", "save() takes no path"),
        ("kafka.linger.ms", "'x' is not a whole number"),
        ("kafka.acks", "'x' is none of all, -1, 0, 1"),
        ("kafka.enable.idempotence", "'x' is neither true nor false"),
        ("kafka.compression.type", "must be one of none, gzip, snappy, lz4, zstd, not 'x'"),
        ("strictOptions", "'x' is neither true nor false"),
        ("transactional", "'x' is none of auto, required, never"),
        ("kafka.bootstrap.servers", "'h:x' is not HOST:PORT"),
    ],
)
def test_options_that_would_mean_something_else_are_rejected(name: str, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_sink_options(BASE | {name: "h:x" if name == "kafka.bootstrap.servers" else "x"})
    assert said in str(caught.value)


def test_options_without_effect_are_warned_of() -> None:
    options = parse(kafka__fetch__min__bytes="1", topik="t")
    assert [each.partition(" has no effect")[0] for each in options.warnings] == [
        "option 'kafka.fetch.min.bytes'",
        "option 'topik' is unknown and",
    ]
    with pytest.raises(OptionError, match="did you mean 'topic'"):
        parse(topik="t", strictOptions="true")


def write_rows(batches: Iterator[Any], columns: SinkColumns, options: SinkOptions) -> int:
    return asyncio.run(write(batches, columns, options))


def records_of(fake: FakeCluster, topic: str, partition: int) -> list[Record]:
    return [record for batch in fake.log(topic, partition).batches for record in decode_batch(batch, 0)]


@pytest.fixture(params=["kernel", "Python"])
def each_way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Rows go whole columns at a time through the compiled kernel, and one by one through the producer."""
    with records_by(request.param):
        yield


@pytest.fixture
def compiled() -> Iterator[None]:
    """Rows go through the compiled kernel."""
    with records_by("kernel"):
        yield


BOTH_WAYS = pytest.mark.usefixtures("each_way")


async def written(fake: FakeCluster, table: Any, ddl: str, rows: int = 2, **texts: str) -> int:
    options = parse_sink_options({"kafka.bootstrap.servers": fake.address} | texts)
    columns = columns_of_rows(schema(ddl), options)
    batches: Iterator[Any] = iter(table.to_batches(max_chunksize=rows))
    return await asyncio.to_thread(write_rows, batches, columns, options)


@BOTH_WAYS
async def test_keys_and_values_of_every_row_reach_the_topic_in_order() -> None:
    async with FakeCluster({"t": 1}) as fake:
        table = pa.table({"value": ["a", None, "c"], "key": pa.array([b"k", b"l", None], pa.binary())})
        assert await written(fake, table, "value string, key binary", topic="t") == 3
        found = records_of(fake, "t", 0)
    assert [(record.key, record.value) for record in found] == [(b"k", b"a"), (b"l", None), (None, b"c")]


@BOTH_WAYS
async def test_columns_say_topic_partition_headers_and_time() -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    table = pa.table(
        {
            "value": pa.array([b"1", b"2"], pa.binary()),
            "topic": ["t", "u"],
            "partition": pa.array([1, None], pa.int32()),
            "headers": pa.array([[{"key": "h", "value": b"x"}], None], HEADERS),
            "at": pa.array([moment, moment], pa.timestamp("us", "UTC")),
            "more": [1, 2],
        }
    )
    ddl = "value binary, topic string, partition int, headers headers, at timestamp, more int"
    async with FakeCluster({"t": 2, "u": 1}) as fake:
        assert await written(fake, table, ddl, timestampColumn="at") == 2
        (first,), (second,) = records_of(fake, "t", 1), records_of(fake, "u", 0)
    at_ms = round(moment.timestamp() * 1000)
    assert (first.value, first.headers, first.timestamp_ms) == (b"1", (("h", b"x"),), at_ms)
    assert (second.value, second.headers, second.timestamp_ms) == (b"2", (), at_ms)


@BOTH_WAYS
@pytest.mark.parametrize("header", [None, {"key": None, "value": b"x"}], ids=["no header", "no key"])
async def test_null_headers_fail_the_task(header: dict[str, Any] | None) -> None:
    table = pa.table({"value": ["a"], "headers": pa.array([[header]], HEADERS)})
    async with FakeCluster({"t": 1}) as fake:
        with pytest.raises(SchemaError, match="null header, or header with a null key"):
            await written(fake, table, "value string, headers headers", topic="t")


@BOTH_WAYS
async def test_rows_without_headers_keep_partition_and_time_and_a_large_one_its_place() -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    large = b"x" * 5_000
    table = pa.table(
        {
            "value": pa.array([b"1", large, b"3", None], pa.binary()),
            "partition": pa.array([1, 1, 1, 0], pa.int32()),
            "at": pa.array([moment, None, moment, moment], pa.timestamp("us", "UTC")),
        }
    )
    ddl, small = "value binary, partition int, at timestamp", {"kafka.batch.size": "100", "timestampColumn": "at"}
    async with FakeCluster({"t": 2}) as fake:
        assert await written(fake, table, ddl, topic="t", **small) == 4
        first, second = records_of(fake, "t", 0), records_of(fake, "t", 1)
        wrong = pa.table({"value": ["a"], "partition": pa.array([2], pa.int32())})
        with pytest.raises(KafkaError, match="partitions 0 to 1, not 2"):
            await written(fake, wrong, "value string, partition int", topic="t")
    at_ms = round(moment.timestamp() * 1000)
    assert [(each.value, each.timestamp_ms) for each in first] == [(None, at_ms)]
    assert [each.value for each in second] == [b"1", large, b"3"]
    assert [second[0].timestamp_ms, second[2].timestamp_ms] == [at_ms, at_ms]


async def test_rows_of_a_partition_that_is_gone_meanwhile_fail_the_task(compiled: None) -> None:
    looks = threading.Semaphore(0)

    async def look(call: Call) -> Any:
        looks.release()
        return await call.default()

    async with FakeCluster({"t": 2}) as fake:
        options = parse_sink_options(
            {"kafka.bootstrap.servers": fake.address, "topic": "t", "kafka.metadata.max.age.ms": "20"}
        )

        def batches() -> Iterator[Any]:
            yield pa.record_batch({"value": ["a"], "partition": pa.array([1], pa.int32())})
            fake.make_again("t", 1)
            fake.on(ApiKey.METADATA, look, look, look)
            # The second one is asked for when the first was taken in.
            assert looks.acquire(timeout=20) and looks.acquire(timeout=20)

        columns = columns_of_rows(schema("value string, partition int"), options)
        with pytest.raises(UnknownTopic, match="has partitions 0 to 0, not 1"):
            await asyncio.to_thread(write_rows, batches(), columns, options)


async def test_the_topic_option_is_stronger_than_the_column() -> None:
    async with FakeCluster({"t": 1, "u": 1}) as fake:
        table = pa.table({"value": ["a"], "topic": ["u"]})
        await written(fake, table, "value string, topic string", topic="t")
        assert (len(records_of(fake, "t", 0)), len(records_of(fake, "u", 0))) == (1, 0)


@BOTH_WAYS
async def test_a_row_without_a_topic_fails_the_task() -> None:
    async with FakeCluster({"t": 1}) as fake:
        table = pa.table({"value": ["a"], "topic": pa.array([None], pa.string())})
        with pytest.raises(OptionError, match="null topic present in the data"):
            await written(fake, table, "value string, topic string")


async def calls_for(rows: int, more: dict[str, Any], ddl: str, **texts: str) -> int:
    """The calls of Python functions for rows of one partition each, in which Arrow's come as Spark hands them over."""
    calls = Calls(rows)
    async with FakeCluster({"t": 1, "u": 1}) as fake:
        options = parse_sink_options({"kafka.bootstrap.servers": fake.address} | texts)
        columns = columns_of_rows(schema(ddl), options)
        table = pa.table({"value": [b"x" * 100] * rows} | more)

        def write() -> None:
            sys.setprofile(calls.note)
            try:
                write_rows(iter(table.to_batches(max_chunksize=500)), columns, options)
            finally:
                sys.setprofile(None)

        await asyncio.to_thread(write)
        assert len(records_of(fake, "t", 0)) + len(records_of(fake, "u", 0)) == rows
    return calls.counts.total()


async def test_a_column_of_topics_or_of_headers_costs_no_step_a_row(compiled: None) -> None:
    rows = 4_000
    plain = await calls_for(rows, {}, "value binary", topic="t")
    nulls = await calls_for(rows, {"headers": pa.nulls(rows, HEADERS)}, "value binary, headers headers", topic="t")
    same = await calls_for(rows, {"topic": ["t"] * rows}, "value binary, topic string")
    mixed = await calls_for(rows, {"topic": ["t", "u"] * (rows // 2)}, "value binary, topic string")
    named = {"headers": pa.array([[{"key": "h", "value": b"x"}]] * rows, HEADERS)}
    some = await calls_for(rows, named, "value binary, headers headers", topic="t")
    assert max(nulls, same, mixed, some) - plain < rows / 2


@BOTH_WAYS
async def test_rows_of_many_topics_keep_their_order_within_the_memory_of_the_producer() -> None:
    topics = [f"t{number % 7}" for number in range(200)]
    values = [f"{number}" for number in range(200)]
    headers = [[{"key": "h", "value": b"x"}] if number % 50 == 49 else [] for number in range(200)]
    table = pa.table({"value": values, "topic": topics, "headers": pa.array(headers, HEADERS)})
    async with FakeCluster({f"t{number}": 1 for number in range(7)}) as fake:
        small = {"kafka.buffer.memory": "20000", "kafka.batch.size": "9000"}
        await written(fake, table, "value string, topic string, headers headers", rows=40, **small)
        for topic in sorted(set(topics)):
            expected = [value.encode() for value, of in zip(values, topics, strict=True) if of == topic]
            assert [each.value for each in records_of(fake, topic, 0)] == expected


@pytest.mark.parametrize("topic", ["t", None], ids=["the option", "a column"])
async def test_a_timestamp_before_1970_fails_the_task(topic: str | None) -> None:
    moments = [datetime(2026, 1, 2, tzinfo=UTC), datetime(1969, 12, 31, tzinfo=UTC)]
    table = pa.table({"value": ["a", "b"], "topic": ["t", "t"], "at": pa.array(moments, pa.timestamp("us", "UTC"))})
    texts = {"timestampColumn": "at"} | ({} if topic is None else {"topic": topic})
    async with FakeCluster({"t": 1}) as fake:
        with pytest.raises(KafkaError, match="milliseconds since 1970, 0 or more, not -86400000"):
            await written(fake, table, "value string, topic string, at timestamp", **texts)
