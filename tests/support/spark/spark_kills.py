"""Queries of Spark whose processes die: a driver's program, and the source that kills it at a step of a batch.

    killed = KilledQueries(address, folder, seed)
    killed.run()        # the driver's program, and once more, because it is killed
    killed.check()      # each query read each record once, in the same batches however often they were played

The program runs three queries until each has read its topic. A step kills once: it leaves a file in FOLDER/kills, so
that the next start of the query goes on. What dies is a Python process (of the driver's planning, or of a task, which
Spark repeats), or the whole driver: Python, JVM and workers.

    latestOffset | partitions | read | took | wrote
    the end of a batch, its ranges, a task's rows, the batch before and after its rows are written

Each batch writes its rows to FOLDER/QUERY/BATCH.json, as a file whole or not at all. A batch that is played again must
have the same rows.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from odradek.client.arrow.brokers import Brokers
from odradek.client.record import LATEST, TopicPartition
from odradek.client.spark.source import BatchReader, OdradekSource, StreamReader
from odradek.client.spark.stream import from_json
from odradek.tests.support.spark.spark_topics import Topics, session
from pyspark.errors import StreamingQueryException

WITHIN_S = 600
# The part of all steps that kills: with 20 seeds each does, often.
KILLS = 0.3
PARTITIONS = 2
# Of each partition.
RECORDS, PER_BATCH = 9, 3
# What Spark says of a Python worker that it waited too short for.
NOT_STARTED = "failed to connect back"
STEPS = ("latestOffset", "partitions", "read", "took", "wrote")
# Query -> the options that say where it begins. The times are those of the first records.
BEGINNINGS = ("earliest", "a time", "latest")


@dataclass(frozen=True)
class Kills:
    """Which steps kill, and what. Made by seed, and passed to the source as an option."""

    folder: str
    query: str
    # The process group of the driver.
    group: int
    # Step and batch -> whether the whole driver dies.
    wanted: Mapping[tuple[str, int], bool]

    @classmethod
    def of(cls, folder: Path, query: str, seed: int) -> Kills:
        """Some steps kill, in the first batch or in a later one. One query kills the driver, too."""
        random = Random(f"{seed} {query}")
        steps = {(step, batch): False for step in STEPS for batch in (0, 2) if random.random() < KILLS}
        if query == "latest":
            # Until its first end is written ahead, this stream has not begun. Its first batch has no rows.
            steps = {("partitions", 0): False, ("wrote", 0): False}
        if BEGINNINGS[seed % len(BEGINNINGS)] == query:
            at = ("partitions", 0) if query == "latest" else (STEPS[seed % len(STEPS)], random.choice((0, 2)))
            steps[at] = True
        return cls(str(folder), query, os.getpgid(0), steps)

    @classmethod
    def from_json(cls, text: str) -> Kills:
        folder, query, group, wanted = json.loads(text)
        return cls(folder, query, group, {(step, batch): whole for step, batch, whole in wanted})

    def to_json(self) -> str:
        wanted = [(step, batch, whole) for (step, batch), whole in self.wanted.items()]
        return json.dumps([self.folder, self.query, self.group, wanted])

    def reach(self, step: str, batch: int) -> None:
        """Die here, if that is wanted and has not been done."""
        if (step, batch) not in self.wanted:
            return
        try:
            Path(self.folder, "kills", f"{self.query}, {step}, {batch}").touch(exist_ok=False)
        except FileExistsError:
            return
        if self.wanted[step, batch]:
            os.killpg(self.group, signal.SIGKILL)
        elif step in ("took", "wrote"):
            raise Killed  # this is the driver's own process
        os.kill(os.getpid(), signal.SIGKILL)


class Killed(Exception):
    """A batch ends here, as if its query had died."""


class KilledSource(OdradekSource):
    """The source, with steps that kill. Options: `kills`, as JSON."""

    @classmethod
    def name(cls) -> str:
        return "killed"

    def streamReader(self, schema: Any) -> KilledReader:
        made = super().streamReader(schema)
        assert isinstance(made, StreamReader)
        return KilledReader(made, Kills.from_json(self.options["kills"]))

    def reader(self, schema: Any) -> BatchReader:
        raise NotImplementedError("streams alone are killed")


class KilledReader(StreamReader):
    """The reader of a stream. Batches are numbered by the offset at which they begin."""

    def __init__(self, made: StreamReader, kills: Kills) -> None:
        super().__init__(made._options, made._columns)
        self._kills = kills

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_kills": self._kills}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        found = super().latestOffset(start, limit)
        if found != start:
            self._kills.reach("latestOffset", batch_at(start))
        return found

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
        self._kills.reach("partitions", batch_at(start))
        return super().partitions(start, end)

    def read(self, partition: Any) -> Iterator[Any]:
        rows = super().read(partition)
        if partition.value is not None:
            yield next(iter(rows))
            self._kills.reach("read", partition.value[0].start // PER_BATCH)
        yield from rows


def batch_at(start: Mapping[str, Mapping[str, int]]) -> int:
    """The number of the batch that begins here. A batch takes as many offsets of each partition."""
    return max((offset for offsets in start.values() for offset in offsets.values()), default=0) // PER_BATCH


class Driver:
    """The driver's program."""

    def __init__(self, address: str, folder: Path, seed: int) -> None:
        self.topics, self.folder, self.seed = Topics(address, int((folder / "first_ms").read_text())), folder, seed
        # A task is tried again, as in a cluster.
        self.spark = session(str(folder / "warehouse"), **{"spark.master": "local[2,4]"})
        self.spark.dataSource.register(KilledSource)

    def run(self) -> None:
        """Run each query to its end, one after the other, whatever kills it."""
        for query in BEGINNINGS:
            # More than there are steps that kill: on a busy machine Spark itself gives up workers that it starts.
            for _ in range(2 * len(STEPS) + 3):
                kills = self._kills()
                try:
                    self._start(query).awaitTermination()
                    break
                except StreamingQueryException as error:
                    print(f"{query}: {error}", flush=True)
                    if self._kills() == kills and NOT_STARTED not in str(error):
                        raise
                if query == "latest":
                    self.topics.write(topic_of(query, self.seed), 0, PER_BATCH)
            else:
                raise AssertionError(f"the query of {query} does not end")

    def _kills(self) -> int:
        return len(list((self.folder / "kills").iterdir()))

    def _start(self, query: str) -> Any:
        beginning = {
            "earliest": {"startingOffsets": "earliest"},
            "a time": {"startingTimestamp": str(self.topics.first_ms)},
            "latest": {"startingOffsets": "latest"},
        }[query]
        kills = Kills.of(self.folder, query, self.seed)
        reader = self.spark.readStream.format("killed").schema("partition int, offset bigint, value binary")
        topic = topic_of(query, self.seed)
        reader = reader.option("kafka.bootstrap.servers", self.topics.address).option("subscribe", topic)
        reader = reader.option("arrowBatchRows", "1").option("maxOffsetsPerTrigger", str(PARTITIONS * PER_BATCH))
        frame = reader.options(kills=kills.to_json(), **beginning).load()

        def take(batch: Any, number: int) -> None:
            rows = sorted([row["partition"], row["offset"], bytes(row["value"]).decode()] for row in batch.collect())
            kills.reach("took", number)
            self._write(query, number, rows)
            kills.reach("wrote", number)

        writer = frame.writeStream.foreachBatch(take).trigger(availableNow=True)
        return writer.option("checkpointLocation", str(self.folder / f"{query}-checkpoint")).start()

    def _write(self, query: str, number: int, rows: list[Any]) -> None:
        path = self.folder / query / f"{number}.json"
        if path.exists():
            assert json.loads(path.read_text()) == rows, f"batch {number} has other rows when it is played again"
        part = path.with_suffix(".part")
        part.write_text(json.dumps(rows))
        part.replace(path)


def topic_of(query: str, seed: int) -> str:
    return f"{query.replace(' ', '-')}-{seed}"


def main(arguments: list[str]) -> None:
    address, folder, seed = arguments
    driver = Driver(address, Path(folder), int(seed))
    assert sys.stdin.readline(), "the test has ended"
    driver.run()
    # The test kills the JVM. In an orderly end it would delete folders for seconds.
    os._exit(0)


# -- What the test does


class KilledQueries:
    """The queries of a seed, from outside."""

    def __init__(self, address: str, folder: Path, seed: int) -> None:
        self.topics, self.folder, self.seed = Topics(address, int(time.time()) * 1000), folder, seed
        folder.mkdir()
        (folder / "first_ms").write_text(str(self.topics.first_ms))
        for each in ("path", "kills", *BEGINNINGS):
            (folder / each).mkdir()
        (folder / "path" / "odradek").symlink_to(Path(__file__).parents[3])
        for query in BEGINNINGS:
            topic = topic_of(query, seed)
            self.topics.create(topic, PARTITIONS)
            for partition in range(PARTITIONS if query != "latest" else 0):
                self.topics.write(topic, partition, RECORDS)

    def run(self) -> None:
        """Run the driver's program until it is killed, and again until it ends by itself."""
        # The second one has its session before it is wanted, and waits for a line.
        drivers = [self._spawn(), self._spawn()]
        try:
            assert self._end_of(drivers[0]) == -signal.SIGKILL, "nothing killed the driver"
            self._leave_nothing_of(drivers[0])
            assert self._end_of(drivers[1]) == 0, (self.folder / "errors").read_text()[-5000:]
        finally:
            for each in drivers:
                self._leave_nothing_of(each)

    def _spawn(self) -> subprocess.Popen[bytes]:
        """Start the program, in a process group of its own."""
        command = [sys.executable, "-c", f"from {__name__} import main; import sys; main(sys.argv[1:])"]
        command += [self.topics.address, str(self.folder), str(self.seed)]
        environment = os.environ | {"PYTHONPATH": str(self.folder / "path"), "PYSPARK_PYTHON": sys.executable}
        with (self.folder / "errors").open("a") as errors:
            return subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=errors, stderr=errors,
                start_new_session=True, cwd=self.folder,
            )  # fmt: skip

    def _end_of(self, driver: subprocess.Popen[bytes]) -> int:
        """Let a driver begin, and return its status when it has ended."""
        assert driver.stdin is not None
        driver.stdin.write(b"\n")
        driver.stdin.flush()
        return driver.wait(WITHIN_S)

    def _leave_nothing_of(self, driver: subprocess.Popen[bytes]) -> None:
        """Kill what is left of a driver: its JVM and its workers."""
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        assert driver.stdin is not None
        driver.stdin.close()

    def check(self) -> None:
        """Check that kills happened, and that each query has each record of its topic once."""
        kills = sorted(path.name for path in (self.folder / "kills").iterdir())
        assert kills
        print(f"seed {self.seed}: {kills}")
        client = self.topics.client
        for query in BEGINNINGS:
            partitions = [TopicPartition(topic_of(query, self.seed), number) for number in range(PARTITIONS)]
            ends = Brokers(client).offsets(partitions, LATEST)
            rows = [tuple(row[:2]) for path in (self.folder / query).iterdir() for row in json.loads(path.read_text())]
            assert sorted(rows) == [(each.partition, offset) for each in partitions for offset in range(ends[each])]
            assert self._ends_of_batches(query)[-1] == ends

    def _ends_of_batches(self, query: str) -> list[dict[TopicPartition, int]]:
        """The ends of a query's batches, as its checkpoint has them; checked to be each behind the one before."""
        written = (self.folder / f"{query}-checkpoint" / "offsets").glob("[0-9]*")
        texts = [path.read_text().splitlines()[-1] for path in sorted(written, key=lambda path: int(path.name))]
        found = [from_json(json.loads(text)) for text in texts]
        for before, after in pairwise(found):
            assert all(before[each] <= after[each] for each in before) and before != after, texts
        return found
