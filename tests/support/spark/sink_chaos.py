"""Kills of the driver, of Python workers and of the broker while Spark copies a topic exactly once, by a seed.

A driver (spark_sink_driver.py) is a real one: a process with a JVM and Python workers. It, its tasks and the broker
stop at each step of a batch, and the test decides what is killed there (kill -9) before it goes on. What ends with an
error starts again with the same checkpoint. A rival is a second driver that takes the checkpoint while the first one
waits; the first one goes on when the second has ended.

`Chaos.run` raises AssertionError unless a read_committed reader finds each row of the source once, never a part of a
batch where a driver commits, and the checkpoint and the broker agree on the last batch.
"""

from __future__ import annotations

import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from odradek.client.blocking import Admin
from odradek.tests.support.brokers.pause_points import PLACE, START, PausePoints, Reached
from odradek.tests.support.brokers.paused_broker import PausedBroker
from odradek.tests.support.clients.exactly_once import read_committed
from odradek.tests.support.clients.others import create_topic
from odradek.tests.support.spark.spark_sink_driver import BATCH_ROWS, SOURCE, TARGET
from odradek.tests.support.spark.spark_topics import Topics

PARTITIONS = 2
BATCHES = 5
PER_PARTITION = BATCHES * BATCH_ROWS // PARTITIONS
# A bound that only a hanging test meets: a JVM starts slowly on a machine with much other work.
WITHIN_S = 600.0
MAX_STARTS = 12

OF_TASKS, OF_DRIVERS, OF_BROKERS = ("rows", "written"), ("to commit", "committed"), ("decided", "half ended")


@dataclass(frozen=True)
class Fault:
    """What happens at the first point of this name in this batch or a later one."""

    batch: int
    point: str
    # worker, driver, broker or rival. At points of the driver, the worker is the process that commits.
    victim: str


def faults_of(seed: int) -> list[Fault]:
    """Return three faults in order of their batches: 20 seeds have every point and every victim several times."""
    chance = random.Random(seed)
    points = (*OF_TASKS, *OF_DRIVERS, *OF_BROKERS)
    # Each seed begins with another point, and one of its victims is the driver or a rival.
    chosen = [points[seed % len(points)], *chance.sample(points, 2)]
    victims = [chance.choice(["driver", "driver", "rival"]), *chance.choices(["worker", "broker", "driver"], k=2)]
    chance.shuffle(victims)
    pairs = [
        (point, "broker" if point in OF_BROKERS and victim in ("worker", "rival") else victim)
        for point, victim in zip(chosen, victims, strict=True)
    ]
    batches = sorted(chance.sample(range(BATCHES - 1), 3))
    return [Fault(batch, *pair) for batch, pair in zip(batches, pairs, strict=True)]


@dataclass(eq=False)
class Driver:
    """One start of the driver, with its JVM and workers in a session of their own."""

    number: int
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """Kill the driver and its JVM at once. Its workers notice that the JVM has gone."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass(frozen=True)
class DriverEnded:
    """An event: a driver has ended by itself, or was killed."""

    driver: Driver
    status: int


class Chaos:
    """One copy of a topic with faults."""

    def __init__(self, folder: Path, faults: list[Fault]) -> None:
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        self.faults = list(faults)
        self.points = PausePoints()
        self.drivers: list[Driver] = []
        # Starts so far, and the fewest that the faults need. The next driver begins early, and waits where it is ready.
        self.starts = 0
        self.expected_starts = 1 + sum(each.victim in ("driver", "rival") for each in faults)
        self.standby: Driver | None = None
        self.ready: dict[int, Reached] = {}
        # Drivers that wait until a rival has ended, and what of them has reached a point.
        self.waiting: list[Driver] = []
        self.held: list[Reached] = []
        # The batch that a driver commits, and the last one that the broker has committed.
        self.batch = self.decided = -1

    def run(self) -> None:
        """Copy the topic, and check the copy."""
        with ExitStack() as stack:
            stack.callback(self.points.close)
            self.broker = PausedBroker(self.folder, self.points.place).start()
            stack.callback(self.broker.close)
            stack.callback(self.kill_drivers)
            self.fill()
            self.start_driver()
            while not self.take(self.next_event()):
                pass
            assert not self.faults, f"the copy ended before {self.faults}"
            self.let_go()
            self.check_whole()

    def fill(self) -> None:
        for topic in (SOURCE, TARGET):
            create_topic(self.broker.address, topic, PARTITIONS)
        topics = Topics(self.broker.address, int(time.time()) * 1000)
        for partition in range(PARTITIONS):
            topics.write(SOURCE, partition, PER_PARTITION)

    # -- Drivers

    def start_driver(self) -> None:
        """Have the next driver go on: the one that stands by, where there is one."""
        driver, self.standby = self.standby or self.spawn(), None
        self.drivers.append(driver)
        if driver.number in self.ready:
            self.ready.pop(driver.number).go_on()
        if self.starts < self.expected_starts:
            self.standby = self.spawn()

    def spawn(self) -> Driver:
        """Start the process of a driver."""
        self.starts = number = self.starts + 1
        assert number <= MAX_STARTS, f"the driver fails again and again; {self.last_words()}"
        command = [sys.executable, "-m", "odradek.tests.support.spark.spark_sink_driver"]
        command += [self.broker.address, str(self.folder)]
        own = {PLACE: self.points.place, START: str(number), "PYSPARK_PYTHON": sys.executable}
        with self.log.open("ab") as log:
            process = subprocess.Popen(command, env=os.environ | own, stdout=log, stderr=log, start_new_session=True)
        driver = Driver(number, process)
        threading.Thread(
            target=lambda: self.points.events.put(DriverEnded(driver, process.wait())), daemon=True
        ).start()
        return driver

    @property
    def driver(self) -> Driver:
        """The driver that should have the checkpoint."""
        return self.drivers[-1]

    @property
    def log(self) -> Path:
        return self.folder / "driver.log"

    def kill_drivers(self) -> None:
        for each in filter(None, [*self.drivers, self.standby]):
            each.kill()

    # -- Events

    def next_event(self) -> Reached | DriverEnded:
        try:
            return self.points.events.get(timeout=WITHIN_S)
        except queue.Empty:
            raise AssertionError(f"nothing happens; {self.last_words()}") from None

    def take(self, event: Reached | DriverEnded) -> bool:
        """Return whether the copy has ended."""
        if isinstance(event, DriverEnded):
            assert event.driver is not self.standby, f"the driver that stands by has ended; {self.last_words()}"
            if event.driver is not self.driver:
                return False
            if event.status == 0:
                return True
            self.start_driver()
            return False
        if event.point == "ready" and event.start != self.driver.number:
            self.ready[event.start] = event
            return False
        if event.start in [each.number for each in self.waiting]:
            self.held.append(event)
            return False
        if event.point in OF_DRIVERS:
            self.batch = event.batch
            self.check_batches(event)
        elif event.point == "decided":
            self.decided = max(self.decided, self.batch)
        if self.faults and event.point == self.faults[0].point and event.batch >= self.faults[0].batch:
            self.inflict(self.faults.pop(0), event)
        else:
            event.go_on()
        return False

    def inflict(self, fault: Fault, event: Reached) -> None:
        if fault.victim == "rival":
            self.waiting.append(self.driver)
            self.held.append(event)
            self.start_driver()
            return
        if fault.victim == "worker":
            os.kill(event.pid, signal.SIGKILL)
        elif fault.victim == "driver":
            self.driver.kill()
        else:
            self.broker.kill()
            self.broker.start()
        event.go_on()

    def let_go(self) -> None:
        """Let the drivers go on whose checkpoint a rival has taken, and wait for their end: they must fail."""
        ended: set[Driver] = set()
        for each in self.held:
            each.go_on()
        while ended < {*self.waiting}:
            event = self.next_event()
            if isinstance(event, Reached):
                event.go_on()
            elif event.driver in self.waiting:
                assert event.status != 0, "a driver that lost its checkpoint did not fail"
                ended.add(event.driver)

    # -- Checks

    def ends(self, batch: int) -> dict[int, int]:
        """Return where a batch ends in each partition of the source, as the checkpoint has it."""
        text = (self.checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1]
        return {int(partition): end for partition, end in json.loads(text)[SOURCE].items()}

    def copied(self) -> dict[int, list[int]]:
        """Return the offsets of the source that a read_committed reader finds in the target, by partition, sorted."""
        found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        for partition in range(PARTITIONS):
            for _, value in read_committed(self.broker.address, TARGET, partition):
                source, _, offset = value.decode().partition(":")
                found[int(source)].append(int(offset))
        return {partition: sorted(offsets) for partition, offsets in found.items()}

    def check_batches(self, event: Reached) -> None:
        """Check that readers see all batches that the broker has committed, whole, and nothing else."""
        ends = self.ends(self.decided) if self.decided >= 0 else dict.fromkeys(range(PARTITIONS), 0)
        found, whole = self.copied(), {partition: list(range(end)) for partition, end in ends.items()}
        assert found == whole, f"{event.point} {event.batch}: {found}, where batch {self.decided} ends at {ends}"

    def check_whole(self) -> None:
        """Check contents, checkpoint and broker against each other."""
        complete = max(int(path.name) for path in (self.checkpoint / "commits").iterdir() if path.name.isdigit())
        assert self.ends(complete) == dict.fromkeys(range(PARTITIONS), PER_PARTITION)
        assert self.copied() == {partition: list(range(PER_PARTITION)) for partition in range(PARTITIONS)}
        with Admin(self.broker.address) as admin:
            (query,) = admin.list_queries()
        assert query.committed_batch == complete
        assert query.transactional_ids == ()

    def last_words(self) -> str:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return f"the drivers' log ends: {text[-3000:]}"
