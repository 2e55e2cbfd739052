"""A cluster of processes under load that fail by seed, and checkers of what is left.

An idempotent producer writes with acks=all: every acknowledged record is in its partition once, in the order in which
it was sent, and at the end the logs of all replicas are equal byte by byte. Transactions are whole, and a stable group
keeps its partitions and its offsets (cluster_loads.py).
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.clusters.cluster import ClusterProcesses
from odradek.tests.support.clusters.cluster_loads import (
    WHOLE,
    Transactions,
    Watcher,
    check_transactions,
    committed_offsets,
)

TOPIC = "chaos"
PARTITIONS = 3
# A paused process comes back after its session has expired.
PAUSE_S = 3.0
WAIT_S = 60.0


@dataclass
class History:
    """What the producer sent to each partition and what was acknowledged, by number."""

    sent: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    acknowledged: list[dict[int, int]] = field(default_factory=lambda: [{} for _ in range(PARTITIONS)])
    errors: list[str] = field(default_factory=list)


class Load(threading.Thread):
    """Sends numbers to every partition until `finish`.

    Each partition has a producer of its own. librdkafka renumbers all batches of a producer where one comes out of
    order in one partition, those too that are written in another and whose answer was lost: they would be there twice
    (its issue 4953).
    """

    def __init__(
        self, addresses: str, security: Mapping[str, Any] | None = None, history: History | None = None
    ) -> None:
        """`security` are settings of the producers. They go on after the last number of a `history`."""
        super().__init__(daemon=True)
        self.history = history or History()
        self._over = threading.Event()
        settings: dict[str, Any] = {
            "bootstrap.servers": addresses,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "message.timeout.ms": int(WAIT_S * 1000),
            "retry.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
            **(security or {}),
        }
        self._producers = [Producer(settings) for _ in range(PARTITIONS)]

    def run(self) -> None:
        try:
            self._send()
        except KafkaException as error:
            self.history.errors.append(str(error))

    def _send(self) -> None:
        while not self._over.is_set():
            for partition, producer in enumerate(self._producers):
                number = self.history.sent[partition]
                with suppress(BufferError):
                    producer.produce(TOPIC, str(number), partition=partition, on_delivery=self._note)
                    self.history.sent[partition] += 1
                producer.poll(0.005 / PARTITIONS)

    def _note(self, error: object, message: Message) -> None:
        if error is not None:
            self.history.errors.append(str(error))
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None
        self.history.acknowledged[partition][int(message.value() or b"")] = offset

    def finish(self) -> History:
        """Send no more, and wait for the last response."""
        self._over.set()
        self.join()
        for each in self._producers:
            each.flush(WAIT_S)
        return self.history


class Chaos:
    """One run. `faults` says what was done, for a message that can be read."""

    def __init__(self, cluster: ClusterProcesses, seed: int = 0) -> None:
        self.cluster = cluster
        self.random = random.Random(seed)
        self.admin = AdminClient({"bootstrap.servers": cluster.addresses, "log_level": 0})
        self.faults: list[str] = []

    def run(self, faults: Iterable[tuple[str, str]]) -> None:
        """Do faults, (how, of which kind), under load, and check what is left. Raises AssertionError."""
        for topic in (TOPIC, WHOLE):
            self._wait(f"{topic} cannot be created", lambda topic=topic: self._has_created(topic))
        addresses = self.cluster.addresses
        load, transactions = Load(addresses), Transactions(addresses, PARTITIONS)
        watchers = [Watcher(addresses, TOPIC) for _ in range(2)]
        for each in (load, transactions, *watchers):
            each.start()
        self._wait_until_shared(watchers)
        for how, kind in faults:
            self._wait_until_acknowledged(load.history, transactions, watchers)
            self._do_fault(how, kind)
            self._wait_until_whole()
        self._wait_until_acknowledged(load.history, transactions, watchers)
        history, outcomes = load.finish(), transactions.finish()
        self._wait_until_whole()
        check_watchers(watchers, lambda: committed_offsets(addresses, TOPIC, PARTITIONS))
        for each in watchers:
            each.finish()
        check(history, read_all(addresses))
        check_transactions(outcomes, [[number for _, number in each] for each in read_all(addresses, WHOLE)])
        for topic in (TOPIC, WHOLE):
            check_replicas([each.data_dir for each in self.cluster.brokers.values()], topic)

    def _has_created(self, topic: str) -> bool:
        """Ask for a topic. False where the controller has changed since librdkafka looked for it."""
        try:
            self.admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(WAIT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_CONTROLLER:
                raise
            return False
        return True

    # -- Faults

    def _do_fault(self, how: str, kind: str) -> None:
        self.faults.append(f"{how} {kind}")
        victim: Any = self.cluster.ensemble if kind == "zookeeper" else self._broker(kind)
        if how != "pause":
            # A coordinator that is stopped has given its partitions away before.
            victim.kill() if how == "kill" or kind == "zookeeper" else victim.stop()
            time.sleep(self.random.random())
            victim.start()
        else:
            victim.pause()
            time.sleep(self.random.choice((0.5, PAUSE_S)))
            victim.go_on()

    def _broker(self, kind: str) -> BrokerProcess:
        metadata = self.admin.list_topics(timeout=WAIT_S)
        partition = metadata.topics[TOPIC].partitions[0]
        if kind == "coordinator":
            topic = self.random.choice(("__consumer_offsets", "__transaction_state"))
            leaders = [each.leader for each in metadata.topics[topic].partitions.values()]
            return self.cluster.brokers[self.random.choice([each for each in leaders if each in self.cluster.brokers])]
        if kind == "controller" and metadata.controller_id in self.cluster.brokers:
            return self.cluster.brokers[metadata.controller_id]
        followers = [each for each in partition.replicas if each != partition.leader]
        return self.cluster.brokers[self.random.choice(followers) if kind == "follower" else partition.leader]

    # -- Waiting

    def _wait_until_whole(self) -> None:
        """Wait until every partition has a leader and three replicas in sync."""
        self._wait("the partitions are not whole again", lambda: is_whole(self.admin))

    def _wait_until_shared(self, watchers: list[Watcher]) -> None:
        """Wait until the members of the group have all partitions between them."""

        def given() -> list[int]:
            return sorted(number for each in watchers for number in (each.assignments or [[]])[-1])

        everything = list(range(PARTITIONS))
        # Each has some: the first member had all of them for a moment.
        self._wait("the group has not settled", lambda: given() == everything and all(w.assignments for w in watchers))
        for each in watchers:
            del each.assignments[:-1]
            each.failures.clear()

    def _wait_until_acknowledged(self, history: History, transactions: Transactions, watchers: list[Watcher]) -> None:
        """Wait until more records of every partition, transactions and offsets are acknowledged than now."""

        def counts() -> list[int]:
            offsets = sum(sum(each.committed.values()) for each in watchers)
            return [*map(len, history.acknowledged), transactions.committed, offsets]

        before = counts()
        self._wait(
            lambda: (
                f"some of partitions, transactions and offsets stand still: {before} and {counts()} acknowledged, "
                f"{history.errors[:3]}, {transactions.failure}"
            ),
            lambda: all(now > then for now, then in zip(counts(), before, strict=True)),
        )

    def _wait(self, what: str | Callable[[], str], is_true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not is_true():
            late = time.monotonic() >= deadline
            assert not late, f"{what if isinstance(what, str) else what()} after {self.faults}. {self._state()}"
            time.sleep(0.1)

    def _state(self) -> str:
        """Return what each broker says of the cluster: the controller, and each partition's leader and ISR."""
        lines: list[str] = []
        for number, broker in self.cluster.brokers.items():
            try:
                # A client of its own: the old one may be what is at fault.
                found = AdminClient({"bootstrap.servers": broker.address, "log_level": 0}).list_topics(timeout=5)
            except KafkaException as error:
                lines.append(f"broker {number}: {error}")
                continue
            places = [
                f"{name}-{each.id} {each.leader} {each.isrs}"
                for name, topic in sorted(found.topics.items())
                for each in topic.partitions.values()
            ]
            lines.append(f"broker {number}: controller {found.controller_id}, leaders and ISRs {', '.join(places)}")
        return "; ".join(lines)


def is_whole(admin: AdminClient) -> bool:
    """Tell whether every partition has a leader and three replicas in sync."""
    try:
        topics = admin.list_topics(timeout=5).topics
    except KafkaException:
        return False
    found = [each for topic in topics.values() for each in topic.partitions.values()]
    return all(each.leader > 0 and len(each.isrs) == 3 for each in found)


def read_all(
    addresses: str, topic: str = TOPIC, security: Mapping[str, Any] | None = None
) -> list[list[tuple[int, int]]]:
    """Return (offset, number) of every committed record of every partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": addresses,
            "group.id": "checker",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
            **(security or {}),
        }
    )
    found: list[list[tuple[int, int]]] = [[] for _ in range(PARTITIONS)]
    places = [TopicPartition(topic, each, 0) for each in range(PARTITIONS)]
    consumer.assign(places)
    at_end: set[int] = set()
    deadline = time.monotonic() + WAIT_S
    while len(at_end) < PARTITIONS:
        assert time.monotonic() < deadline, "not all records can be read"
        message = consumer.poll(1)
        if message is None:
            continue
        partition, error = message.partition() or 0, message.error()
        if error is None:
            found[partition].append((message.offset() or 0, int(message.value() or b"")))
        elif error.code() == KafkaError._PARTITION_EOF:
            at_end.add(partition)
    consumer.close()
    return found


def check_watchers(watchers: list[Watcher], fetch_committed: Callable[[], dict[int, int]]) -> None:
    """Raise AssertionError unless the members have kept their partitions, and the group what they have committed."""
    # Before the offsets are fetched: the members go on, and commit more meanwhile.
    commits = [dict(each.committed) for each in watchers]
    committed = fetch_committed()
    for each, told_of in zip(watchers, commits, strict=True):
        changes = each.assignments[1:]
        assert not (each.failures or changes), f"a stable member has lost partitions: {each.failures} {changes}"
        behind = {at: (told, committed.get(at)) for at, told in told_of.items() if committed.get(at, -1) < told}
        assert not behind, f"committed offsets went back (partition: told, found): {behind}"


def check(history: History, found: list[list[tuple[int, int]]]) -> None:
    """Raise AssertionError unless every acknowledged record is there, once, in order, at its offset."""
    assert not history.errors, f"records were given up: {history.errors[:3]}"
    for partition, records in enumerate(found):
        numbers = [number for _, number in records]
        times = Counter(numbers)
        told = history.acknowledged[partition]
        twice = [(number, at, told.get(number)) for at, number in records if times[number] > 1]
        assert not twice, f"partition {partition} has records twice (number, offset, acknowledged offset): {twice[:20]}"
        assert numbers == sorted(numbers), f"partition {partition} is out of order"
        at = {number: offset for offset, number in records}
        lost = [number for number in history.acknowledged[partition] if number not in at]
        assert not lost, f"partition {partition} has lost the acknowledged records {lost[:5]}"
        moved = [number for number, offset in history.acknowledged[partition].items() if at[number] != offset]
        assert not moved, f"partition {partition} has the records {moved[:5]} at other offsets"


def check_replicas(directories: list[Path], topic: str = TOPIC) -> None:
    """Raise AssertionError unless the logs of all replicas are equal byte by byte."""
    for partition in range(PARTITIONS):
        deadline = time.monotonic() + WAIT_S
        while True:
            logs = [b"".join(each.read_bytes() for each in sorted(path.glob(f"{topic}-{partition}/*.log")))
                    for path in directories]  # fmt: skip
            if len(set(logs)) == 1:
                break
            # A follower in sync may still have the last batch on its way.
            sizes = [len(each) for each in logs]
            assert time.monotonic() < deadline, f"the replicas of partition {partition} differ: {sizes} bytes"
            time.sleep(0.1)
