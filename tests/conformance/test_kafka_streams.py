"""Kafka Streams against a broker that is killed, where Java is installed and KAFKA_LIB has Streams' jars."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest
from odradek.tests.support.brokers.process import BrokerProcess, java, javac
from odradek.tests.support.clients.exactly_once import read_committed
from odradek.tests.support.clients.others import create_topic, jars, require

LINES = 40_000  # So many that the kill comes while they are counted.
WORDS = 7
WITHIN_S = 60.0
A_MOMENT_S = 0.2

Start = Callable[[str], subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start the word count on the broker of an address; the same state folder each time, ended behind the test."""
    require("javac")
    folder = jars()
    if not (folder and any(folder.glob("kafka-streams-*.jar"))):
        pytest.skip("KAFKA_LIB has no jar of Kafka Streams")
    command = [*java(javac("WordCount", tmp_path)), "WordCount"]
    started: list[subprocess.Popen[bytes]] = []

    def run(address: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "streams.log").open("ab") as log:
            arguments = [address, "lines", "counted", str(tmp_path / "state")]
            started.append(subprocess.Popen([*command, *arguments], stdout=log, stderr=log))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()


def produce_lines(address: str) -> None:
    """Produce LINES lines of two words each: `all`, and one of WORDS others in turn."""
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for number in range(LINES):
        producer.produce("lines", f"all w{number % WORDS}")
    assert producer.flush(WITHIN_S) == 0


def counted(address: str) -> dict[str, int]:
    """Return the count of each word by now. A count that does not rise was written twice, or was lost."""
    counts: dict[str, int] = {}
    for _, value in read_committed(address, "counted", 0):
        word, count = value.decode().split()
        before = counts.get(word, 0)
        assert before < int(count), f"{word} went from {before} to {count}"
        counts[word] = int(count)
    return counts


def wait_until_counted(address: str, words: int) -> None:
    """Wait for the sum over all words: each task of Streams counts some of them, and commits when it likes."""
    deadline = time.monotonic() + WITHIN_S
    while (seen := sum(counted(address).values())) < words:
        assert time.monotonic() < deadline, f"{seen} of {words} words were counted within {WITHIN_S} s"
        time.sleep(A_MOMENT_S)


def test_words_are_counted_once_though_streams_and_the_broker_are_killed(broker: BrokerProcess, start: Start) -> None:
    create_topic(broker.address, "lines", 3)
    create_topic(broker.address, "counted")
    produce_lines(broker.address)
    first = start(broker.address)
    wait_until_counted(broker.address, 1)
    first.kill()
    broker.kill()
    broker.start()
    produce_lines(broker.address)
    start(broker.address)
    wait_until_counted(broker.address, 2 * 2 * LINES)
    expected = {f"w{word}": 2 * len(range(word, LINES, WORDS)) for word in range(WORDS)}
    assert counted(broker.address) == {"all": 2 * LINES, **expected}
