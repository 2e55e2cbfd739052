"""Spark itself against `odradek serve`: what was produced is what the DataFrame holds, row for row."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the Spark source needs pyspark (extra `spark`)")

from odradek.client.record import LATEST, TopicPartition
from odradek.client.spark.brokers import Brokers
from odradek.client.spark.connection import BlockingConnection
from odradek.client.spark.options import ClientOptions, parse_options
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record
from odradek.tests.support.java import require_spark_java
from odradek.tests.support.process import broker_process
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # pyspark's own sockets
]

# Of today: a broker deletes what is older than its retention.
FIRST_MS = int(time.time()) * 1000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PARTITIONS = 3
PER_PARTITION = 40
CODECS = list(Compression)


def made(partition: int, offset: int) -> Record:
    """What the topic `things` holds: nulls, empty values, headers, every codec."""
    key = None if offset % 4 == 0 else b"key-%d-%d" % (partition, offset)
    value = None if offset % 7 == 3 else b"v" * (offset % 5)
    headers = (("origin", b"test"), ("empty", None)) if offset % 10 == 1 else ()
    return Record(offset, FIRST_MS + 1000 * partition + offset, key, value, headers)


def row_of(partition: int, offset: int, include_headers: bool = False) -> dict[str, Any]:
    record = made(partition, offset)
    row = {
        "key": record.key,
        "value": record.value,
        "topic": "things",
        "partition": partition,
        "offset": offset,
        "timestamp": EPOCH + timedelta(milliseconds=record.timestamp_ms),
        "timestampType": 0,
    }
    if include_headers:
        row["headers"] = [Row(key=name, value=value) for name, value in record.headers] or None
    return row


EVERYTHING = [row_of(partition, offset) for partition in range(PARTITIONS) for offset in range(PER_PARTITION)]


@dataclass
class Produced:
    """A broker with topics in it: `things` as `made` makes them, `other` with one record, `empty` with none."""

    address: str
    client: ClientOptions

    def create(self, name: str, partitions: int = 1) -> None:
        with BlockingConnection(self.client.bootstrap[0], self.client) as connection:
            topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
            answer = connection.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), CreateTopicsResponse)
        assert answer.topics[0].error_code == 0
        # A real Kafka answers before the partitions are led.
        brokers, made = Brokers(self.client), [TopicPartition(name, number) for number in range(partitions)]
        assert set(brokers.retry(lambda: brokers.offsets(made, LATEST)).values()) == {0}

    def produce(self, topic: str, partition: int, batch: bytes) -> None:
        with BlockingConnection(self.client.bootstrap[0], self.client) as connection:
            metadata = connection.request(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), MetadataResponse)
            data = TopicProduceData(topic, metadata.topics[0].topic_id, [PartitionProduceData(partition, batch)])
            answer = connection.request(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), ProduceResponse)
        assert answer.responses[0].partition_responses[0].error_code == 0


@pytest.fixture(scope="module")
def produced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Produced]:
    require_spark_java()
    broker = broker_process(tmp_path_factory.mktemp("broker"))
    try:
        broker.start()
        client = parse_options({"kafka.bootstrap.servers": broker.address, "subscribe": "things"}).client
        topics = Produced(broker.address, client)
        topics.create("things", PARTITIONS)
        for partition in range(PARTITIONS):
            for number, codec in enumerate(CODECS):
                size = PER_PARTITION // len(CODECS)
                records = [made(partition, offset) for offset in range(number * size, (number + 1) * size)]
                batch = [record._replace(offset=-1) for record in records]
                topics.produce("things", partition, encode_batch(batch, compression=codec))
        topics.create("other")
        topics.produce("other", 0, encode_batch([Record(-1, FIRST_MS, None, b"other")]))
        topics.create("empty", 2)
        yield topics
    finally:
        broker.close()


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session without any `register` call: Spark finds the source by itself."""
    require_spark_java()
    folder = str(tmp_path_factory.mktemp("spark"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master("local[2]").appName("odradek tests")
        for name, value in {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            "spark.driver.memory": "1g",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": folder,
            "spark.sql.session.timeZone": "UTC",
        }.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        yield session
        session.stop()


@pytest.fixture
def load(spark: SparkSession, produced: Produced) -> Any:
    """load(schema, **options) -> DataFrame of the source."""

    def load(schema: str | None = None, **options: str) -> DataFrame:
        reader = spark.read.format("odradek").option("kafka.bootstrap.servers", produced.address)
        if not {"subscribe", "subscribePattern", "assign"} & options.keys():
            options["subscribe"] = "things"
        if schema is not None:
            reader = reader.schema(schema)
        return reader.options(**{name.replace("__", "."): text for name, text in options.items()}).load()

    return load


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    """In an order of their own. Spark gives timestamps without a zone, in the machine's."""
    found = [row.asDict() for row in frame.collect()]
    for row in found:
        if isinstance(row.get("timestamp"), datetime):
            row["timestamp"] = row["timestamp"].astimezone(UTC)
        for name in ("key", "value"):
            if isinstance(row.get(name), bytearray):
                row[name] = bytes(row[name])
    return sorted(found, key=lambda row: (row.get("topic", ""), row.get("partition", 0), row.get("offset", 0)))


def test_rows_are_what_was_produced(load: Any) -> None:
    frame = load()
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    assert frame.rdd.getNumPartitions() == PARTITIONS
    assert rows(frame) == EVERYTHING


def test_headers_come_with_an_option(load: Any) -> None:
    expected = [row_of(partition, offset, True) for partition in range(PARTITIONS) for offset in range(PER_PARTITION)]
    assert rows(load(includeHeaders="true")) == expected


def test_a_schema_picks_columns_in_its_own_order(load: Any) -> None:
    frame = load("offset bigint, value binary, partition int")
    assert frame.columns == ["offset", "value", "partition"]
    picked = [{name: row[name] for name in ("offset", "value", "partition")} for row in EVERYTHING]
    assert rows(frame) == picked


def test_the_frame_is_for_sql(load: Any) -> None:
    counted = load("partition int, value binary").where("value is not null").groupBy("partition").count().collect()
    values = sum(row["value"] is not None for row in EVERYTHING if row["partition"] == 0)
    assert sorted(tuple(row) for row in counted) == [(partition, values) for partition in range(PARTITIONS)]


def test_offsets_by_json(load: Any) -> None:
    starting = json.dumps({"things": {"0": 5, "1": -2, "2": 39}})
    ending = json.dumps({"things": {"0": 12, "1": 3, "2": -1}})
    found = [(row["partition"], row["offset"]) for row in rows(load(startingOffsets=starting, endingOffsets=ending))]
    assert found == [(0, offset) for offset in range(5, 12)] + [(1, 0), (1, 1), (1, 2), (2, 39)]


@pytest.mark.parametrize(
    ("options", "topics"),
    [
        ({"subscribe": "things, other"}, {"things", "other"}),
        ({"subscribePattern": "o.*"}, {"other"}),
        ({"subscribePattern": "nothing-.*"}, set[str]()),
        ({"assign": '{"things": [1], "other": [0], "empty": [0]}'}, {"things", "other"}),
        ({"subscribe": "empty"}, set[str]()),
    ],
)
def test_topics_are_chosen_by_name_pattern_or_partition(load: Any, options: dict[str, str], topics: set[str]) -> None:
    assert {row["topic"] for row in load("topic string", **options).distinct().collect()} == topics


def test_a_partition_can_be_divided_among_tasks(load: Any) -> None:
    for options in ({"minPartitions": "8"}, {"maxRecordsPerPartition": "13"}):
        frame = load(**options)
        assert frame.rdd.getNumPartitions() >= 8
        assert rows(frame) == EVERYTHING


def test_a_frame_keeps_its_offsets_and_a_new_one_sees_more(load: Any, produced: Produced) -> None:
    produced.create("growing")
    produced.produce("growing", 0, encode_batch([Record(-1, FIRST_MS, None, b"1")]))
    frame = load(subscribe="growing")
    assert frame.count() == 1
    produced.produce("growing", 0, encode_batch([Record(-1, FIRST_MS, None, b"2")]))
    assert frame.count() == 1
    assert load(subscribe="growing").count() == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOfsets": "earliest", "strictOptions": "true"}, "did you mean 'startingOffsets'?"),
        ({"kafka__auto__offset__reset": "earliest"}, "option 'kafka.auto.offset.reset': is not supported"),
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
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
        ({"subscribe": "no-such-topic"}, "topic 'no-such-topic' does not exist"),
        ({"assign": '{"other": [1]}'}, "topic 'other' has no partition 1"),
        ({"startingOffsets": '{"things": {"0": 1}}'}, "missing: things-1, things-2"),
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
    assert [row["value"] for row in rows(load(**options))] == [b"other"]


# -- Times and slices


def offsets_read(frame: DataFrame) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in rows(frame)]


def expected_offsets(least: int, end: int, partitions: Collection[int] = range(PARTITIONS)) -> list[tuple[int, int]]:
    return [(partition, offset) for partition in partitions for offset in range(least, end)]


def test_times_choose_the_first_record_at_or_after_them(load: Any) -> None:
    # The timestamps of partition p begin a second later than those of p - 1.
    one = load("partition int, offset bigint", startingTimestamp=str(FIRST_MS + 2010), partitions="2")
    assert offsets_read(one) == expected_offsets(10, PER_PARTITION, [2])
    times = json.dumps({"things": {str(number): FIRST_MS + 1000 * number + 30 for number in range(PARTITIONS)}})
    assert offsets_read(load("partition int, offset bigint", endingOffsetsByTimestamp=times)) == expected_offsets(0, 30)
    with pytest.raises(AnalysisException, match="no record of things-0 has a timestamp of"):
        load(startingTimestamp=str(FIRST_MS + 10_000_000)).collect()
    none = load(startingTimestamp=str(FIRST_MS + 10_000_000), startingOffsetsByTimestampStrategy="latest")
    assert none.collect() == []


def test_slices_leave_out_what_lies_outside(load: Any) -> None:
    assert offsets_read(load(minOffset="5", maxOffset="9")) == expected_offsets(5, 9)
    assert offsets_read(load(partitions="0,2", maxOffset="3")) == expected_offsets(0, 3, [0, 2])
    moment = datetime.fromtimestamp((FIRST_MS + 1000) / 1000, UTC).isoformat()
    assert offsets_read(load(minTimestamp=moment, partitions="0,1")) == expected_offsets(0, PER_PARTITION, [1])
    limited = load(limit="50", minOffset="10")
    assert limited.rdd.getNumPartitions() == 1
    assert len(limited.collect()) == 50


# -- Streams


@dataclass
class Stream:
    """A stream into memory, with a checkpoint that a later run may go on with."""

    spark: SparkSession
    address: str
    folder: Path
    topic: str
    format: str = "odradek"

    def run(self, **options: str) -> list[tuple[int, int]]:
        """Read what there is now and stop. Returns partition and offset of each row, in order."""
        reader = self.spark.readStream.format(self.format).option("kafka.bootstrap.servers", self.address)
        frame = reader.option("subscribe", self.topic).options(**options).load()
        found: list[tuple[int, int]] = []

        def take(batch: DataFrame, number: int) -> None:
            found.extend((row["partition"], row["offset"]) for row in batch.select("partition", "offset").collect())

        writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(self.folder))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        self.progress = [json.loads(each.json) for each in query.recentProgress]
        self.query_id = str(query.id)
        return sorted(found)


@pytest.fixture
def stream(spark: SparkSession, produced: Produced, tmp_path: Path) -> Stream:
    topic = f"stream-{tmp_path.name}"
    produced.create(topic, 2)
    return Stream(spark, produced.address, tmp_path / "checkpoint", topic)


def write(produced: Produced, topic: str, partition: int, count: int) -> None:
    produced.produce(topic, partition, encode_batch([Record(-1, FIRST_MS, None, b"v") for _ in range(count)]))


def test_a_stream_reads_every_record_once_over_restarts(stream: Stream, produced: Produced) -> None:
    write(produced, stream.topic, 0, 5)
    write(produced, stream.topic, 1, 3)
    first = stream.run(startingOffsets="earliest", maxOffsetsPerTrigger="4")
    assert first == [(0, offset) for offset in range(5)] + [(1, offset) for offset in range(3)]
    assert len([each for each in stream.progress if each["numInputRows"]]) == 2
    write(produced, stream.topic, 1, 2)
    assert stream.run(startingOffsets="earliest") == [(1, 3), (1, 4)]
    assert stream.run(startingOffsets="earliest") == []
    ends = sorted((stream.folder / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))[-1].read_text()
    assert json.loads(ends.splitlines()[-1]) == {stream.topic: {"0": 5, "1": 5}}


def test_the_progress_of_a_stream_is_committed_under_the_name_of_its_query(stream: Stream, produced: Produced) -> None:
    write(produced, stream.topic, 0, 5)
    stream.run(startingOffsets="earliest")
    write(produced, stream.topic, 0, 2)
    stream.run(startingOffsets="earliest")
    assert committed(produced, f"spark-odradek-{stream.query_id}", stream.topic) == 5
    write(produced, stream.topic, 0, 1)
    stream.run(startingOffsets="earliest", **{"kafka.group.id": "mine"})
    assert committed(produced, "mine", stream.topic) == 7


def committed(produced: Produced, group: str, topic: str) -> int:
    with BlockingConnection(produced.client.bootstrap[0], produced.client) as connection:
        partitions = OffsetFetchRequestTopics(topic, partition_indexes=[0])
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=[partitions])])
        connection.send(request, OffsetFetchResponse, 8)
        answer = connection.receive(OffsetFetchResponse)
    return answer.groups[0].topics[0].partitions[0].committed_offset


def test_a_stream_refuses_ending_offsets(stream: Stream) -> None:
    with pytest.raises(StreamingQueryException, match="ending offset not valid in streaming queries"):
        stream.run(endingOffsets="latest")


# -- Writes


def test_a_frame_is_written_and_read_again(load: Any, spark: SparkSession, produced: Produced) -> None:
    produced.create("written", 2)
    writer = load("key binary, value binary").write.format("odradek")
    writer.option("kafka.bootstrap.servers", produced.address).option("topic", "written").mode("append").save()
    values = sorted((row["key"] or b"", row["value"] or b"") for row in rows(load(subscribe="written")))
    assert values == sorted((row["key"] or b"", row["value"] or b"") for row in EVERYTHING)
    with pytest.raises((AnalysisException, PythonException), match="overwrite is not supported"):
        frame = spark.createDataFrame([(b"v",)], "value binary").write.format("odradek").option("topic", "written")
        frame.option("kafka.bootstrap.servers", produced.address).mode("overwrite").save()


def test_a_stream_is_written_to_a_topic(stream: Stream, produced: Produced, load: Any) -> None:
    write(produced, stream.topic, 0, 5)
    produced.create(f"{stream.topic}-copy")
    reader = stream.spark.readStream.format("odradek").option("kafka.bootstrap.servers", produced.address)
    frame = reader.option("subscribe", stream.topic).option("startingOffsets", "earliest").load()
    writer = frame.select("key", "value").writeStream.format("odradek").option("topic", f"{stream.topic}-copy")
    writer = writer.option("kafka.bootstrap.servers", produced.address).option("checkpointLocation", str(stream.folder))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert load(subscribe=f"{stream.topic}-copy").count() == 5
