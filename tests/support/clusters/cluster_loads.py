"""What runs on a cluster while it is put through faults: transactions, and a group that reads, with what was promised.

The transactions write one number to every partition of a topic. Each is whole: its number is in all partitions or in
none, as its producer was told. The group's members poll and commit. Once both have their partitions they keep them, and
no committed offset goes back. The clients are librdkafka's.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from itertools import count
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

GROUP = "watchers"
WHOLE = "whole"
# Longer than any fault: a member is lost only by a mistake of a broker.
SESSION_MS = 45_000
QUIET = {"log_level": 0, "reconnect.backoff.max.ms": 500}


class Transactions(threading.Thread):
    """Commits and aborts transactions over every partition of a topic, until `finish`."""

    def __init__(self, addresses: str, partitions: int) -> None:
        super().__init__(daemon=True)
        # Number -> whether the producer was told that it is committed; None where it was told nothing.
        self.outcomes: dict[int, bool | None] = {}
        self.failure: Exception | None = None
        self._settings = {
            "bootstrap.servers": addresses,
            "transactional.id": "writer",
            "transaction.timeout.ms": 60_000,
            "message.timeout.ms": 60_000,
            "linger.ms": 2,
            **QUIET,
        }
        self._partitions = partitions
        self._numbers = count(1)
        self._over = threading.Event()

    @property
    def committed(self) -> int:
        """How many transactions are committed by now."""
        return sum(outcome is True for outcome in list(self.outcomes.values()))

    def run(self) -> None:
        try:
            producer = self._new_producer()
            while not self._over.is_set():
                if not self._try(producer, next(self._numbers)):
                    producer = self._new_producer()
        except (KafkaException, AssertionError) as error:
            self.failure = error

    def _new_producer(self) -> Producer:
        producer = Producer(self._settings)
        while True:
            try:
                producer.init_transactions(60)
                return producer
            except KafkaException as error:
                if self._over.is_set() or not _error(error).retriable():
                    raise

    def _try(self, producer: Producer, number: int) -> bool:
        """Carry a transaction out; False where the producer is of no use any more."""
        commits = bool(number % 7)
        self.outcomes[number] = None
        try:
            producer.begin_transaction()
            for partition in range(self._partitions):
                producer.produce(WHOLE, str(number), partition=partition)
            if commits:
                self._until_done(producer.commit_transaction)
            else:
                self._until_done(producer.abort_transaction)
            self.outcomes[number] = commits
        except KafkaException as error:
            if not _error(error).txn_requires_abort():
                return False
            try:
                self._until_done(producer.abort_transaction)
            except KafkaException:
                return False
            self.outcomes[number] = False
        return True

    def _until_done(self, work: Any) -> None:
        while True:
            try:
                return work(60)
            except KafkaException as error:
                if not _error(error).retriable():
                    raise

    def finish(self) -> dict[int, bool | None]:
        """Begin no more transactions, and return what became of each."""
        self._over.set()
        self.join(120)
        assert not self.is_alive(), "a transaction does not end"
        if self.failure is not None:
            raise self.failure
        return self.outcomes


class Watcher(threading.Thread):
    """A member of a group that reads committed records and commits what it has read."""

    def __init__(self, addresses: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.assignments: list[list[int]] = []
        # Partition -> the offset that was committed last, as the member was told.
        self.committed: dict[int, int] = {}
        self.failures: list[str] = []
        self._over = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": addresses,
                "group.id": GROUP,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 500,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "partition.assignment.strategy": "range",
                **QUIET,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._assigned, on_lost=self._lost)

    def _assigned(self, _: object, given: list[TopicPartition]) -> None:
        self.assignments.append(sorted(each.partition for each in given))

    def _lost(self, _: object, lost: list[TopicPartition]) -> None:
        self.failures.append(f"lost {sorted(each.partition for each in lost)}")

    def run(self) -> None:
        while not self._over.is_set():
            read = [each for each in self._consumer.consume(200, 0.1) if not each.error()]
            if read:
                with suppress(KafkaException):
                    self._commit(read)
        self._consumer.close()

    def _commit(self, read: list[Message]) -> None:
        done = self._consumer.commit(asynchronous=False)
        for each in done or ():
            if each.error is None and each.offset >= 0:
                self.committed[each.partition] = each.offset

    def finish(self) -> None:
        """Leave the group."""
        self._over.set()
        self.join(60)
        assert not self.is_alive(), "a member waits for the answer to a commit, or does not leave its group"


def _error(exception: KafkaException) -> KafkaError:
    return exception.args[0]


def check_transactions(outcomes: dict[int, bool | None], found: list[list[int]]) -> None:
    """Raise AssertionError unless each transaction is in all partitions or in none, as its producer was told."""
    sets = [set(numbers) for numbers in found]
    for number, outcome in outcomes.items():
        places = [number in each for each in sets]
        assert len(set(places)) == 1, f"transaction {number} is in some partitions only: {places}"
        assert outcome is None or places[0] == outcome, f"transaction {number} was {outcome} to its producer: {places}"
    for numbers in found:
        assert len(set(numbers)) == len(numbers), "a transaction is there twice"


def committed_offsets(addresses: str, topic: str, partitions: int) -> dict[int, int]:
    """Return the offsets that the group has committed."""
    consumer = Consumer({"bootstrap.servers": addresses, "group.id": GROUP, **QUIET})
    wanted = [TopicPartition(topic, each) for each in range(partitions)]
    found = {each.partition: each.offset for each in consumer.committed(wanted, 60)}
    consumer.close()
    return found
