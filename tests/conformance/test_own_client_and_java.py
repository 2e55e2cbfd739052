"""Our client and Java's, with our broker and with a real Kafka.

Each reads what the other writes: key by key on the same partitions, with headers, in every codec. Both share a group,
and each sees the other's transactions.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from odradek.client import (
    Admin,
    Consumer,
    ConsumerRecord,
    CooperativeStickyAssignor,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    RangeAssignor,
    TopicPartition,
)
from odradek.tests.support.brokers.lines import Lines
from odradek.tests.support.brokers.process import BrokerProcess, KafkaProcess, java, javac
from odradek.tests.support.clients.others import CODECS, require

COUNT, PARTITIONS = 60, 7
SOURCES = (b"ours", b"java")
WITHIN_S = 60
JAVA_ASSIGNORS = {
    RangeAssignor: "org.apache.kafka.clients.consumer.RangeAssignor",
    CooperativeStickyAssignor: "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
# (partition, offset, key, value, headers)
Seen = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
Java = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module", params=[BrokerProcess, KafkaProcess], ids=["odradek", "kafka"])
def either(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of our broker, then that of a Kafka."""
    require("javac")
    process = request.param(tmp_path_factory.mktemp("broker"), group_initial_rebalance_delay_ms=0).start()
    yield process.address
    process.close()


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs Interop."""
    require("javac")
    return [*java(javac("Interop", tmp_path_factory.mktemp("classes"))), "Interop"]


@pytest.fixture(scope="module")
def theirs(command: list[str]) -> Java:
    """Run a command of Interop; return the records that it says."""

    def run(*arguments: object) -> list[dict[str, Any]]:
        done = subprocess.run([*command, *map(str, arguments)], check=True, capture_output=True, timeout=2 * WITHIN_S)
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def said(record: dict[str, Any]) -> Seen:
    """A record as Interop says it."""

    def data(text: str | None) -> bytes | None:
        return None if text is None else bytes.fromhex(text)

    headers = [(name, data(value)) for name, value in record["headers"]]
    return record["partition"], record["offset"], data(record["key"]), data(record["value"]), headers


def seen(record: ConsumerRecord) -> Seen:
    return record.partition, record.offset, record.key, record.value, list(record.headers)


async def read(address: str, topic: str, count: int, **options: Any) -> list[Seen]:
    found: list[Seen] = []
    async with (
        asyncio.timeout(WITHIN_S),
        Consumer(topic, bootstrap_servers=address, auto_offset_reset="earliest", **options) as consumer,
    ):
        while len(found) < count:
            found += [seen(each) for some in (await consumer.getmany(timeout_ms=500)).values() for each in some]
    return found


async def test_keys_headers_and_codecs_are_the_same_on_both_sides(either: str, theirs: Java) -> None:
    name = uuid4().hex
    topics = [f"{name}-{codec}" for codec in CODECS]
    async with Admin(either) as admin:
        await admin.create_topics([NewTopic(topic, PARTITIONS) for topic in topics])
    await asyncio.to_thread(theirs, "produce", either, name, COUNT, ",".join(CODECS))
    for codec, topic in zip(CODECS, topics, strict=True):
        async with Producer(either, compression_type=codec) as producer:
            for number in range(COUNT):
                value = None if number % 7 == 0 else b"value-%d" % number * 20
                await producer.send(topic, value, key=b"key-%d" % number, headers={"from": b"ours", "none": None})
    told = await asyncio.to_thread(theirs, "consume", either, ",".join(topics), 2 * COUNT, "read_uncommitted")
    for topic in topics:
        ours = sorted(await read(either, topic, 2 * COUNT), key=lambda each: each[:2])
        assert ours == sorted((said(each) for each in told if each["topic"] == topic), key=lambda each: each[:2])
        places = {
            source: {each[2]: (each[0], each[3]) for each in ours if each[4][0][1] == source} for source in SOURCES
        }
        assert len(places[b"ours"]) == COUNT and places[b"ours"] == places[b"java"], topic
        assert all(each[4][1] == ("none", None) for each in ours)


async def test_each_side_reads_what_the_other_has_committed_and_nothing_else(either: str, theirs: Java) -> None:
    topic = uuid4().hex
    async with Admin(either) as admin:
        await admin.create_topics([NewTopic(topic, 1)])
    await asyncio.to_thread(theirs, "transactions", either, topic)
    async with Producer(either, transactional_id=f"{topic}-ours") as producer:
        for number in range(1, 4):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"ours-%d" % number, partition=0)
            await (producer.abort_transaction() if number == 2 else producer.commit_transaction())
    told = await asyncio.to_thread(theirs, "consume", either, topic, 4, "read_committed")
    wanted = [b"java-1", b"java-3", b"ours-1", b"ours-3"]
    assert [said(each)[3] for each in told] == wanted
    assert [each[3] for each in await read(either, topic, 4, isolation_level="read_committed")] == wanted
    assert len(await read(either, topic, 6)) == 6, "the aborted ones are in the log"


async def hand_over(address: str, topic: str, count: int) -> list[bytes | None]:
    """Do as Interop's command of that name: go on where the group stands, one transaction a record."""
    done: list[bytes | None] = []
    consumer = Consumer(
        topic,
        bootstrap_servers=address,
        group_id=topic,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    async with asyncio.timeout(WITHIN_S), consumer, Producer(address, transactional_id=f"{topic}-worker") as producer:
        while len(done) < count:
            record = await consumer.getone()
            async with producer.transaction():
                await producer.send(f"{topic}-out", record.value, partition=0)
                place = TopicPartition(record.topic, record.partition)
                offsets = {place: OffsetAndMetadata(record.offset + 1, "ours")}
                await producer.send_offsets(offsets, consumer.group_metadata())
            done.append(record.value)
    return done


async def test_a_group_whose_offsets_go_with_transactions_is_handed_over_and_back(either: str, theirs: Java) -> None:
    topic = uuid4().hex
    values = [b"%d" % number for number in range(6)]
    place = TopicPartition(topic, 0)
    async with Admin(either) as admin, Producer(either) as producer:
        await admin.create_topics([NewTopic(topic, 1), NewTopic(f"{topic}-out", 1)])
        await producer.send_many(topic, [(None, value) for value in values])
        done: list[bytes | None] = []
        for turn in range(3):
            if turn % 2:
                told = await asyncio.to_thread(theirs, "hand-over", either, topic, 2)
                done += [said(each)[3] for each in told]
            else:
                done += await hand_over(either, topic, 2)
            committed = (await admin.list_group_offsets(topic))[place]
            assert (committed.offset, committed.metadata) == (len(done), "java" if turn % 2 else "ours")
        assert done == values
        written = await read(either, f"{topic}-out", len(values), isolation_level="read_committed")
        assert [each[3] for each in written] == values


class Member:
    """A member by Java, as a process: what it has, and what it has read."""

    def __init__(self, command: list[str], address: str, topic: str, assignor: str) -> None:
        self.process = subprocess.Popen(
            [*command, "member", address, topic, assignor], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.lines = Lines(self.process)
        self.assigned: set[int] = set()
        self.read: list[tuple[int, int]] = []

    def listen(self) -> None:
        while line := self.lines.next(0):
            told = json.loads(line)
            if "assigned" in told:
                self.assigned = set(told["assigned"])
            else:
                self.read.append((told["partition"], told["offset"]))

    def leave(self) -> None:
        """End in order, and say what was read until then."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.wait(WITHIN_S) == 0
        self.listen()


@pytest.mark.parametrize("assignor", JAVA_ASSIGNORS, ids=lambda each: each.__name__)
async def test_a_group_of_both_shares_the_partitions_and_reads_each_record_once(
    either: str, command: list[str], assignor: type[RangeAssignor | CooperativeStickyAssignor]
) -> None:
    topic = uuid4().hex
    async with Admin(either) as admin:
        await admin.create_topics([NewTopic(topic, 4)])
    options: dict[str, Any] = {"bootstrap_servers": either, "group_id": topic, "auto_offset_reset": "earliest"}
    ours = Consumer(topic, heartbeat_interval_ms=100, partition_assignment_strategy=[assignor], **options)
    java_member = Member(command, either, topic, JAVA_ASSIGNORS[assignor])
    mine: list[tuple[int, int]] = []

    async def poll() -> None:
        found = await ours.getmany(timeout_ms=50)
        mine.extend((each.partition, each.offset) for some in found.values() for each in some)
        java_member.listen()

    try:
        async with asyncio.timeout(2 * WITHIN_S), Producer(either) as producer:
            async with ours:
                while not (len(java_member.assigned) == len(ours.assignment()) == 2):
                    await poll()
                assert java_member.assigned | {each.partition for each in ours.assignment()} == {0, 1, 2, 3}
                for number in range(40):
                    await producer.send_and_wait(topic, b"x", partition=number % 4)
                while len(mine) + len(java_member.read) < 40:
                    await poll()
            while len(java_member.assigned) < 4:
                await asyncio.sleep(0.05)
                java_member.listen()
        await asyncio.to_thread(java_member.leave)
        assert sorted([*mine, *java_member.read]) == [(partition, at) for partition in range(4) for at in range(10)]
        assert len(mine) == len(java_member.read) == 20
        async with Admin(either) as admin:
            committed = await admin.list_group_offsets(topic)
        assert {place: each.offset for place, each in committed.items()} == {
            TopicPartition(topic, number): 10 for number in range(4)
        }
    finally:
        java_member.process.kill()
        java_member.process.wait()
        java_member.lines.rest()
        for pipe in (java_member.process.stdin, java_member.process.stdout):
            assert pipe is not None
            pipe.close()
