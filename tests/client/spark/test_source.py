"""Spark itself against `odradek serve`: what was produced is what the DataFrame holds, row for row."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the Spark source needs pyspark (extra `spark`)")

from odradek.client.record import LATEST, TopicPartition
from odradek.client.spark.brokers import Brokers
from odradek.client.spark.connection import BlockingConnection
from odradek.client.spark.options import ClientOptions, parse_options
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record
from odradek.tests.support.java import require_spark_java
from odradek.tests.support.process import broker_process
from pyspark.errors import AnalysisException, PythonException
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
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
        ({"startingOfsets": "earliest"}, "did you mean 'startingOffsets'?"),
        ({"kafka__auto__offset__reset": "earliest"}, "option 'kafka.auto.offset.reset': is not supported"),
        ({"kafka__group__id": "g"}, "a read joins no consumer group"),
    ],
)
def test_wrong_options_fail_at_load_and_say_why(load: Any, options: dict[str, str], said: str) -> None:
    with pytest.raises(AnalysisException) as caught:
        load(**options)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
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
