"""The load: producers, readers and members of a group, each a process of its own in the simulated world.

All clients are of this project; transactions of version 1 are spoken request by request, as older clients do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from odradek.client import Consumer, Producer, RecordMetadata, TopicPartition
from odradek.client.core.connection import Connection
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.testing.simulation.world import World
from odradek.tests.support.clients.raw import batch_of

from .history import Commit, History, Place, Transaction

PLAIN, WHOLE, GROUP = "plain", "whole", "group"
PARTITIONS = 2
_ADD_VERSION = _END_VERSION = 3
_PRODUCE_VERSION = 11
_ATTEMPT_MS = 5_000
_RETRIES = 60


class Load:
    """What one client does until `is_over`, and the history that it writes."""

    def __init__(self, world: World, history: History, addresses: str, name: str) -> None:
        self.world, self.history, self.addresses, self.name = world, history, addresses, name
        self.chance: Random = world.random(f"load {name}")
        self.is_over = False
        # What it does in a second: few clients are busy all the time, and many things happen between two records.
        self.rate = world.random("rate").choice((1.0, 4.0, 12.0))

    async def until_over(self, once: Callable[[], Awaitable[None]]) -> None:
        """Do something again and again; errors of Kafka end one attempt."""
        while not self.is_over:
            try:
                await once()
            except (KafkaError, OSError, TimeoutError) as error:
                self.history.counts[f"{type(self).__name__} failed"] += 1
                self.world.tell(self.name, f"fails: {type(error).__name__}: {str(error)[:120]}")
                await asyncio.sleep(0.2)


class PlainWriter(Load):
    """An idempotent producer: numbers, in order, to every partition."""

    _generation = 0

    async def run(self) -> None:
        await self.until_over(self._write)

    async def _write(self) -> None:
        self._generation += 1
        name, numbers = f"{self.name}.{self._generation}", [0] * PARTITIONS
        options = {"request_timeout_ms": _ATTEMPT_MS, "delivery_timeout_ms": 20_000, "linger_ms": 2}
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
            self.history.acknowledged[place][value] = done.result().offset
            self.history.counts["acknowledged"] += 1


class TransactionWriter(Load):
    """Transactions of version 2, by the client."""

    _number = 0

    async def run(self) -> None:
        await self.until_over(self._write)

    async def _write(self) -> None:
        options = {"request_timeout_ms": _ATTEMPT_MS, "max_block_ms": 20_000, "transaction_timeout_ms": 15_000}
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
        self.history.transactions.append(transaction)
        return transaction, self.chance.random() < 0.75

    async def _transaction(self, producer: Producer) -> None:
        transaction, commits = self.begin()
        await producer.begin_transaction()
        for (topic, partition), value in transaction.values:
            await producer.send(topic, value, partition=partition)
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
        self.history.counts["committed" if commits else "aborted"] += 1


class OldTransactionWriter(TransactionWriter):
    """Transactions of version 1, request by request."""

    async def run(self) -> None:
        self._connections: dict[tuple[str, int], Connection] = {}
        await self.until_over(self._live)

    async def _live(self) -> None:
        try:
            await self._begin_epoch()
            while not self.is_over:
                await self._old_transaction()
                await asyncio.sleep(self.chance.expovariate(self.rate / 2))
        finally:
            for each in self._connections.values():
                each.abort(KafkaError(ErrorCode.NETWORK_EXCEPTION, "over"))
            self._connections.clear()

    async def _connection(self, host: str, port: int) -> Connection:
        found = self._connections.get((host, port))
        if found is None or found.closed:
            found = await Connection.open(host, port, client_id=self.name, request_timeout_ms=_ATTEMPT_MS)
            self._connections[host, port] = found
        return found

    async def _any(self) -> Connection:
        host, port = self.chance.choice(self.addresses.split(",")).rsplit(":", 1)
        return await self._connection(host, int(port))

    async def _coordinator(self) -> Connection:
        any_broker = await self._any()
        request = FindCoordinatorRequest(self.name, 1)
        found = await any_broker.request(request, FindCoordinatorResponse, version=2)
        _check(found.error_code)
        return await self._connection(found.host, found.port)

    async def _leader(self, place: Place) -> Connection:
        any_broker = await self._any()
        request = MetadataRequest([MetadataRequestTopic(name=place[0])])
        found = await any_broker.request(request, MetadataResponse, version=7)
        partition = next(each for each in found.topics[0].partitions if each.partition_index == place[1])
        _check(partition.error_code)
        broker = next((each for each in found.brokers if each.node_id == partition.leader_id), None)
        if broker is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "no leader")
        return await self._connection(broker.host, broker.port)

    async def _until(self, what: Callable[[], Awaitable[None]]) -> None:
        """Repeat a request while its error may pass, as a client does."""
        for _ in range(_RETRIES):
            try:
                await what()
                return
            except (KafkaError, OSError) as error:
                if isinstance(error, KafkaError) and not error.retriable:
                    raise
            await asyncio.sleep(0.25)
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "it has not come in time")

    async def _begin_epoch(self) -> None:
        async def ask() -> None:
            coordinator = await self._coordinator()
            request = InitProducerIdRequest(self.name, 15_000)
            found = await coordinator.request(request, InitProducerIdResponse, version=4)
            _check(found.error_code)
            self._producer_id, self._epoch = found.producer_id, found.producer_epoch

        await self._until(ask)
        self._sequences: dict[Place, int] = {}

    async def _old_transaction(self) -> None:
        transaction, commits = self.begin()
        places = sorted({place for place, _ in transaction.values})
        await self._until(lambda: self._add(places))
        for place in places:
            values = [value for each, value in transaction.values if each == place]
            await self._until(lambda place=place, values=values: self._produce(place, values))
            self._sequences[place] = self._sequences.get(place, 0) + len(values)
        await asyncio.sleep(self.chance.expovariate(self.rate))
        await self._until(lambda: self._end(commits))
        self.ended(transaction, commits)

    async def _add(self, places: list[Place]) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(WHOLE, [partition for _, partition in places])],
        )
        coordinator = await self._coordinator()
        found = await coordinator.request(request, AddPartitionsToTxnResponse, version=_ADD_VERSION)
        for each in found.results_by_topic_v3_and_below[0].results_by_partition:
            _check(each.partition_error_code)

    async def _produce(self, place: Place, values: list[bytes]) -> None:
        batch = batch_of(
            *values,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            transactional=True,
            base_sequence=self._sequences.get(place, 0),
        )
        topics = [TopicProduceData(name=place[0], partition_data=[PartitionProduceData(place[1], batch)])]
        request = ProduceRequest(self.name, -1, 3_000, topics)
        leader = await self._leader(place)
        found = await leader.request(request, ProduceResponse, version=_PRODUCE_VERSION)
        code = found.responses[0].partition_responses[0].error_code
        if code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            _check(code)

    async def _end(self, commits: bool) -> None:
        request = EndTxnRequest(self.name, self._producer_id, self._epoch, commits)
        coordinator = await self._coordinator()
        found = await coordinator.request(request, EndTxnResponse, version=_END_VERSION)
        _check(found.error_code)


def _check(code: int) -> None:
    if code:
        raise KafkaError(ErrorCode.of(code), "answered")


class Reader(Load):
    """Reads every partition of a topic from its begin, at one isolation."""

    def __init__(self, world: World, history: History, addresses: str, name: str, topic: str, isolation: str) -> None:
        super().__init__(world, history, addresses, name)
        self._topic, self._isolation = topic, isolation
        self._next: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        await self.until_over(self._read)

    async def _read(self) -> None:
        options = {"request_timeout_ms": _ATTEMPT_MS, "isolation_level": self._isolation}
        async with Consumer(bootstrap_servers=self.addresses, auto_offset_reset="none", **options) as consumer:
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
        options = {"request_timeout_ms": _ATTEMPT_MS, "isolation_level": self._isolation}
        places = [TopicPartition(topic, index) for topic in (PLAIN, WHOLE) for index in range(PARTITIONS)]
        async with Consumer(bootstrap_servers=self.addresses, **options) as consumer:
            while not self.is_over:
                for place, end in (await consumer.end_offsets(places)).items():
                    before = self._highest.get(place, 0)
                    if end < before:
                        self.history.seen.append(f"{place}: its end for {self._isolation} fell from {before} to {end}")
                    self._highest[place] = end
                self.history.counts["ends"] += 1
                await asyncio.sleep(self.chance.expovariate(self.rate))


class Member(Load):
    """A member of a group, which commits what it has read."""

    async def run(self) -> None:
        self.is_static = self.chance.random() < 0.3
        await self.until_over(self._consume)

    async def _consume(self) -> None:
        options: dict[str, Any] = {
            "request_timeout_ms": _ATTEMPT_MS,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
        }
        protocol = self.world.random("protocol").choice(("classic", "consumer", "mixed"))
        if protocol == "classic" or (protocol == "mixed" and self.chance.random() < 0.5):
            options |= {"group_protocol": "classic", "session_timeout_ms": 6_000, "heartbeat_interval_ms": 1_000}
        if self.is_static:
            options["group_instance_id"] = self.name
        consumer = Consumer(PLAIN, bootstrap_servers=self.addresses, group_id=GROUP, **options)
        async with consumer:
            ends_s = self.world.now_s + self.chance.uniform(3, 20)
            while not self.is_over and self.world.now_s < ends_s:
                found = await consumer.getmany(timeout_ms=500)
                if found:
                    await self._commit(consumer, {place: records[-1].offset + 1 for place, records in found.items()})

    async def _commit(self, consumer: Consumer[bytes, bytes], offsets: dict[TopicPartition, int]) -> None:
        began_s = self.world.now_s
        places = {(place.topic, place.partition): offset for place, offset in offsets.items()}
        self.history.wanted_commits.update(places.items())
        await consumer.commit(offsets)
        for place, offset in places.items():
            self.history.commits.append(Commit(self.name, place, offset, began_s, self.world.now_s))
        self.history.counts["commits"] += 1
