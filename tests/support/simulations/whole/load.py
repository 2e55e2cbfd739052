"""The load: producers and readers of this project, each a process of its own in the simulated world."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any

from odradek.client import Admin, Consumer, Producer, RecordMetadata, TopicPartition
from odradek.protocol.errors import KafkaError
from odradek.testing.simulation.world import World

from .history import History, Place, Transaction, name_of

PLAIN, WHOLE = "plain", "whole"
PARTITIONS = 2
ATTEMPT_MS = 5_000
# For how long a fetch waits for something new: longer than Kafka's half a second, for nobody learns from an answer
# that has nothing.
IDLE_MS = 2_000


class Load:
    """What one client does until `is_over`, and the history that it writes."""

    def __init__(self, world: World, history: History, addresses: str, name: str) -> None:
        self.world, self.history, self.addresses, self.name = world, history, addresses, name
        self.chance: Random = world.random(f"load {name}")
        self.is_over = False
        # What it does in a second: few clients are busy all the time, and many things happen between two records.
        self.rate = world.random("rate").choice((1.0, 3.0, 8.0))
        # A producer that does not wait for a slow disk sends again what the disk has not kept yet.
        self.patience_ms = self.chance.choice((1_000, ATTEMPT_MS))

    async def until_over(self, once: Callable[[], Awaitable[None]]) -> None:
        """Do something again and again; errors of Kafka end one attempt."""
        while not self.is_over:
            try:
                await once()
            except (KafkaError, OSError, TimeoutError) as error:
                self.history.counts[f"{type(self).__name__} failed"] += 1
                self.world.tell(self.name, f"fails: {type(error).__name__}: {str(error)[:180]}")
                await asyncio.sleep(0.2)


class PlainWriter(Load):
    """An idempotent producer: numbers, in order, to every partition."""

    _generation = 0

    async def run(self) -> None:
        await self.until_over(self._write)

    async def _write(self) -> None:
        self._generation += 1
        name, numbers = f"{self.name}.{self._generation}", [0] * PARTITIONS
        options = {"request_timeout_ms": self.patience_ms, "delivery_timeout_ms": 20_000, "linger_ms": 2}
        async with Producer(self.addresses, **options) as producer:
            while not self.is_over:
                partition = self.chance.randrange(PARTITIONS)
                place = PLAIN, partition
                value = b"%s:%d" % (name.encode(), numbers[partition])
                future = await producer.send(PLAIN, value, partition=partition)
                self.history.sent[place][name].append(numbers[partition])
                numbers[partition] += 1
                future.add_done_callback(lambda done, place=place, value=value: self._note(done, place, value))
                await asyncio.sleep(self.chance.expovariate(self.rate))
                if future.done() and future.exception() is not None:
                    await future

    def _note(self, done: asyncio.Future[RecordMetadata], place: Place, value: bytes) -> None:
        if not done.cancelled() and done.exception() is None:
            offset = self.history.acknowledged[place][value] = done.result().offset
            self.world.tell(self.name, f"{value!r} is acknowledged at offset {offset} of {name_of(place)}")
            self.history.counts["acknowledged"] += 1


class TransactionWriter(Load):
    """Transactions of version 2, by the client."""

    _number = 0

    async def run(self) -> None:
        await self.until_over(self._write)

    async def _write(self) -> None:
        options = {"request_timeout_ms": self.patience_ms, "max_block_ms": 20_000, "transaction_timeout_ms": 15_000}
        async with Producer(self.addresses, transactional_id=self.name, **options) as producer:
            while not self.is_over:
                await self._transaction(producer)
                await asyncio.sleep(self.chance.expovariate(self.rate / 2))

    def begin(self) -> tuple[Transaction, bool]:
        """Draw a transaction, and whether it is to be committed."""
        self._number += 1
        transaction = Transaction(f"{self.name}:{self._number}")
        for partition in self.chance.sample(range(PARTITIONS), self.chance.randint(1, PARTITIONS)):
            for at in range(self.chance.randint(1, 3)):
                value = f"{transaction.name}/{partition}.{at}".encode()
                transaction.values.append(((WHOLE, partition), value))
        if self.chance.random() < 0.4:
            transaction.offset = self._number
        self.history.transactions.append(transaction)
        return transaction, self.chance.random() < 0.75

    async def _transaction(self, producer: Producer) -> None:
        transaction, commits = self.begin()
        await producer.begin_transaction()
        for (topic, partition), value in transaction.values:
            await producer.send(topic, value, partition=partition)
        if transaction.offset is not None:
            await producer.send_offsets({TopicPartition(PLAIN, 0): transaction.offset}, group_of(self.name))
        await asyncio.sleep(self.chance.expovariate(self.rate))
        if commits:
            await producer.commit_transaction()
        else:
            await producer.flush()
            await producer.abort_transaction()
        self.ended(transaction, commits)

    def ended(self, transaction: Transaction, commits: bool) -> None:
        """Take down how a transaction ended."""
        transaction.committed = commits
        self.world.tell(self.name, f"transaction {transaction.name} is {'committed' if commits else 'aborted'}")
        self.history.counts["committed" if commits else "aborted"] += 1


def group_of(writer: str) -> str:
    """Return the group whose offsets a writer commits in its transactions: the numbers of these."""
    return f"offsets of {writer}"


async def check_offsets(history: History, addresses: str) -> AsyncIterator[str]:
    """Check that each group has the offset of a transaction that was committed, and of no earlier one than it must."""
    found: dict[str, list[Transaction]] = defaultdict(list)
    for each in history.transactions:
        if each.offset is not None and each.committed is not False:
            found[each.name.partition(":")[0]].append(each)
    async with Admin(addresses) as admin:
        for writer, transactions in found.items():
            offsets = await admin.list_group_offsets(group_of(writer))
            offset = max((each.offset for each in offsets.values()), default=0)
            least = max((each.offset or 0 for each in transactions if each.committed), default=0)
            if offset < least or offset not in (0, *(each.offset for each in transactions)):
                yield f"{group_of(writer)}: {offset} is committed, after the transaction {writer}:{least} was"


class Reader(Load):
    """Reads every partition of a topic from its begin, at one isolation."""

    def __init__(self, world: World, history: History, addresses: str, name: str, topic: str, isolation: str) -> None:
        super().__init__(world, history, addresses, name)
        self._topic, self._isolation = topic, isolation
        self._next: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        await self.until_over(self._read)

    async def _read(self) -> None:
        options: dict[str, Any] = {"request_timeout_ms": ATTEMPT_MS, "fetch_max_wait_ms": IDLE_MS}
        options |= {"isolation_level": self._isolation, "auto_offset_reset": "none"}
        async with Consumer(bootstrap_servers=self.addresses, **options) as consumer:
            places = [TopicPartition(self._topic, index) for index in range(PARTITIONS)]
            consumer.assign(places)
            for each in places:
                consumer.seek(each, self._next.get(each, 0))
            while not self.is_over:
                found = await consumer.getmany(timeout_ms=500)
                for place, records in found.items():
                    seen = self.history.read[self.name][place.topic, place.partition]
                    seen.extend((each.offset, each.value or b"") for each in records)
                    self._next[place] = records[-1].offset + 1
                    self.history.counts[f"read {self._isolation}"] += len(records)


class EndWatcher(Load):
    """Asks for the ends of partitions at one isolation: they never fall."""

    async def run(self) -> None:
        self._isolation = self.chance.choice(("read_uncommitted", "read_committed"))
        self._highest: dict[TopicPartition, int] = {}
        await self.until_over(self._watch)

    async def _watch(self) -> None:
        options = {"request_timeout_ms": ATTEMPT_MS, "isolation_level": self._isolation}
        places = [TopicPartition(topic, index) for topic in (PLAIN, WHOLE) for index in range(PARTITIONS)]
        async with Consumer(bootstrap_servers=self.addresses, **options) as consumer:
            while not self.is_over:
                for place, end in (await consumer.end_offsets(places)).items():
                    before = self._highest.get(place, 0)
                    if end < before:
                        fell = f"its end for {self._isolation} fell from {before} to {end}"
                        self.history.seen.append(f"{place}: {fell} before {self.world.now_s:.3f} s")
                    self._highest[place] = end
                self.history.counts["ends"] += 1
                await asyncio.sleep(self.chance.expovariate(self.rate))
