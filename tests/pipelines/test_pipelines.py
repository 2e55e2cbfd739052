"""The pipelines against a broker in a process of its own, which is killed while they write."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the pipelines need pyspark (extra `spark`)")

from odradek.pipelines import carriers
from odradek.pipelines.backfill import backfill, departures
from odradek.pipelines.carriers import by_carrier
from odradek.pipelines.delays import delays, flights, to_topic
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record
from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.clients.exactly_once import read_committed
from odradek.tests.support.clients.java import require_spark_java
from odradek.tests.support.spark.spark_topics import Topics
from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # pyspark's own sockets
]

BEGIN = datetime(2013, 1, 1, tzinfo=UTC)
CARRIERS = ("AA", "DL", "UA")
Flight = dict[str, Any]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    require_spark_java()
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), transaction_state_log_num_partitions=5).start()
    yield broker
    broker.close()


@pytest.fixture
def topics(broker: BrokerProcess) -> Topics:
    return Topics(broker.address, int(time.time()) * 1000)


def flights_of(hours: Sequence[int]) -> list[Flight]:
    """Return two flights of each carrier in each hour; the second one of AA was cancelled."""
    return [
        {
            "carrier": carrier, "flight": 100 * hour + 10 * number + second, "origin": "JFK", "dest": "LAX",
            "dep_delay": None if carrier == "AA" and second else hour + number,
            "time_hour": (BEGIN + timedelta(hours=hour, minutes=20 * second)).isoformat(),
        }
        for hour in hours
        for number, carrier in enumerate(CARRIERS)
        for second in (0, 1)
    ]  # fmt: skip


def depart(topics: Topics, topic: str, flown: list[Flight]) -> None:
    """Produce flights to both partitions, in order of time."""
    for partition in (0, 1):
        records = [Record(-1, topics.first_ms, None, json.dumps(each).encode()) for each in flown[partition::2]]
        topics.produce(topic, partition, encode_batch(records))


def rows_of(broker: BrokerProcess, topic: str) -> list[Flight]:
    return [json.loads(value) for partition in (0, 1) for _, value in read_committed(broker.address, topic, partition)]


def test_windows_reach_a_compacted_topic_once_while_the_broker_is_killed_twice(
    spark: SparkSession, broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    topics.create("flown", 2)
    topics.create("delays", 2, cleanup_policy="compact")
    frame = delays(flights(spark, broker.address, "flown"), "1 hour", "0 seconds")
    query = to_topic(frame, broker.address, "delays", str(tmp_path / "checkpoint")).start()
    try:
        for part in range(3):
            depart(topics, "flown", flights_of(range(6 * part, 6 * part + 6)))
            if part in (1, 2):
                # The query has work to do, whatever it does at this moment.
                broker.kill()
                broker.start()
            query.processAllAvailable()
    finally:
        query.stop()
    # The last hour is open: no flight is later.
    assert sorted(map(str, rows_of(broker, "delays"))) == sorted(map(str, windows_of(flights_of(range(17)))))


def windows_of(flown: list[Flight]) -> list[Flight]:
    """Return what the pipeline has to write for these flights."""
    grouped: dict[tuple[str, str], list[Flight]] = defaultdict(list)
    for each in flown:
        start = datetime.fromisoformat(each["time_hour"]).replace(minute=0)
        grouped[start.isoformat(), each["carrier"]].append(each)
    windows: list[Flight] = []
    for (start, carrier), each in grouped.items():
        late = [one["dep_delay"] for one in each if one["dep_delay"] is not None]
        counts = {"flights": len(each), "departed": len(late), "mean_delay": sum(late) / len(late)}
        windows.append({"start": start, "carrier": carrier, **counts})
    return windows


def test_carriers_are_added_up(spark: SparkSession, broker: BrokerProcess, topics: Topics) -> None:
    topics.create("added-up", 2)
    depart(topics, "added-up", flights_of(range(3)))
    flown = spark.read.format("odradek").options(**carriers.options(broker.address, "added-up")).load()
    found = {row.carrier: (row.flights, row.departed, row.minutes, row.numbers) for row in by_carrier(flown).collect()}
    assert found == {"AA": (6, 3, 3, 603), "DL": (6, 6, 12, 663), "UA": (6, 6, 18, 723)}


def test_a_backfill_goes_on_streaming_without_loss_or_doubles(
    spark: SparkSession, broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    topics.create("a-year", 2)
    topics.create("departures", 2)
    place = spark, broker.address, "a-year", "departures", str(tmp_path / "checkpoint")
    depart(topics, "a-year", flights_of(range(40)))
    backfill(*place)
    expected = Counter(each["flight"] for each in flights_of(range(40)) if each["dep_delay"] is not None)
    assert Counter(each["flight"] for each in rows_of(broker, "departures")) == expected
    # A start that finds nothing new writes nothing.
    backfill(*place)
    depart(topics, "a-year", flights_of(range(40, 50)))
    query = departures(*place).start()
    try:
        depart(topics, "a-year", flights_of(range(50, 60)))
        query.processAllAvailable()
    finally:
        query.stop()
    expected = Counter(each["flight"] for each in flights_of(range(60)) if each["dep_delay"] is not None)
    assert Counter(each["flight"] for each in rows_of(broker, "departures")) == expected
