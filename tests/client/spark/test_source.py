"""Spark itself against `odradek serve`: what was produced is what the DataFrame holds, row for row."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the Spark source needs pyspark (extra `spark`)")

from odradek.client.arrow.brokers import Brokers
from odradek.client.arrow.connection import BlockingConnection
from odradek.client.record import TopicPartition
from odradek.client.spark.listener import timestamps
from odradek.pipelines.delays import delays, flights
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record
from odradek.tests.support.brokers.process import broker_process
from odradek.tests.support.clients.java import require_spark_java
from odradek.tests.support.spark.spark_cases import CASES, Case, Reader, rows_of
from odradek.tests.support.spark.spark_topics import PARTITIONS, PER_PARTITION, Topics, fill
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

# The sockets are pyspark's own.
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas", "ignore::ResourceWarning")


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    require_spark_java()
    broker = broker_process(tmp_path_factory.mktemp("broker"))
    try:
        broker.start()
        yield fill(broker.address)
    finally:
        broker.close()


@pytest.fixture
def reader(spark: SparkSession, topics: Topics, tmp_path: Path) -> Reader:
    return Reader(spark, "odradek", topics, tmp_path / "checkpoint")


@pytest.fixture
def load(reader: Reader) -> Any:
    """load(schema, **options) -> DataFrame of the source."""

    def load(schema: str | None = None, **options: str) -> DataFrame:
        return reader.load({name.replace("__", "."): text for name, text in options.items()}, schema)

    return load


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_reads_as_sparks_own_connector(case: Case, reader: Reader) -> None:
    case.check(reader)


def test_columns_are_those_of_sparks_own_connector(load: Any) -> None:
    frame = load()
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    assert frame.rdd.getNumPartitions() == PARTITIONS
    assert load(maxRecordsPerPartition="13").rdd.getNumPartitions() >= 8


def test_rows_from_the_brokers_files_are_those_of_a_fetch(load: Any) -> None:
    frame = load(path="direct", includeHeaders="true", minPartitions="5")
    assert rows_of(frame) == rows_of(load(includeHeaders="true"))


def test_a_schema_picks_columns_in_its_own_order_and_the_frame_is_for_sql(load: Any, topics: Topics) -> None:
    frame = load("offset bigint, value binary, partition int")
    assert frame.columns == ["offset", "value", "partition"]
    picked = [{name: row[name] for name in ("offset", "value", "partition")} for row in topics.everything()]
    assert rows_of(frame) == picked
    counted = load("partition int, value binary").where("value is not null").groupBy("partition").count().collect()
    values = sum(row["value"] is not None for row in picked if row["partition"] == 0)
    assert sorted(tuple(row) for row in counted) == [(partition, values) for partition in range(PARTITIONS)]


def test_a_frame_keeps_its_offsets_and_a_new_one_sees_more(load: Any, topics: Topics) -> None:
    topics.create("growing")
    topics.write("growing", 0, 1)
    frame = load(subscribe="growing")
    assert len(frame.collect()) == 1
    topics.write("growing", 0, 1)
    assert len(frame.collect()) == 1
    assert len(load(subscribe="growing").collect()) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOfsets": "earliest", "strictOptions": "true"}, "did you mean 'startingOffsets'?"),
        ({"failOnDataLoss": "maybe"}, "'maybe' is neither true nor false"),
    ],
)
def test_wrong_options_fail_at_load_and_say_why(load: Any, options: dict[str, str], said: str) -> None:
    with pytest.raises(AnalysisException) as caught:
        load(**options)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"assign": '{"other": [1]}'}, "topic 'other' has no partition 1"),
        ({"subscribe": "other", "endingOffsets": '{"other": {"0": 5}}'}, "its log ends at 1; set failOnDataLoss"),
    ],
)
def test_what_the_cluster_does_not_have_fails_the_query_and_says_why(
    load: Any, options: dict[str, str], said: str
) -> None:
    with pytest.raises((AnalysisException, PythonException)) as caught:
        load(**options).collect()
    assert said in str(caught.value)


def test_a_schema_that_rows_do_not_have_fails_the_query(load: Any) -> None:
    with pytest.raises((AnalysisException, PythonException), match="column 'value' is binary, not string"):
        load("value string").collect()


def test_lost_offsets_can_be_left_out(load: Any) -> None:
    options = {"subscribe": "other", "endingOffsets": '{"other": {"0": 5}}', "failOnDataLoss": "false"}
    assert [row["value"] for row in rows_of(load(**options))] == [b"other"]


# -- Slices


def offsets_read(frame: DataFrame) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in rows_of(frame)]


def expected_offsets(least: int, end: int, partitions: Collection[int] = range(PARTITIONS)) -> list[tuple[int, int]]:
    return [(partition, offset) for partition in partitions for offset in range(least, end)]


def test_slices_leave_out_what_lies_outside(load: Any, topics: Topics) -> None:
    assert offsets_read(load(partitions="0,2", minOffset="5", maxOffset="9")) == expected_offsets(5, 9, [0, 2])
    moment = datetime.fromtimestamp((topics.first_ms + 1000) / 1000, UTC).isoformat()
    assert offsets_read(load(minTimestamp=moment, partitions="0,1")) == expected_offsets(0, PER_PARTITION, [1])
    assert load(maxRecordsPerPartition="30").rdd.getNumPartitions() == -(-PER_PARTITION // 30) * PARTITIONS
    limited = load(limit="50", minOffset="10")
    assert limited.rdd.getNumPartitions() == 1
    assert len(limited.collect()) == 50


# -- Typed values


def test_values_are_structs_of_the_given_schema(load: Any, topics: Topics) -> None:
    topics.create("typed")
    values = [b'{"i": 1, "n": {"l": ["a", null]}}', b"{", None]
    topics.produce("typed", 0, encode_batch([Record(-1, topics.first_ms, b"k", value) for value in values]))
    options = {"valueFormat": "json", "valueSchema": "i INT, n STRUCT<l: ARRAY<STRING>>, _corrupt_record STRING"}
    frame = load(subscribe="typed", keyFormat="string", **options).select("key", "offset", "value.*")
    assert [tuple(row) for row in frame.orderBy("offset").collect()] == [
        ("k", 0, 1, (["a", None],), None),
        ("k", 1, None, None, "{"),
        ("k", 2, None, None, None),
    ]
    with pytest.raises(PythonException, match="typed-0 at offset 1: the value does not fit its schema"):
        load(subscribe="typed", mode="FAILFAST", **options).collect()


def test_the_pipeline_of_delays_waits_for_late_flights_but_not_for_ever(reader: Reader, topics: Topics) -> None:
    topics.create("flights")

    def depart(*flown: tuple[str, str, int | None]) -> None:
        names = ("carrier", "time_hour", "dep_delay")
        records = [json.dumps(dict(zip(names, each, strict=True)) | {"flight": 7}).encode() for each in flown]
        topics.produce("flights", 0, encode_batch([Record(-1, topics.first_ms, None, each) for each in records]))

    depart(("UA", "2013-01-01T10:00:00Z", 4), ("UA", "2013-01-01T10:30:00Z", None), ("DL", "2013-01-01T11:00:00Z", 1))
    # UA at 10 has a late flight; then the clock of events passes 13:00, which closes the window.
    depart(("UA", "2013-01-01T10:59:00Z", 8), ("DL", "2013-01-01T13:30:00Z", 2))
    # A batch of their own: Spark drops late rows by the clock of two batches before.
    depart(*[("AA", "2013-01-01T13:40:00Z", 0)] * 5)
    # In the last batch: too late for its window, which stays as it was; and 11 closes.
    depart(("UA", "2013-01-01T10:01:00Z", 99), ("AA", "2013-01-01T14:30:00Z", 0))
    closed: list[tuple[Any, ...]] = []

    def take(batch: DataFrame, number: int) -> None:
        closed.extend((row["start"].strftime("%d %H"), *row[1:]) for row in batch.collect())

    flown = flights(reader.spark, topics.address, "flights", maxOffsetsPerTrigger="5")
    writer = delays(flown, "1 hour", "2 hours").writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", str(reader.folder)).trigger(availableNow=True)
    writer.start().awaitTermination()
    assert closed == [("01 10", "UA", 3, 2, 6.0), ("01 11", "DL", 1, 1, 1.0)]


# -- Streams


def test_brokers_tell_the_bytes_of_logs_and_the_times_of_records(topics: Topics) -> None:
    brokers, other, empty = Brokers(topics.client), TopicPartition("other", 0), TopicPartition("empty", 1)
    things = TopicPartition("things", 2)
    sizes = brokers.sizes([other, empty, things])
    assert sizes[empty] == 0 < sizes[other] < sizes[things]
    times = timestamps(brokers, {other: 0, empty: 0, things: 7})
    assert times == {other: topics.first_ms, things: topics.first_ms + 2007}


def test_the_progress_of_a_stream_is_committed_under_the_name_of_its_query(reader: Reader, topics: Topics) -> None:
    topics.create("progress")
    options = {"subscribe": "progress", "startingOffsets": "earliest"}
    topics.write("progress", 0, 5)
    reader.stream(options | {"maxOffsetsPerTrigger": "4"})
    query = json.loads((reader.folder / "metadata").read_text())["id"]
    # The beginning of the second batch: the lag is one batch late.
    assert committed(topics, f"spark-odradek-{query}", "progress") == 4
    topics.write("progress", 0, 1)
    reader.stream(options | {"kafka.group.id": "mine"})
    assert committed(topics, "mine", "progress") == 5


def committed(topics: Topics, group: str, topic: str) -> int:
    with BlockingConnection(topics.client.bootstrap[0], topics.client) as connection:
        partitions = OffsetFetchRequestTopics(topic, partition_indexes=[0])
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=[partitions])])
        connection.send(request, OffsetFetchResponse, 8)
        answer = connection.receive(OffsetFetchResponse)
    return answer.groups[0].topics[0].partitions[0].committed_offset


@pytest.mark.parametrize("once", [False, True])
def test_a_topic_that_was_made_again_with_fewer_records_fails_the_query(
    reader: Reader, topics: Topics, once: bool
) -> None:
    name = f"again-{once}"
    options = {"subscribe": name, "startingOffsets": "earliest"}
    topics.create(name)
    topics.write(name, 0, 30)
    assert len(reader.stream(options, once)) == 30
    topics.delete(name)
    topics.create(name)
    topics.write(name, 0, 17)
    with pytest.raises(StreamingQueryException, match=f"{name}-0 ends at 17, before 30, where the stream is"):
        reader.stream(options, once)
    assert len(reader.stream(options | {"failOnDataLoss": "false"}, once)) == 17


# -- Writes


def test_a_frame_is_written_and_read_again(load: Any, spark: SparkSession, topics: Topics) -> None:
    topics.create("written", 2)
    writer = load("key binary, value binary").write.format("odradek")
    writer.option("kafka.bootstrap.servers", topics.address).option("topic", "written").mode("append").save()
    values = sorted((row["key"] or b"", row["value"] or b"") for row in rows_of(load(subscribe="written")))
    assert values == sorted((row["key"] or b"", row["value"] or b"") for row in topics.everything())
    with pytest.raises((AnalysisException, PythonException), match="overwrite is not supported"):
        frame = spark.createDataFrame([(b"v",)], "value binary").write.format("odradek").option("topic", "written")
        frame.option("kafka.bootstrap.servers", topics.address).mode("overwrite").save()


# -- Writes that are exactly once


class Copy:
    """A stream from one topic into another, with a checkpoint that outlives it."""

    def __init__(self, spark: SparkSession, topics: Topics, folder: Path) -> None:
        self.spark, self.topics, self.folder = spark, topics, folder / "checkpoint"
        self.source, self.target = f"source-{folder.name}", f"target-{folder.name}"
        for topic in (self.source, self.target):
            topics.create(topic, 2)

    def run(self, column: Any = "value") -> None:
        """Write what there is now, and stop. Raises what fails the query."""
        address = self.topics.address
        reader = self.spark.readStream.format("odradek").option("kafka.bootstrap.servers", address)
        frame = reader.option("subscribe", self.source).option("startingOffsets", "earliest").load()
        writer = frame.select(column).writeStream.format("odradek").option("topic", self.target)
        writer = writer.option("kafka.bootstrap.servers", address).option("checkpointLocation", str(self.folder))
        writer.option("transactional", "required").trigger(availableNow=True).start().awaitTermination()

    def forget_commit(self, batch: int) -> None:
        """Leave the checkpoint as a driver does that was killed before Spark noted the batch as complete."""
        for path in (self.folder / "commits").glob(f"*{batch}*"):
            path.unlink()


@pytest.fixture
def copy(spark: SparkSession, topics: Topics, tmp_path: Path) -> Copy:
    return Copy(spark, topics, tmp_path)


def seen(load: Any, topic: str, level: str = "read_committed") -> int:
    return load(subscribe=topic, kafka__isolation__level=level).count()


def test_a_batch_that_is_played_again_is_not_written_again(copy: Copy, topics: Topics, load: Any) -> None:
    topics.write(copy.source, 0, 5)
    topics.write(copy.source, 1, 3)
    copy.run()
    copy.forget_commit(0)
    copy.run()
    assert seen(load, copy.target) == seen(load, copy.target, "read_uncommitted") == 8


def test_a_batch_of_which_a_task_fails_leaves_nothing(copy: Copy, topics: Topics, load: Any) -> None:
    topics.write(copy.source, 0, 5)
    topics.produce(copy.source, 1, encode_batch([Record(-1, topics.first_ms, None, b"bad")]))
    bad = expr("if(value = X'626164', raise_error('a bad row'), value) AS value")
    with pytest.raises(StreamingQueryException, match="a bad row"):
        copy.run(bad)
    assert seen(load, copy.target) == 0
    copy.run()
    assert seen(load, copy.target) == 6


def test_a_frame_of_which_a_task_fails_leaves_nothing(spark: SparkSession, topics: Topics, load: Any) -> None:
    topics.create("all-or-nothing")
    values = spark.range(0, 100, 1, 2)

    def save(frame: DataFrame) -> None:
        writer = frame.write.format("odradek").option("kafka.bootstrap.servers", topics.address)
        writer.option("topic", "all-or-nothing").option("transactional", "required").mode("append").save()

    with pytest.raises(Exception, match="a bad row"):
        save(values.select(expr("if(id = 99, raise_error('a bad row'), cast(id AS string)) AS value")))
    assert seen(load, "all-or-nothing") == 0
    save(values.select(expr("cast(id AS string) AS value")))
    assert seen(load, "all-or-nothing") == 100
