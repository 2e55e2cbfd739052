"""`make demo ARGS=--cluster`: a year of flights through three brokers, of which one is killed, every count checked.

`odradek cluster start` runs three brokers and a ZooKeeper as processes. 336,776 flights are produced to a topic with
three replicas, while a group of two and a streaming query of Spark read them. After a third of them the leader of
partition 0 is killed (SIGKILL). All that follows must end by itself: the rest is produced and read, all sums agree with
the data, the broker is started again, and every replica is in sync.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo_parts import (
    PARTITIONS,
    TOPIC,
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
    stop,
    sums_of,
)
from flights import COUNT, ByCarrier
from odradek.client import LATEST, Admin, Consumer, NewTopic, Producer, TopicPartition
from rich.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

NODES = 3
READY_WITHIN_S = 120
STOPS_WITHIN_S = 60
# The leader dies, its session runs out, another one is elected, and all is read: longer is a fault worth a message.
READ_WITHIN_S = 300
# A dead broker is noticed after this. It is the least that ZooKeeper allows with its own defaults.
SESSION_MS = 4000
RECORDS_A_CALL = 5000


@dataclass
class Cluster:
    """The brokers that `odradek cluster start` runs."""

    addresses: str
    log: Path
    # A broker that was killed, and is started again.
    restarted: list[subprocess.Popen[str]] = field(default_factory=list[subprocess.Popen[str]])

    def process_of(self, broker: int) -> int:
        """Return the process of a broker."""
        found = re.search(rf"^broker {broker} is process (\d+) ", self.log.read_text(), re.MULTILINE)
        assert found is not None
        return int(found[1])

    def start_again(self, folder: Path) -> None:
        """Start the killed broker with the command that was printed."""
        found = re.search(r"start it again with: (.*)$", self.log.read_text(), re.MULTILINE)
        assert found is not None
        with (folder / "restarted.log").open("w") as log:
            command = shlex.split(found[1])
            self.restarted.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True))


def run(folder: Path, zookeeper: str | None, zookeeper_jars: str | None) -> None:
    """Run the demo. Raises DemoFailed."""
    began = time.monotonic()
    with quiet_jvm(folder / "spark.log"), ThreadPoolExecutor(1) as beside:
        spark = beside.submit(start_spark, folder) if java_is_there() else None
        try:
            with cluster_of(folder, zookeeper, zookeeper_jars) as cluster, progress() as bars:
                truth, records = read_flights(bars)
                sums = asyncio.run(Demo(cluster, records, spark, folder, bars).show(truth))
        finally:
            if spark is not None:
                spark.result().stop()
    console.print(delays(sums))
    console.print(f"{COUNT:,} flights went through {NODES} brokers in {time.monotonic() - began:.0f} s")


@contextmanager
def cluster_of(folder: Path, zookeeper: str | None, zookeeper_jars: str | None) -> Iterator[Cluster]:
    """Run the brokers, and check at the end that all of them stop with status 0."""
    began = time.monotonic()
    command = [sys.executable, "-m", "odradek", "cluster", "start", "--nodes", str(NODES), "--port", str(_free_port())]
    command += ["--data-dir", str(folder / "cluster"), "--set", f"zookeeper.session.timeout.ms={SESSION_MS}"]
    for name, value in (("--zookeeper", zookeeper), ("--zookeeper-jars", zookeeper_jars)):
        command += [name, value] if value else []
    path = folder / "cluster.log"
    with path.open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    with process.stdout:
        word, _, addresses = process.stdout.readline().strip().partition(" ")
        if word != "ready":
            process.wait()
            raise DemoFailed(f"the cluster did not start: {path.read_text()[-1000:].strip()}")
        console.print(f"{NODES} brokers ready on {addresses} after {time.monotonic() - began:.1f} s")
        cluster = Cluster(addresses, path)
        try:
            yield cluster
        finally:
            statuses = [stop(each, STOPS_WITHIN_S) for each in (*cluster.restarted, process)]
    if any(statuses):
        raise DemoFailed(f"the brokers ended with status {statuses}: {path.read_text()[-1000:]}")


def _free_port() -> int:
    """Return a port with free ones around it: ZooKeeper takes the one below, the brokers those from it on."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if all(_is_free(each) for each in range(port - 1, port + NODES)):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Group:
    """Two members that read until all flights have come. A flight that is read again after a rebalance counts once."""

    def __init__(self, bars: Progress) -> None:
        self.sums = ByCarrier()
        self.read_again = 0
        self._bars = bars
        self._task = bars.add_task("consume", total=COUNT)
        self._next = dict.fromkeys(range(PARTITIONS), 0)

    async def read(self, address: str) -> None:
        """Be both members."""
        async with member_of_group(address) as first, member_of_group(address) as second:
            await asyncio.gather(self._read(first), self._read(second))

    async def _read(self, member: Consumer) -> None:
        while self.sums.flights_added < COUNT:
            for where, records in (await member.getmany(timeout_ms=200, max_records=5000)).items():
                for each in records:
                    if each.offset < self._next[where.partition]:
                        self.read_again += 1
                        continue
                    self._next[where.partition] = each.offset + 1
                    assert each.value is not None
                    self.sums.add(json.loads(each.value))
                self._bars.update(self._task, completed=self.sums.flights_added)


class Stream:
    """A streaming query that adds up the flights of each batch."""

    def __init__(self, spark: SparkSession, address: str, folder: Path) -> None:
        # By batch, so that a batch that runs again counts once.
        self._batches: dict[int, list[Any]] = {}
        self._query = self._start(spark, address, folder)

    def _start(self, spark: SparkSession, address: str, folder: Path) -> StreamingQuery:
        from odradek.pipelines import carriers

        topic = spark.readStream.format("odradek").options(**carriers.options(address, TOPIC)).load()

        def add_up(batch: Any, number: int) -> None:
            self._batches[number] = carriers.by_carrier(batch).collect()

        writer = topic.writeStream.foreachBatch(add_up).option("checkpointLocation", str(folder / "checkpoint"))
        return writer.trigger(processingTime="500 milliseconds").start()

    @property
    def flights(self) -> int:
        """How many flights were added up."""
        return sum(row.flights for rows in list(self._batches.values()) for row in rows)

    def finish(self) -> ByCarrier:
        """Read what is there, stop the query, and return the sums. Raises DemoFailed where the query has failed."""
        try:
            self._query.processAllAvailable()
            self._query.stop()
        except Exception as error:
            raise DemoFailed(f"the streaming query has failed: {error}") from error
        return sums_of(row for rows in self._batches.values() for row in rows)


class Demo:
    """What happens to the cluster."""

    def __init__(
        self,
        cluster: Cluster,
        records: list[tuple[bytes, bytes]],
        spark: Future[SparkSession] | None,
        folder: Path,
        bars: Progress,
    ) -> None:
        self._cluster = cluster
        self._records = records
        self._spark = spark
        self._folder = folder
        self._bars = bars
        self._group = Group(bars)
        self._stream: Stream | None = None

    async def show(self, truth: ByCarrier) -> ByCarrier:
        """Produce and read all flights while the leader is killed. Returns the sums of the group."""
        async with Admin(self._cluster.addresses) as admin:
            await admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=NODES)])
            if self._spark is not None:
                spark = await asyncio.wrap_future(self._spark)
                self._stream = await asyncio.to_thread(Stream, spark, self._cluster.addresses, self._folder)
            try:
                async with asyncio.timeout(READ_WITHIN_S):
                    await asyncio.gather(self._produce(admin), self._group.read(self._cluster.addresses))
            except TimeoutError:
                raise DemoFailed(f"not all flights were produced and read within {READ_WITHIN_S} s") from None
            await self._check(admin, truth)
            await self._start_again(admin)
        return self._group.sums

    async def _produce(self, admin: Admin) -> None:
        task = self._bars.add_task("produce", total=COUNT)
        began = 0.0
        kill_after = COUNT // 3 // RECORDS_A_CALL * RECORDS_A_CALL
        async with Producer(self._cluster.addresses) as producer:
            for first in range(0, COUNT, RECORDS_A_CALL):
                if first == kill_after:
                    await self._until_read()
                    await self._kill(admin)
                    began = time.monotonic()
                await producer.send_many(TOPIC, self._records[first : first + RECORDS_A_CALL])
                await producer.flush()
                if first == kill_after:
                    console.print(f"all partitions take records again {time.monotonic() - began:.1f} s after the kill")
                self._bars.update(task, completed=min(first + RECORDS_A_CALL, COUNT))

    async def _until_read(self) -> None:
        """Wait until the group and the query are at work, so that the kill meets them there."""
        while True:
            if self._group.sums.flights_added and (self._stream is None or self._stream.flights):
                return
            await asyncio.sleep(0.1)

    async def _kill(self, admin: Admin) -> None:
        partitions = (await admin.describe_topics(TOPIC))[TOPIC].partitions
        leader = next(each.leader for each in partitions if each.partition == 0)
        led = sum(each.leader == leader for each in partitions)
        os.kill(self._cluster.process_of(leader), signal.SIGKILL)
        stream = f", the query {self._stream.flights:,}" if self._stream is not None else ""
        read = f"the group had read {self._group.sums.flights_added:,} flights{stream}"
        console.print(f"[bold]killed broker {leader}[/], which led {led} of {PARTITIONS} partitions; {read}")

    async def _check(self, admin: Admin, truth: ByCarrier) -> None:
        places = [TopicPartition(TOPIC, each) for each in range(PARTITIONS)]
        ends = await admin.list_offsets(dict.fromkeys(places, LATEST))
        count = sum(each.offset for each in ends.values())
        if count != COUNT:
            raise DemoFailed(f"the topic holds {count:,} records instead of {COUNT:,}")
        console.print(f"[green]✓[/] produced: {count:,} records, none lost and none twice")
        check("consumed by the group", self._group.sums, truth)
        if self._group.read_again:
            console.print(f"  {self._group.read_again:,} of them were read again after a rebalance")
        if self._stream is None:
            console.print("[yellow]skipped:[/] Spark, because it needs a Java 17+ runtime and none was found")
        else:
            check("read by the streaming query", await asyncio.to_thread(self._stream.finish), truth)

    async def _start_again(self, admin: Admin) -> None:
        began = time.monotonic()
        self._cluster.start_again(self._folder)
        while True:
            partitions = [each for topic in (await admin.describe_topics()).values() for each in topic.partitions]
            lacking = sum(len(each.isr) < len(each.replicas) for each in partitions)
            if not lacking:
                break
            if time.monotonic() - began > READ_WITHIN_S:
                raise DemoFailed(f"{lacking} partitions lack a replica in sync")
            await asyncio.sleep(0.2)
        console.print(f"[green]✓[/] the broker is back: every replica in sync {time.monotonic() - began:.1f} s later")
