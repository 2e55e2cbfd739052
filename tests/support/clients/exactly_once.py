"""A disturbed consume-transform-produce loop: kills workers of several clients at random, and the broker three times.

`run(folder, seed)` raises AssertionError unless each record of the input is in the output exactly once, and in order.
"""

from __future__ import annotations

import queue
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import confluent_kafka
from odradek.tests.support.brokers.process import BrokerProcess, broker_process, java, javac
from odradek.tests.support.clients import eos_worker
from odradek.tests.support.clients.others import create_topic, jars, messages

RECORDS = 300
BROKER_KILLS = 3
WORKER_KILLS = 4
WITHIN_S = 60.0
STALLED_S = 3.0
WAIT_FOR_EVER = ("confluent-kafka", "kafka-python")
# A worker may stumble over each kill of the broker and over its own; more often than that something is wrong.
MAX_STARTS = 20


class Worker:
    """A worker's process, restarted until it reaches the end of its partition."""

    def __init__(self, client: str, partition: int, seed: int, said: queue.SimpleQueue[Worker], log: Path) -> None:
        self.client = client
        self.partition = partition
        self.seed = seed
        self.position = 0
        self.starts = 0
        self.is_done = False
        self._said = said
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def start(self, address: str) -> None:
        self.starts += 1
        assert self.starts <= MAX_STARTS, f"{self.client} fails again and again; {self.last_words()}"
        chance = f"{self.seed}-{self.partition}-{self.starts}"
        job = [address, "input", "output", str(self.partition), str(RECORDS), chance]
        if self.client == "java":
            command = [*java(self._log.parent), "EosWorker", *job]
        else:
            command = [sys.executable, eos_worker.__file__, self.client, *job]
        with self._log.open("a") as errors:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        threading.Thread(target=self._follow, args=(self._process,), daemon=True).start()

    def _follow(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout
        with process.stdout as lines:
            for line in lines:
                self.position = int(line.split()[1])
                self._said.put(self)
        self.is_done = process.wait() == 0
        self._process = None
        self._said.put(self)

    def __str__(self) -> str:
        return f"{self.client} at {self.position} in its start {self.starts}{' (done)' if self.is_done else ''}"

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def kill(self) -> None:
        if (process := self._process) is not None:
            process.kill()
            process.wait()

    def last_words(self) -> str:
        return f"its log ends: {self._log.read_text(errors='replace')[-1500:]}"


def run(folder: Path, seed: int, clients: list[str] | None = None) -> dict[str, int]:
    """Run the loop, check the output, and return counts of what happened."""
    chance = random.Random(seed)
    broker = broker_process(folder, transaction_state_log_num_partitions=5, offsets_topic_num_partitions=5).start()
    said: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    names = clients or default_clients()
    workers = [
        Worker(name, index, seed, said, folder / f"worker-{index}-{name}.log") for index, name in enumerate(names)
    ]
    if "java" in names:
        javac("EosWorker", folder)
    try:
        create_topic(broker.address, "input", len(workers))
        create_topic(broker.address, "output", len(workers))
        fill(broker.address, len(workers))
        for worker in workers:
            worker.start(broker.address)
        disturb(broker, workers, said, chance)
        check(broker.address, len(workers))
    finally:
        for worker in workers:
            worker.kill()
        broker.close()
    return {f"{worker.client}-{worker.partition} started": worker.starts for worker in workers}


def default_clients() -> list[str]:
    names = [*eos_worker.CLIENTS]
    return [*names, "java"] if jars() and shutil.which("javac") else names


def fill(address: str, partitions: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": address})
    for number in range(RECORDS):
        for partition in range(partitions):
            producer.produce("input", b"%d" % number, partition=partition)
    assert producer.flush(WITHIN_S) == 0


def disturb(
    broker: BrokerProcess, workers: list[Worker], said: queue.SimpleQueue[Worker], chance: random.Random
) -> None:
    """Kill workers and the broker at points of progress that the seed picks, until every worker is done."""
    total = RECORDS * len(workers)
    kills = [(chance.randrange(total * 9 // 10), "broker") for _ in range(BROKER_KILLS)]
    kills += [(chance.randrange(total * 9 // 10), "worker") for _ in range(WORKER_KILLS)]
    kills.sort()
    while not all(worker.is_done for worker in workers):
        worker = next_word(said, workers)
        while kills and kills[0][0] <= sum(each.position for each in workers):
            if kills.pop(0)[1] == "broker":
                broker.kill()
                broker.start()
            else:
                chance.choice(workers).kill()
        if not worker.is_running and not worker.is_done:
            worker.start(broker.address)
    assert not kills, "it ended before all was done to it"


def next_word(said: queue.SimpleQueue[Worker], workers: list[Worker]) -> Worker:
    """Return the next worker that printed something or ended."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        try:
            return said.get(timeout=STALLED_S)
        except queue.Empty:
            # librdkafka 2.16 and kafka-python 3.0 wait for ever in send_offsets_to_transaction where the coordinator
            # went away meanwhile: they ask nothing more on their new connections, whatever time-out they were given.
            for worker in workers:
                if worker.client in WAIT_FOR_EVER:
                    worker.kill()
    raise AssertionError(f"nothing moves: {', '.join(map(str, workers))}")


def check(address: str, partitions: int) -> None:
    """Check that each record of the input is in the output exactly once, and in order."""
    expected = [eos_worker.transformed(b"%d" % number) for number in range(RECORDS)]
    for partition in range(partitions):
        found = [value for _, value in read_committed(address, "output", partition)]
        twice = [value for value, count in Counter(found).items() if count > 1]
        missing = set(expected) - set(found)
        assert not twice, f"partition {partition}: {len(twice)} come twice, as {twice[0]!r}"
        assert not missing, f"partition {partition}: {len(missing)} are missing, as {min(missing)!r}"
        assert found == expected, f"partition {partition}: out of order"


def read_committed(address: str, topic: str, partition: int) -> list[tuple[int, bytes]]:
    """Return all that a read_committed consumer finds in the partition: (offset, value)."""
    found = messages(address, topic, (partition,), "read_committed", WITHIN_S)
    return [(each.offset(), each.value()) for each in found]
