"""`make demo ARGS=--stream`: flights through windows into a compacted topic exactly once, while the broker is killed.

A year of flights is produced in parts. A query of Spark (pipelines/delays.py) adds them up by carrier and week, and
writes each closed week to a compacted topic. While the query works on the second part and the third one, the broker is
killed (kill -9) and started again. At the end each row of the topic is compared with sums of the flights in Python.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo_parts import DemoBroker, DemoFailed, console
from flights import COUNT
from odradek.client import Admin, Consumer, NewTopic, Producer, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLIGHTS, DELAYS = "flights", "delays"
PARTITIONS = 6
WINDOW, LATE = "7 days", "1 day"
WEEK = timedelta(days=7)
PARTS, KILLED_IN = 4, (1, 2)

# Start of the week and carrier -> flights, those that departed, and the minutes of their delays.
Weeks = dict[tuple[str, str], list[int]]


class Stream:
    """One run of the demo's stream."""

    def __init__(self, broker: DemoBroker, spark: SparkSession, folder: Path) -> None:
        self._broker = broker
        self._spark = spark
        self._folder = folder

    def show(self, flights: list[bytes]) -> None:
        """Stream these flights, which are in order of time, and check what is in the topic. Raises DemoFailed."""
        from odradek.pipelines import delays

        asyncio.run(self._create())
        address, checkpoint = self._broker.address, str(self._folder / "checkpoint")
        frame = delays.delays(delays.flights(self._spark, address, FLIGHTS), WINDOW, LATE)
        query = delays.to_topic(frame, address, DELAYS, checkpoint).start()
        try:
            for part in range(PARTS):
                began = time.monotonic()
                given = flights[part * len(flights) // PARTS : (part + 1) * len(flights) // PARTS]
                asyncio.run(self._produce(given))
                if part in KILLED_IN:
                    self._broker.kill()
                    self._broker.start()
                query.processAllAvailable()
                killed = ", the broker was killed and started again meanwhile" if part in KILLED_IN else ""
                took = time.monotonic() - began
                console.print(f"part {part + 1} of {PARTS}: {len(given):,} flights streamed in {took:.0f} s{killed}")
            dropped = sum(each.numRowsDroppedByWatermark for one in query.recentProgress for each in one.stateOperators)
        finally:
            query.stop()
        if dropped:
            raise DemoFailed(f"{dropped} flights came too late for their windows")
        check(asyncio.run(self._rows()), closed_weeks(flights))

    async def _create(self) -> None:
        async with Admin(self._broker.address) as admin:
            compacted = NewTopic(DELAYS, num_partitions=2, configs={"cleanup.policy": "compact"})
            await admin.create_topics([NewTopic(FLIGHTS, num_partitions=PARTITIONS), compacted])

    async def _produce(self, flights: list[bytes]) -> None:
        """Produce so that time passes alike in all partitions: flights that are read late count as late."""
        async with Producer(self._broker.address) as producer:
            for number in range(PARTITIONS):
                await producer.send_values(FLIGHTS, flights[number::PARTITIONS], partition=number)

    async def _rows(self) -> list[dict[str, Any]]:
        """Return the rows that a read_committed consumer finds."""
        address, found = self._broker.address, list[dict[str, Any]]()
        async with Consumer(bootstrap_servers=address, isolation_level="read_committed") as consumer:
            partitions = [TopicPartition(DELAYS, number) for number in range(2)]
            consumer.assign(partitions)
            for each in partitions:
                consumer.seek(each, 0)
            ends = await consumer.end_offsets(partitions)
            while any([await consumer.position(each) < ends[each] for each in partitions]):
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    found += [json.loads(each.value) for each in records if each.value is not None]
        return found


def hour(flight: bytes) -> str:
    """Return the hour of a flight's schedule, by which flights are in order of time."""
    return json.loads(flight)["time_hour"]


def closed_weeks(flights: list[bytes]) -> Weeks:
    """Return the sums of the weeks that ended a day before the last flight."""
    weeks, last = Weeks(), datetime.fromtimestamp(0, UTC)
    epoch = last
    for each in map(json.loads, flights):
        at = datetime.fromisoformat(each["time_hour"])
        last = max(last, at)
        start = epoch + (at - epoch) // WEEK * WEEK
        sums = weeks.setdefault((start.isoformat(), each["carrier"]), [0, 0, 0])
        sums[0] += 1
        if each["dep_delay"] is not None:
            sums[1] += 1
            sums[2] += each["dep_delay"]
    closed = last - timedelta(days=1)
    return {key: sums for key, sums in weeks.items() if datetime.fromisoformat(key[0]) + WEEK <= closed}


def check(rows: list[dict[str, Any]], weeks: Weeks) -> None:
    """Compare the rows of the topic with the sums. Raises DemoFailed."""
    counted = Counter((row["start"], row["carrier"]) for row in rows)
    twice = [key for key, count in counted.items() if count > 1]
    if twice or counted.keys() != weeks.keys():
        found = f"{len(twice)} of them twice, {len(weeks.keys() - counted.keys())} missing"
        raise DemoFailed(f"{len(rows):,} rows instead of {len(weeks):,}: {found}")
    for row in rows:
        flights, departed, minutes = weeks[row["start"], row["carrier"]]
        mean = None if not departed else minutes / departed
        if (row["flights"], row["departed"]) != (flights, departed) or row["mean_delay"] != mean:
            raise DemoFailed(f"the row {row} should have {flights} flights, {departed} departed, {mean} minutes")
    console.print(f"[green]✓[/] {len(rows):,} weeks of carriers of {COUNT:,} flights, each there once, all sums equal")
