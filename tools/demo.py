"""`make demo`: a year of real flights through Odradek, every count checked.

A broker is started as a process of its own; 336,776 flights are produced over TCP, consumed by a group of two, read by
Spark, and added up by carrier each time. Then a stream finds the worst weeks. At last an archive keeps the year, the
broker's data are deleted, and the archive still has every flight. Status 0 means that all sums agree with
the data, flight number by flight number and minute by minute, and that the broker stopped cleanly.

Spark's JVM and the kernels of the source start beside the rest, because they take the longest.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))

from demo_parts import (
    PARTITIONS,
    TOPIC,
    DemoBroker,
    DemoFailed,
    check,
    console,
    delays,
    java_is_there,
    member_of_group,
    progress,
    quiet_jvm,
    read_flights,
    start_spark,
    sums_of,
)
from flights import COUNT, ByCarrier, FlightsMissing
from odradek.client import Admin, Consumer, NewTopic, Producer, read_topic
from rich.progress import Progress
from rich.table import Table

# A group of two on this machine has its partitions in seconds; longer is a fault worth a message.
CONSUMED_WITHIN_S = 90
# The pipeline's windows of event time.
WINDOW, LATE = "7 days", "1 day"

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main() -> int:
    parser = argparse.ArgumentParser(description="A year of real flights through Odradek, every count checked.")
    parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="odradek-demo-") as folder:
            run(Path(folder))
    except (DemoFailed, FlightsMissing) as error:
        console.print(f"[bold red]failed:[/] {error}")
        return 1
    console.print("[bold green]all counts agree, the broker stopped cleanly[/]")
    return 0


def run(folder: Path) -> None:
    began = time.monotonic()
    with quiet_jvm(folder / "spark.log"), ThreadPoolExecutor(1) as beside, DemoBroker(folder) as broker:
        spark = beside.submit(start_spark, folder) if java_is_there() else None
        try:
            truth = show(broker.address, spark, folder)
            archive(broker.address, folder)
        finally:
            if spark is not None:
                spark.result().stop()
    shutil.rmtree(folder / "data")
    console.print("the broker is gone, and all that it had")
    check("read from the archive alone", asyncio.run(read_archive(folder)), truth)
    console.print(f"{COUNT:,} flights produced, consumed and read in {time.monotonic() - began:.0f} s")


def show(address: str, spark: Future[SparkSession] | None, folder: Path) -> ByCarrier:
    """Produce, consume and read the flights, and return what the data say of them."""
    with progress() as bars:
        truth, records = read_flights(bars)
        try:
            rows, shares = asyncio.run(produce_to_group(address, records, bars))
        except TimeoutError:
            raise DemoFailed(f"the group had not read everything after {CONSUMED_WITHIN_S} s") from None
    console.print(f"the two consumers shared the partitions: {sorted(shares[0])} and {sorted(shares[1])}")
    check("consumed by the group", rows, truth)
    if spark is None:
        console.print("[yellow]skipped:[/] Spark, because it needs a Java 17+ runtime and none was found")
    else:
        began = time.monotonic()
        with console.status("Spark reads the topic"):
            rows = read_by_spark(spark.result(), address)
        console.print(f"Spark read the topic {time.monotonic() - began:.1f} s later")
        check("read by Spark", rows, truth)
        began = time.monotonic()
        with console.status("a stream reads the topic"):
            weeks = worst_weeks(spark.result(), address, folder)
        console.print(f"a stream added up {len(weeks):,} weeks of carriers in {time.monotonic() - began:.1f} s")
        console.print(weeks_table(weeks))
    console.print(delays(rows))
    return truth


# -- the archive


def archive(address: str, folder: Path) -> None:
    """Have `odradek archive` make a table of Iceberg of the topic. Raises DemoFailed."""
    began = time.monotonic()
    command = [sys.executable, "-m", "odradek", "archive", "run", TOPIC, "--to", str(folder / "archive"), "--once"]
    ended = subprocess.run([*command, "-b", address], capture_output=True, text=True)
    if ended.returncode:
        raise DemoFailed(f"the archive: {ended.stderr[-1000:]}")
    console.print(f"a table of Iceberg has the year after {time.monotonic() - began:.1f} s")


async def read_archive(folder: Path) -> ByCarrier:
    """Return the sums by carrier of what the archive alone has."""
    table = await read_topic(TOPIC, archive=str(folder / "archive"), archive_only=True, columns=["value"])
    sums = ByCarrier()
    for batch in table.to_batches():
        for value in batch.column(0).to_pylist():
            sums.add(json.loads(value))
    return sums


# -- producing and consuming


async def produce_to_group(
    address: str, records: list[tuple[bytes, bytes]], bars: Progress
) -> tuple[ByCarrier, list[set[int]]]:
    """Produce the flights to a group of two, and consume until all have come.

    Returns the sums, and the partitions of each member.
    """
    async with Admin(address) as admin:
        await admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS)])
    async with (
        asyncio.timeout(CONSUMED_WITHIN_S),
        member_of_group(address) as first,
        member_of_group(address) as second,
    ):
        # The first member has all partitions until it hears of the second one.
        while not (first.assignment() and second.assignment()):
            await asyncio.gather(first.getmany(timeout_ms=50), second.getmany(timeout_ms=50))
        await produce(address, records, bars)
        sums, shares = await consume([first, second], bars)
    if shares[0] & shares[1] or len(shares[0] | shares[1]) != PARTITIONS or not all(shares):
        raise DemoFailed(f"the two consumers had the partitions {shares[0]} and {shares[1]} of {PARTITIONS}")
    return sums, shares


async def produce(address: str, records: list[tuple[bytes, bytes]], bars: Progress) -> None:
    task = bars.add_task("produce", total=COUNT)

    def counted() -> Iterator[tuple[bytes, bytes]]:
        for number, each in enumerate(records):
            if not number % 5000:
                bars.update(task, completed=number)
            yield each

    async with Producer(address) as producer:
        await producer.send_many(TOPIC, counted())
    bars.update(task, completed=COUNT)


async def consume(members: list[Consumer], bars: Progress) -> tuple[ByCarrier, list[set[int]]]:
    """Read with each member until all flights have come."""
    task = bars.add_task("consume", total=COUNT)
    sums = ByCarrier()

    async def read(member: Consumer) -> set[int]:
        partitions = set[int]()
        while sums.flights_added < COUNT:
            for where, records in (await member.getmany(timeout_ms=200, max_records=5000)).items():
                partitions.add(where.partition)
                for each in records:
                    assert each.value is not None
                    sums.add(json.loads(each.value))
                bars.update(task, completed=sums.flights_added)
        return partitions | {each.partition for each in member.assignment()}

    shares = await asyncio.gather(*map(read, members))
    return sums, shares


# -- Spark


def read_by_spark(spark: SparkSession, address: str) -> ByCarrier:
    """Read the topic as a DataFrame, and return the sums by carrier that Spark computes."""
    from odradek.pipelines import carriers

    topic = spark.read.format("odradek").options(**carriers.options(address, TOPIC)).load()
    return sums_of(carriers.by_carrier(topic).collect())


def worst_weeks(spark: SparkSession, address: str, folder: Path) -> list[Any]:
    """Run the pipeline of pipelines/delays.py over what is there, and return its rows, the latest flights first."""
    from odradek.pipelines.delays import delays as delays_by_carrier
    from odradek.pipelines.delays import flights as flights_of

    found: list[Any] = []

    def take(batch: Any, _: int) -> None:
        found.extend(batch.collect())

    frame = delays_by_carrier(flights_of(spark, address, TOPIC), WINDOW, LATE)
    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    if not found:
        raise DemoFailed("the stream closed no window")
    return sorted((row for row in found if row.mean_delay is not None), key=lambda row: -row.mean_delay)


def weeks_table(weeks: list[Any]) -> Table:
    table = Table(title="The worst weeks of carriers with 500 flights or more, by a stream with a watermark")
    for title in ("week of", "carrier"):
        table.add_column(title)
    for title in ("flights", "mean delay (min)"):
        table.add_column(title, justify="right")
    for row in [row for row in weeks if row.flights >= 500][:5]:
        table.add_row(f"{row.start:%Y-%m-%d}", row.carrier, f"{row.flights:,}", f"{row.mean_delay:.1f}")
    return table


if __name__ == "__main__":
    sys.exit(main())
