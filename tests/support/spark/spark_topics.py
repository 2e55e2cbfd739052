"""The topics that readers of Spark are tested with, and a session that starts quickly.

`things` has nulls, empty values, headers and every codec; `other` has one record, `empty` has none. Imports nothing of
PySpark but in `session`: another PySpark's process takes its topics from here too.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from odradek.client.arrow.brokers import Brokers
from odradek.client.arrow.connection import BlockingConnection, ClientOptions
from odradek.client.record import LATEST, TopicPartition
from odradek.client.spark.options import parse_options
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PARTITIONS = 3
PER_PARTITION = 40
CODECS = list(Compression)
# The timestamps of partition p begin a second later than those of p - 1.
STEP_MS = 1000
JVM = "spark.driver.extraJavaOptions"
CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def made(partition: int, offset: int, first_ms: int) -> Record:
    """What the topic `things` holds."""
    key = None if offset % 4 == 0 else b"key-%d-%d" % (partition, offset)
    value = None if offset % 7 == 3 else b"v" * (offset % 5)
    headers = (("origin", b"test"), ("empty", None)) if offset % 10 == 1 else ()
    return Record(offset, first_ms + STEP_MS * partition + offset, key, value, headers)


@dataclass
class Topics:
    """A broker with the topics in it."""

    address: str
    # Of today: a broker deletes what is older than its retention.
    first_ms: int

    @property
    def client(self) -> ClientOptions:
        return parse_options({"kafka.bootstrap.servers": self.address, "subscribe": "things"}).client

    def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic. Configs are Kafka's names with underscores."""
        with BlockingConnection(self.client.bootstrap[0], self.client) as connection:
            given = [CreatableTopicConfig(each.replace("_", "."), text) for each, text in configs.items()]
            topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=given)
            answer = connection.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), CreateTopicsResponse)
        assert answer.topics[0].error_code == 0
        # A real Kafka answers before the partitions are led.
        brokers, made = Brokers(self.client), [TopicPartition(name, number) for number in range(partitions)]
        assert set(brokers.retry(lambda: brokers.offsets(made, LATEST)).values()) == {0}

    def delete(self, name: str) -> None:
        """Delete a topic."""
        with BlockingConnection(self.client.bootstrap[0], self.client) as connection:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000)
            answer = connection.request(request, DeleteTopicsResponse)
        assert answer.responses[0].error_code == 0

    def produce(self, topic: str, partition: int, batch: bytes) -> None:
        with BlockingConnection(self.client.bootstrap[0], self.client) as connection:
            metadata = connection.request(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), MetadataResponse)
            data = TopicProduceData(topic, metadata.topics[0].topic_id, [PartitionProduceData(partition, batch)])
            answer = connection.request(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), ProduceResponse)
        assert answer.responses[0].partition_responses[0].error_code == 0

    def write(self, topic: str, partition: int, count: int) -> None:
        """Produce so many records of one value."""
        self.produce(topic, partition, encode_batch([Record(-1, self.first_ms, None, b"v") for _ in range(count)]))

    def row(self, partition: int, offset: int, include_headers: bool = False) -> dict[str, Any]:
        """A row of `things` as Spark has it, headers as pairs."""
        record = made(partition, offset, self.first_ms)
        row: dict[str, Any] = {
            "key": record.key,
            "value": record.value,
            "topic": "things",
            "partition": partition,
            "offset": offset,
            "timestamp": EPOCH + timedelta(milliseconds=record.timestamp_ms),
            "timestampType": 0,
        }
        if include_headers:
            row["headers"] = [tuple(each) for each in record.headers] or None
        return row

    def everything(self, include_headers: bool = False) -> list[dict[str, Any]]:
        """All rows of `things`, in order."""
        numbers = [(partition, offset) for partition in range(PARTITIONS) for offset in range(PER_PARTITION)]
        return [self.row(partition, offset, include_headers) for partition, offset in numbers]


def fill(address: str) -> Topics:
    """Create and fill the topics."""
    topics = Topics(address, int(time.time()) * 1000)
    topics.create("things", PARTITIONS)
    for partition in range(PARTITIONS):
        for number, codec in enumerate(CODECS):
            size = PER_PARTITION // len(CODECS)
            records = [made(partition, offset, topics.first_ms) for offset in range(number * size, (number + 1) * size)]
            batch = [record._replace(offset=-1) for record in records]
            topics.produce("things", partition, encode_batch(batch, compression=codec))
    topics.create("other")
    topics.produce("other", 0, encode_batch([Record(-1, topics.first_ms, None, b"other")]))
    topics.create("empty", 2)
    return topics


def session(folder: str, **more: str) -> Any:
    """Start a session of two cores, whose JVM starts soon (spark_jvm.py)."""
    import os

    from odradek.tests.support.spark.spark_jvm import home, java_options
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["SPARK_HOME"] = str(home())
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").appName("odradek tests")  # pyright: ignore
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        # Hadoop's other ways to a local file start a process (chmod, readlink) for most of what a checkpoint does.
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS,
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.warehouse.dir": folder,
        "spark.sql.session.timeZone": "UTC",
        **({} if JVM in more else {JVM: java_options()}),
        **more,
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    # Spark cancels its jobs on Ctrl-C: the tests' process keeps the handler that it had.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return session
