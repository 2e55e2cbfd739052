"""Records a history with a real broker: random transactional producers and readers, killed and restarted by a seed.

`record(broker, seed, ...)` returns the events for `history.check`.
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
from pathlib import Path

from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.clients import exactly_once, txn_reader, txn_writer
from odradek.tests.support.clients.others import create_topic
from odradek.tests.support.histories.history import Committing, Ended, Event, Outcome, Read, Stored, Wrote

WRITERS = 3
READERS = 2
# A writer's transactions over all of its lives.
TRANSACTIONS = 40
WITHIN_S = 60.0
MAX_STARTS = 20
ROOT = Path(__file__).parents[3]


class Child:
    """A writer or a reader as a process. The lines that it prints become events."""

    def __init__(self, client: str, name: str, said: queue.SimpleQueue[Child], log: Path) -> None:
        self.client = client
        self.name = name
        self.events: list[Event] = []
        self.lives = 0
        self.following = 0
        self.status: int | None = None
        self._said = said
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None

    def run(self, script: str, *arguments: object) -> None:
        self.lives += 1
        assert self.lives <= MAX_STARTS, f"{self.name} fails again and again; {self.last_words()}"
        self.status = None
        command = [sys.executable, script, *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with self._log.open("a") as errors:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        self._thread = threading.Thread(target=self._follow, args=(self._process,), daemon=True)
        self._thread.start()

    def _follow(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout
        with process.stdout as lines:
            for line in lines:
                if line.endswith("\n"):  # else it was killed within the line
                    self.understand(json.loads(line))
        self.status = process.wait()
        self._said.put(self)

    def understand(self, fields: list[object]) -> None:
        raise NotImplementedError

    def end(self, number: signal.Signals) -> None:
        if self._process and self._thread:
            self._process.send_signal(number)
            self._thread.join(WITHIN_S)

    def last_words(self) -> str:
        return f"its log ends: {self._log.read_text(errors='replace')[-1500:]}"


class Writer(Child):
    transactions = TRANSACTIONS

    def start(self, address: str, seed: int) -> None:
        chance = f"{seed}-{self.name}-{self.lives}"
        left = self.transactions - self.following
        self.run(txn_writer.__file__, self.client, address, self.name, self.following, left, chance)

    def understand(self, fields: list[object]) -> None:
        kind, number, *facts = fields
        transaction = (self.name, int(str(number)))
        self.following = transaction[1] + 1
        match kind:
            case "wrote":
                self.events.append(Wrote(transaction, *facts))  # type: ignore[arg-type]
            case "committing":
                self.events.append(Committing(transaction, *facts))  # type: ignore[arg-type]
            case _:
                self.events.append(Ended(transaction, Outcome(facts[0])))
        self._said.put(self)


class Reader(Child):
    def start(self, address: str) -> None:
        self.run(txn_reader.__file__, self.client, address, self.name)

    def understand(self, fields: list[object]) -> None:
        self.events.append(Read(f"{self.name}-{self.lives}", *fields))  # type: ignore[arg-type]


def record(
    broker: BrokerProcess,
    folder: Path,
    seed: int,
    *,
    broker_kills: int = 2,
    writer_kills: int = 3,
    client: str = "confluent-kafka",
    transactions: int = TRANSACTIONS,
) -> list[Event]:
    """Record a history with a started broker, which is killed and started again `broker_kills` times."""
    chance = random.Random(seed)
    said: queue.SimpleQueue[Child] = queue.SimpleQueue()
    create_topic(broker.address, txn_writer.TOPIC, txn_writer.PARTITIONS)
    writers = [Writer(client, f"w{index}", said, folder / f"writer-{index}.log") for index in range(WRITERS)]
    readers = [Reader(client, f"r{index}", said, folder / f"reader-{index}.log") for index in range(READERS)]
    try:
        for reader in readers:
            reader.start(broker.address)
        for writer in writers:
            writer.transactions = transactions
            writer.start(broker.address, seed)
        _disturb(broker, writers, readers, said, chance, seed, broker_kills, writer_kills)
        end_open_transactions(broker.address, writers)
        stored = scan(broker.address)
    finally:
        for reader in readers:
            reader.end(signal.SIGTERM)
        for writer in writers:
            writer.end(signal.SIGKILL)
    events = [event for child in (*writers, *readers) for event in child.events]
    return [*events, *stored]


def _disturb(
    broker: BrokerProcess,
    writers: list[Writer],
    readers: list[Reader],
    said: queue.SimpleQueue[Child],
    chance: random.Random,
    seed: int,
    broker_kills: int,
    writer_kills: int,
) -> None:
    total = sum(writer.transactions for writer in writers)
    kills = [(chance.randrange(total * 9 // 10), "broker") for _ in range(broker_kills)]
    kills += [(chance.randrange(total * 9 // 10), "child") for _ in range(writer_kills)]
    kills.sort()
    while not all(writer.status == 0 for writer in writers):
        child = said.get(timeout=WITHIN_S)
        while kills and kills[0][0] <= sum(writer.following for writer in writers):
            if kills.pop(0)[1] == "broker":
                broker.kill()
                broker.start()
            else:
                chance.choice([*writers, *readers]).end(signal.SIGKILL)
        if child.status and isinstance(child, Writer):
            child.start(broker.address, seed)
        elif child.status and isinstance(child, Reader):
            child.start(broker.address)
    assert not kills, "it ended before all was done to it"


def end_open_transactions(address: str, writers: list[Writer]) -> None:
    """Take over each transactional id, which ends the transaction that a killed writer may have left open."""
    started = [
        subprocess.Popen(
            [sys.executable, txn_writer.__file__, writer.client, address, writer.name, "0", "0", "0"],
            stderr=subprocess.PIPE,
            text=True,
        )
        for writer in writers
    ]
    try:
        for process in started:
            _, errors = process.communicate(timeout=WITHIN_S)
            assert process.returncode == 0, errors[-500:]
    finally:
        for process in started:
            process.kill()
            process.communicate()


def scan(address: str) -> list[Stored]:
    """Return all records that a read_committed reader sees."""
    return [
        Stored(partition, offset, value.decode())
        for partition in range(txn_writer.PARTITIONS)
        for offset, value in exactly_once.read_committed(address, txn_writer.TOPIC, partition)
    ]
