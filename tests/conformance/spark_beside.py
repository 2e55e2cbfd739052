"""Spark's own Kafka connector beside ours in one session, against our broker: run by test_spark_connector.py.

    python -m odradek.tests.conformance.spark_beside ADDRESS FIRST_MS FOLDER [SPARK.NAME=VALUE...]

Needs PySpark 4.2.0 with the connector's jars. Prints a line of JSON for each case: its name, and null or what was
wrong. First the table of spark_cases.py for `format("kafka")`, then what only two connectors together can show.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from odradek.client.blocking import Producer
from odradek.tests.support.spark.spark_cases import CASES, Case, Main, Place, Reader, rows_of
from odradek.tests.support.spark.spark_topics import Topics, session


def _written(topics: Topics, topic: str, *counts: int) -> None:
    for partition, count in enumerate(counts):
        if count:
            topics.write(topic, partition, count)


def _handed_over(name: str, formats: tuple[str, str]) -> Case:
    """A checkpoint of one connector goes on with the other, and comes back."""

    def check(reader: Reader) -> None:
        topic = name.replace(" ", "-")
        options = {"subscribe": topic, "startingOffsets": "earliest"}
        first, second = (replace(reader, format=each) for each in formats)
        reader.topics.create(topic, 2)
        _written(reader.topics, topic, 5, 3)
        assert first.stream(options) == _places(0, (5, 3))
        _written(reader.topics, topic, 2, 1)
        assert second.stream(options) == _places((5, 3), (7, 4))
        assert reader.offsets() == {topic: {"0": 7, "1": 4}}
        _written(reader.topics, topic, 0, 2)
        assert first.stream(options) == [(1, 4), (1, 5)]
        assert second.stream(options) == []
        assert reader.offsets() == {topic: {"0": 7, "1": 6}}

    return Case(name, check)


def _places(begin: int | tuple[int, ...], end: tuple[int, ...]) -> list[Place]:
    starts = begin if isinstance(begin, tuple) else (begin,) * len(end)
    return [(number, offset) for number, last in enumerate(end) for offset in range(starts[number], last)]


def _sink(reader: Reader) -> None:
    """Rows that Spark's own sink writes are those that both read, in batch and in a stream."""
    reader.topics.create("sunk", 2)
    reader.topics.create("sunk-stream", 1)
    everything = reader.load({"includeHeaders": "true"}).where("partition < 2")
    given = everything.select("key", "value", "partition", "headers")
    where = {"kafka.bootstrap.servers": reader.topics.address}
    given.write.format("kafka").options(**where).option("topic", "sunk").option("includeHeaders", "true").save()
    expected = [row for row in reader.topics.everything(include_headers=True) if row["partition"] < 2]
    for each in ("kafka", "odradek"):
        found = rows_of(replace(reader, format=each).load({"subscribe": "sunk", "includeHeaders": "true"}))
        assert _records(found) == _records(expected), each
    stream = reader.spark.readStream.format("kafka").options(**where).option("subscribe", "things")
    frame = stream.option("startingOffsets", "earliest").load().select("key", "value")
    writer = frame.writeStream.format("kafka").options(**where).option("topic", "sunk-stream")
    writer.option("checkpointLocation", str(reader.folder)).trigger(availableNow=True).start().awaitTermination()
    found = rows_of(replace(reader, format="odradek").load({"subscribe": "sunk-stream"}))
    assert len(found) == len(reader.topics.everything())


def _records(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr([row[name] for name in ("partition", "key", "value", "headers")]) for row in rows)


def _committed(reader: Reader) -> None:
    """With read_committed neither sees an aborted record, nor one of an open transaction."""
    topic = "transactional"
    reader.topics.create(topic)
    with (
        Producer(reader.topics.address, transactional_id="one") as one,
        Producer(reader.topics.address, transactional_id="other") as other,
    ):
        with one.transaction():
            one.send_and_wait(topic, b"committed")
        one.begin_transaction()
        one.send_and_wait(topic, b"aborted")
        one.abort_transaction()
        with one.transaction():
            one.send_and_wait(topic, b"committed too")
        other.begin_transaction()
        other.send_and_wait(topic, b"open")
        for name in ("kafka", "odradek"):
            each = replace(reader, format=name)
            level = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
            assert _values(each, level) == [b"committed", b"committed too"], name
            dirty = level | {"kafka.isolation.level": "read_uncommitted"}
            assert _values(each, dirty) == [b"committed", b"aborted", b"committed too", b"open"], name
        other.abort_transaction()


def _values(reader: Reader, options: dict[str, str]) -> list[bytes]:
    return [row["value"] for row in rows_of(reader.load(options))]


BESIDE = (
    _handed_over("a checkpoint of kafka goes on with odradek", ("kafka", "odradek")),
    _handed_over("a checkpoint of odradek goes on with kafka", ("odradek", "kafka")),
    Case("the sink of kafka", _sink),
    Case("committed transactions", _committed),
)


def main(arguments: list[str]) -> None:
    address, first_ms, folder, *settings = arguments
    spark = session(folder, **dict(each.split("=", 1) for each in settings))
    register: Callable[[Any], None] = spark.dataSource.register
    from odradek.client.spark.source import OdradekSource

    register(OdradekSource)
    try:
        Main(Reader(spark, "kafka", Topics(address, int(first_ms)), Path(folder))).run((*CASES, *BESIDE))
    finally:
        spark.stop()
    print(json.dumps({"ended": True}))


if __name__ == "__main__":
    main(sys.argv[1:])
