"""Everything at once: producers, transactions, compaction, retention, groups, slow readers, and kills of the broker.

`run(folder, seconds, seed)` loads one broker with producers of four libraries. In the second fifth of the time the
broker is killed and started again every few seconds. Then it runs on until the load ends. AssertionError unless

- every acknowledged record is at its offset, and those of one sender are in the order in which they were sent
- a read_committed reader finds the records of all committed transactions, and none of an aborted one
- of every key of the compacted topic the last acknowledged value is there
- retention and the cleaner have removed old records
- memory and open files of the broker, once the load is over, are about what they were after a tenth of the time
  (in minute 2 of the 20 of `make soak`), under the load and before the first kill
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from struct import pack
from typing import Any

import confluent_kafka
from odradek.client import Consumer, Producer
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.clients import keepers
from odradek.tests.support.clients.keepers import PATIENCE_S
from odradek.tests.support.clients.others import has_java, messages
from odradek.tests.support.clients.raw import Raw

PARTITIONS = 3
KIB, MIB = 1024, 1024 * 1024
SETTINGS = {
    "log_segment_bytes": MIB,
    "log_retention_check_interval_ms": 1_000,
    "log_cleaner_backoff_ms": 1_000,
    "log_segment_delete_delay_ms": 1_000,
    "group_initial_rebalance_delay_ms": 0,
    "group_min_session_timeout_ms": 1_000,
}
# Allocators keep some of what the load has used.
GROWTH_BYTES = 150 * MIB
GROWTH_FILES = 100


@dataclass
class Ledger:
    """What the broker has acknowledged."""

    # (partition, offset) -> (sender, number)
    kept: dict[tuple[int, int], bytes] = field(default_factory=dict[tuple[int, int], bytes])
    committed: set[bytes] = field(default_factory=set[bytes])
    aborted: set[bytes] = field(default_factory=set[bytes])
    # The last acknowledged value of each key.
    latest: dict[bytes, int] = field(default_factory=dict[bytes, int])
    counts: Counter[str] = field(default_factory=Counter[str])


@dataclass
class Load:
    """The clients of one run. `folder` is for their files."""

    folder: Path
    address: str
    seed: int
    ends_s: float
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.ends_s

    async def run(self) -> None:
        """Run all clients until the end. The first failure ends it."""
        clients: list[Coroutine[Any, Any, None]] = [
            self.keep(0), self.keep(1), *self._others(),
            self.transact(0), self.transact(1), self.compact(), self.churn(),
            *(self.join_and_leave(number) for number in range(4)), *(self.read_slowly() for _ in range(8)),
        ]  # fmt: skip
        async with asyncio.TaskGroup() as group:
            for each in clients:
                group.create_task(each)

    async def keep(self, sender: int) -> None:
        """Send numbered records to the topic that keeps all, a few hundred in flight."""
        async with self._producer() as producer:
            for number in itertools.count():
                if self.is_over:
                    break
                value = b"%d %d" % (sender, number)
                future = await producer.send("kept", value + b" " * 500, partition=number % PARTITIONS)
                future.add_done_callback(lambda done, value=value: self._note(done, value))  # type: ignore[misc]
                if not number % 100:
                    await asyncio.sleep(0.05)

    def _note(self, done: asyncio.Future[Any], value: bytes) -> None:
        metadata = done.result()
        self.ledger.kept[metadata.partition, metadata.offset] = value
        self.ledger.counts["kept"] += 1

    def _note_from(self, library: str) -> keepers.Note:
        """Return what a producer of another library calls for each record that is acknowledged."""

        def note(partition: int, offset: int, value: bytes) -> None:
            self.ledger.kept[partition, offset] = value.rstrip()
            self.ledger.counts[f"kept by {library}"] += 1

        return note

    def _values(self, sender: int) -> Iterator[bytes]:
        for number in itertools.takewhile(lambda _: not self.is_over, itertools.count()):
            yield b"%d %d" % (sender, number) + b" " * 500

    def _others(self) -> list[Coroutine[Any, Any, None]]:
        """Return the producers of other libraries; Java's where KAFKA_LIB says that it is there."""
        to = self.address, "kept", PARTITIONS
        found = [
            asyncio.to_thread(keepers.with_librdkafka, *to, self._values(9), self._note_from("librdkafka")),
            keepers.with_aiokafka(*to, self._values(8), self._note_from("aiokafka")),
        ]
        if has_java():
            over, note = lambda: self.is_over, self._note_from("java")
            found.append(keepers.with_java(self.folder, self.address, "kept", over, note))
        return found

    async def transact(self, number: int) -> None:
        """Commit and abort transactions. One whose end failed counts as neither."""
        chance = random.Random(self.seed + number)
        for turn in itertools.count():
            if self.is_over:
                return
            with suppress(KafkaError):
                async with self._producer(transactional_id=f"t-{number}") as producer:
                    await self._transact(producer, b"%d-%d" % (number, turn), chance)

    async def _transact(self, producer: Producer[Any, Any], prefix: bytes, chance: random.Random) -> None:
        for round_ in itertools.count():
            if self.is_over:
                return
            values = [b"%s-%d-%d" % (prefix, round_, at) for at in range(chance.randint(1, 20))]
            await producer.begin_transaction()
            for value in values:
                await producer.send("decided", value, partition=chance.randrange(PARTITIONS))
            if chance.random() < 0.2:
                self.ledger.aborted.update(values)
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
                self.ledger.committed.update(values)
            self.ledger.counts["transactions"] += 1

    async def compact(self) -> None:
        """Write a few keys again and again."""
        async with self._producer() as producer:
            for number in itertools.count():
                if self.is_over:
                    return
                key = b"%d" % (number % 200)
                await producer.send_and_wait("compacted", b"%d" % number + b" " * KIB, key=key, partition=0)
                self.ledger.latest[key] = number
                self.ledger.counts["compacted"] += 1

    async def churn(self) -> None:
        """Fill the topic whose old segments retention deletes."""
        async with self._producer() as producer:
            while not self.is_over:
                await producer.send_many("deleted", ((None, os.urandom(10 * KIB)) for _ in range(50)))
                self.ledger.counts["deleted"] += 50
                await asyncio.sleep(0.1)

    async def join_and_leave(self, number: int) -> None:
        """Be a member of one group, for a while at a time."""
        chance = random.Random(self.seed * 10 + number)
        options: dict[str, Any] = {"group_id": "crowd", "auto_offset_reset": "latest", "session_timeout_ms": 6_000}
        while not self.is_over:
            with suppress(KafkaError):
                async with Consumer("kept", bootstrap_servers=self.address, **options) as consumer:
                    until_s = time.monotonic() + chance.uniform(2, 8)
                    while time.monotonic() < min(until_s, self.ends_s):
                        found = await consumer.getmany(timeout_ms=500)
                        self.ledger.counts["consumed"] += sum(map(len, found.values()))
                    self.ledger.counts["memberships"] += 1

    async def read_slowly(self) -> None:
        """Ask for megabytes again and again, and take a few KiB a second: the queue of this connection is full."""
        wanted = FetchPartition(0, fetch_offset=0, partition_max_bytes=4 * MIB)
        # At first the log is empty, and nobody reads nothing slowly.
        bounds = {"max_wait_ms": 10_000, "min_bytes": MIB, "max_bytes": 4 * MIB}
        request = FetchRequest(**bounds, topics=[FetchTopic("kept", partitions=[wanted])])
        while not self.is_over:
            with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                async with await Raw.connect(self.address) as raw, asyncio.timeout(20):
                    for _ in range(10):
                        raw.send(ApiKey.FETCH, 11, request)
                    raw.send_bytes(pack(">i", 50 * MIB))  # the rest of this request never comes
                    while not self.is_over:
                        if not await raw._reader.read(4 * KIB):
                            break  # the broker has died or closed the connection
                        self.ledger.counts["slow reads"] += 1
                        await asyncio.sleep(0.5)
            await asyncio.sleep(0.2)

    @asynccontextmanager
    async def _producer(self, **options: Any) -> AsyncIterator[Producer[Any, Any]]:
        async with Producer(self.address, delivery_timeout_ms=PATIENCE_S * 1000, **options) as producer:
            yield producer


async def run(folder: Path, seconds: float, seed: int) -> Counter[str]:
    """See the module's text. Return what was done, by its name."""
    broker = BrokerProcess(folder, **SETTINGS).start()
    try:
        await _create_topics(broker.address)
        began_s = time.monotonic()
        load = Load(folder, broker.address, seed, began_s + seconds)
        running = asyncio.ensure_future(load.run())
        await asyncio.wait([running], timeout=seconds / 10)
        before = usage(broker)
        kills = await _kill(broker, random.Random(seed), began_s + seconds / 5, began_s + 2 * seconds / 5, running)
        load.ledger.counts["kills"] = kills
        await running
        await asyncio.sleep(5)  # connections close, old files are removed
        _check_usage(before, usage(broker))
        for check in (_check_kept, _check_decided, _check_compacted, _check_deleted):
            await asyncio.to_thread(check, broker.address, load.ledger)
        return load.ledger.counts
    finally:
        broker.stop()


async def _create_topics(address: str) -> None:
    async with await Raw.connect(address) as raw:
        for name, configs in (
            ("kept", {"retention_ms": "-1"}),
            ("decided", {"retention_ms": "-1"}),
            ("compacted", {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.1"}),
            ("deleted", {"retention_bytes": str(4 * MIB)}),
        ):
            assert (await raw.create_topic(name, PARTITIONS, **configs)).error_code == 0


async def _kill(
    broker: BrokerProcess, chance: random.Random, from_s: float, to_s: float, running: asyncio.Future[None]
) -> int:
    """Kill the broker and start it again, until `to_s`. Return how often."""
    kills = 0
    await asyncio.wait([running], timeout=from_s - time.monotonic())
    while time.monotonic() < to_s and not running.done():
        await asyncio.to_thread(broker.kill)
        await asyncio.sleep(chance.uniform(0, 1))
        await asyncio.to_thread(broker.start)
        kills += 1
        await asyncio.wait([running], timeout=chance.uniform(4, 10))
    return kills


def usage(broker: BrokerProcess) -> tuple[int, int]:
    """Return (resident bytes, open files) of the broker. Of the records that the load keeps few files are open."""
    process = Path("/proc") / str(broker.pid)
    pages = int((process / "statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir(process / "fd"))


def _check_usage(before: tuple[int, int], after: tuple[int, int]) -> None:
    (memory_before, files_before), (memory, files) = before, after
    print(f"{memory / MIB:.0f} MiB and {files} open files, {memory_before / MIB:.0f} and {files_before} at first")
    assert memory <= memory_before + GROWTH_BYTES, f"{memory / MIB:.0f} MiB, {memory_before / MIB:.0f} at first"
    assert files <= files_before + GROWTH_FILES, f"{files} open files, {files_before} at first"


def _check_kept(address: str, ledger: Ledger) -> None:
    last: dict[tuple[int, bytes], int] = {}
    found: dict[tuple[int, int], bytes] = {}
    for record in _all(address, "kept"):
        value = record.value().rstrip()
        found[record.partition(), record.offset()] = value
        sender, number = value.replace(b".", b" ").split()  # Java's producer writes a dot
        place = record.partition(), sender
        assert int(number) > last.get(place, -1), f"{place}: {number} after {last[place]}"
        last[place] = int(number)
    missing = {place: value for place, value in ledger.kept.items() if found.get(place) != value}
    assert not missing, f"{len(missing)} acknowledged records are not at their offsets: {list(missing.items())[:3]}"


def _check_decided(address: str, ledger: Ledger) -> None:
    found = Counter(record.value() for record in _all(address, "decided", "read_committed"))
    assert all(count == 1 for count in found.values()), "a record was committed twice"
    assert ledger.committed <= found.keys(), f"lost: {list(ledger.committed - found.keys())[:3]}"
    assert not ledger.aborted & found.keys(), f"aborted: {list(ledger.aborted & found.keys())[:3]}"


def _check_compacted(address: str, ledger: Ledger) -> None:
    found = list(_all(address, "compacted"))
    latest = {record.key(): int(record.value().split()[0]) for record in found}
    behind = {key: (number, latest.get(key)) for key, number in ledger.latest.items() if latest.get(key, -1) < number}
    assert not behind, f"keys that have lost their last value: {list(behind.items())[:3]}"
    assert len(found) < ledger.counts["compacted"], "the cleaner has removed nothing"


def _check_deleted(address: str, _: Ledger) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "checker", "log_level": 0})
    marks = [confluent_kafka.TopicPartition("deleted", at) for at in range(PARTITIONS)]
    starts = [consumer.get_watermark_offsets(each, PATIENCE_S)[0] for each in marks]
    consumer.close()
    assert all(starts), f"retention has deleted nothing: the logs start at {starts}"


def _all(address: str, topic: str, isolation: str = "read_uncommitted") -> Iterator[confluent_kafka.Message]:
    """Return the records of a topic up to its present end."""
    return messages(address, topic, range(PARTITIONS), isolation, PATIENCE_S)
