"""Chaos in a group: stops, wakes, kills and starts processes of members, of several clients, at random.

`run(folder, seed, plan)` raises AssertionError unless every record was processed at least once, no partition had two
members in one generation, all members left in order, and the committed offsets are the ends of the partitions. With an
odd seed, the broker is killed too, in the middle. The seed fixes each disturbance, its time and its process. The
result still differs from run to run.
"""

from __future__ import annotations

import heapq
import itertools
import json
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient
from odradek.tests.support.brokers.process import BrokerProcess, broker_process, java, javac
from odradek.tests.support.clients import crowd
from odradek.tests.support.clients.others import create_topic

GROUP, TOPIC = "crowd", "chaos"
RECORDS_A_TICK, TICK_S = 20, 0.1
LOOK_AGAIN_S = 0.2
SETTLED_WITHIN_S = 120.0
LEFT_WITHIN_S = 60.0

Place = tuple[int, int]


class Plan(NamedTuple):
    """The amount of chaos, and the number of members in each process.

    Small processes can die often, large ones take many members with them. Some pauses are shorter than a session, some
    longer. The session timeout is also the rebalance timeout.
    """

    crowds: tuple[tuple[str, int], ...]
    partitions: int
    lasts_s: float
    session_timeout_ms: int
    pauses_s: tuple[float, float]
    between_s: tuple[float, float]


def run(folder: Path, seed: int, plan: Plan) -> None:
    for name in ("broker", "said"):
        (folder / name).mkdir()
    # The shortest session that a plan may use.
    settings = {"group_initial_rebalance_delay_ms": 0, "group_min_session_timeout_ms": 1_000}
    broker = broker_process(folder / "broker", **settings).start()
    if "java" in dict(plan.crowds):
        javac("GroupMember", folder / "said")
    crowds = [
        Crowd(client, count, broker.address, folder / "said", plan.session_timeout_ms) for client, count in plan.crowds
    ]
    try:
        create_topic(broker.address, TOPIC, plan.partitions)
        feed = Feed(broker.address, plan.partitions)
        for each in crowds:
            each.start()
        Chaos(seed, plan, crowds, broker).run(feed.feed)
        wait_until_processed(crowds, feed.finish())
        for each in crowds:
            each.ask_to_leave()
        for each in crowds:
            each.wait_until_left()
        failed = [f"{each.client}: {line['failed']}" for each in crowds for line in each.heard() if "failed" in line]
        assert not failed, "\n".join(failed)
        assert not (twice := shared(crowds)), twice
        ends = committed(broker.address, plan.partitions)
        assert ends == feed.ends, f"committed: {ends}, ends: {feed.ends}"
        assert (found := state(broker.address)) is ConsumerGroupState.EMPTY, found
    finally:
        for each in crowds:
            each.kill()
        broker.close()


class Crowd:
    """A process of members that may be killed and restarted, and everything that it printed."""

    def __init__(self, client: str, count: int, address: str, folder: Path, session_timeout_ms: int) -> None:
        self.client = client
        self._said = folder / f"{client}-{count}-{len(list(folder.iterdir()))}.jsonl"
        self._said.touch()
        where = [str(count), address, GROUP, TOPIC, str(session_timeout_ms)]
        if client == "java":
            self._command = [*java(folder), "GroupMember", *where]
        else:
            self._command = [sys.executable, crowd.__file__, client, *where]
        self.process: subprocess.Popen[bytes] | None = None
        self.is_paused = False

    def start(self) -> None:
        if self.process is None:
            with self._said.open("ab") as said, self._said.with_suffix(".log").open("ab") as errors:
                self.process = subprocess.Popen(self._command, stdout=said, stderr=errors)

    def pause(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGSTOP)
            self.is_paused = True

    def wake(self) -> None:
        if self.process is not None and self.is_paused:
            self.process.send_signal(signal.SIGCONT)
        self.is_paused = False

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process, self.is_paused = None, False

    def ask_to_leave(self) -> None:
        if self.process is not None:
            self.process.terminate()

    def wait_until_left(self) -> None:
        if self.process is not None:
            status = self.process.wait(LEFT_WITHIN_S)
            # A JVM that a signal ends has a status of its own.
            assert status == 0 or (self.client == "java" and status == 143), f"{self._said.name} ended with {status}"
        self.process = None

    def heard(self) -> Iterator[dict[str, object]]:
        """Return its lines so far. The last one may be incomplete; Java's log is among them."""
        for line in self._said.read_bytes().split(b"\n")[:-1]:
            if line.startswith(b"{"):
                yield json.loads(line)


class Feed:
    """Produces records to all partitions, and knows where each partition ends."""

    def __init__(self, address: str, partitions: int) -> None:
        self._partitions = partitions
        self.ends: dict[int, int] = defaultdict(int)
        self._numbers = itertools.count()
        settings = {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        self._producer = confluent_kafka.Producer(settings)

    def feed(self) -> None:
        for number in itertools.islice(self._numbers, RECORDS_A_TICK):
            self._producer.produce(
                TOPIC, b"%d" % number, partition=number % self._partitions, on_delivery=self._delivered
            )
        self._producer.poll(0)

    def finish(self) -> set[Place]:
        """Return every (partition, offset) that has a record."""
        assert self._producer.flush(SETTLED_WITHIN_S) == 0
        return {(partition, offset) for partition, end in self.ends.items() for offset in range(end)}

    def _delivered(self, error: object, message: confluent_kafka.Message) -> None:
        assert error is None, error
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None
        self.ends[partition] = max(self.ends[partition], offset + 1)


class Chaos:
    """Decides by a seed which process is disturbed, how and when."""

    def __init__(self, seed: int, plan: Plan, crowds: list[Crowd], broker: BrokerProcess) -> None:
        self._plan = plan
        self._chance = random.Random(seed)
        self._crowds = crowds
        self._order = itertools.count()
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        at_s = 0.0
        while (at_s := at_s + self._chance.uniform(*plan.between_s)) < plan.lasts_s:
            self._at(at_s, self._something(at_s))
        if seed % 2:
            self._at(plan.lasts_s / 2, lambda: (broker.kill(), broker.start()))

    def run(self, meanwhile: Callable[[], None]) -> None:
        began = time.monotonic()
        while (now_s := time.monotonic() - began) < self._plan.lasts_s:
            while self._due and self._due[0][0] <= now_s:
                heapq.heappop(self._due)[2]()
            meanwhile()
            time.sleep(TICK_S)
        for each in self._crowds:
            each.wake()
            each.start()

    def _at(self, at_s: float, action: Callable[[], object]) -> None:
        heapq.heappush(self._due, (at_s, next(self._order), action))

    def _something(self, at_s: float) -> Callable[[], object]:
        one = self._chance.choice(self._crowds)
        until_s = at_s + self._chance.uniform(*self._plan.pauses_s)
        if self._chance.random() < 0.5:
            self._at(until_s, one.wake)
            return one.pause
        self._at(until_s, one.start)
        return one.kill


def wait_until_processed(crowds: list[Crowd], wanted: set[Place]) -> None:
    deadline = time.monotonic() + SETTLED_WITHIN_S
    while missing := wanted - consumed(crowds):
        text = f"{len(missing)} of {len(wanted)} records were not processed, of them {sorted(missing)[:5]}"
        assert time.monotonic() < deadline, text
        time.sleep(LOOK_AGAIN_S)


def consumed(crowds: list[Crowd]) -> set[Place]:
    lines = (line["consumed"] for each in crowds for line in each.heard() if "consumed" in line)
    return {(partition, offset) for places in lines for partition, offset in places}  # type: ignore[attr-defined]


def shared(crowds: list[Crowd]) -> list[str]:
    """Return partitions that two members had in one generation. There must have been generations."""
    owners: dict[tuple[int, int], set[str]] = defaultdict(set)
    for each in crowds:
        for line in each.heard():
            # A member that lost its place before it could print its assignment has no generation.
            if "assigned" in line and line["member"] and line["generation"] > 0:  # type: ignore[operator]
                for partition in line["assigned"]:  # type: ignore[attr-defined]
                    owners[line["generation"], partition].add(line["member"])  # type: ignore[index, arg-type]
    generations = {generation for generation, _ in owners}
    print(f"{len(generations)} generations, up to {max(generations)}")
    assert len(generations) > 1
    return [f"generation {g}, partition {p}: {who}" for (g, p), who in sorted(owners.items()) if len(who) > 1]


def committed(address: str, partitions: int) -> dict[int, int]:
    settings = {"bootstrap.servers": address, "group.id": GROUP, "log_level": 0}
    consumer = confluent_kafka.Consumer(settings)
    asked = [confluent_kafka.TopicPartition(TOPIC, partition) for partition in range(partitions)]
    found = {each.partition: each.offset for each in consumer.committed(asked, 20)}
    consumer.close()
    return found


def state(address: str) -> ConsumerGroupState:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    return admin.describe_consumer_groups([GROUP])[GROUP].result(20).state
