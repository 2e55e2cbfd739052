"""Every error code at every request of a producer: a retriable one is survived, any other is raised once.

After each error the producer goes on, or says that it cannot; then another one takes its transactional id over. In the
end the logs hold what was acknowledged and committed, once and in order. Here is a sample of the codes, with those that
have a verdict of their own; `make soak` has all of them.
"""

from __future__ import annotations

from typing import Any

import pytest
import uvloop
from odradek.client import Producer, TopicPartition
from odradek.client.errors import KafkaError, ProducerUnusable, TransactionFailed
from odradek.client.producer.transaction_machine import ABORTABLE, FATAL
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.shapes.answers import rejection
from odradek.tests.support.fakes.fake_cluster import FakeCluster, refuse_produce
from odradek.tests.support.fakes.fake_transactions import committed
from odradek.tests.support.fakes.wire import Call, Step
from odradek.tests.support.seeds import IS_SOAK

CODES = [code for code in ErrorCode if code is not ErrorCode.NONE]
_NAMED = {code for table in (FATAL, ABORTABLE) for codes in table.values() for code in codes}
SAMPLE = [code for number, code in enumerate(CODES) if IS_SOAK or number % 8 == 0 or code in _NAMED]
# The batch is in the log already: the broker says so after it has written it.
WRITTEN = {ErrorCode.DUPLICATE_SEQUENCE_NUMBER}
QUICK: dict[str, Any] = {"retry_backoff_ms": 0.1, "retry_backoff_max_ms": 0.5, "linger_ms": 0, "batch_size": 1}


def error_step(key: ApiKey, code: ErrorCode) -> Step:
    """Answer one request with an error, and do nothing."""
    if key is ApiKey.PRODUCE:
        return refuse_produce(code, after=code in WRITTEN)

    async def step(call: Call) -> Any:
        return rejection(call.request, call.version, code)

    return step


class Ledger:
    """What a transactional producer was told, and what must be in the log because of it."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.producer = Producer(cluster.address, transactional_id="x", **QUICK)
        self.numbers = iter(range(1 << 30))
        self.committed: list[bytes | None] = []
        self.offset = -1

    async def start(self) -> KafkaError | None:
        """Start a new producer; return the error of the first attempt."""
        await self.producer.stop(timeout_ms=1000)
        self.producer = Producer(self.cluster.address, transactional_id="x", **QUICK)
        try:
            await self.producer.start()
        except KafkaError as error:
            await self.producer.start()
            return error
        return None

    async def transaction(self) -> KafkaError | None:
        """Run one; return its error."""
        number = next(self.numbers)
        values = [b"%d-%d" % (number, index) for index in range(2)]
        try:
            async with self.producer.transaction():
                for value in values:
                    await self.producer.send("t", value, partition=0)
                await self.producer.send_offsets({TopicPartition("in", 0): number}, "g")
        except KafkaError as error:
            return error
        self.committed += values
        self.offset = number
        return None

    def check(self) -> None:
        assert committed(self.cluster.log("t").batches) == self.committed
        assert self.cluster.group.committed.get(("in", 0), -1) == self.offset


TRANSACTIONAL = [
    (ApiKey.PRODUCE, 1),
    (ApiKey.PRODUCE, 2),
    (ApiKey.ADD_PARTITIONS_TO_TXN, 1),
    (ApiKey.ADD_OFFSETS_TO_TXN, 1),
    (ApiKey.TXN_OFFSET_COMMIT, 2),
    (ApiKey.END_TXN, 1),
    (ApiKey.END_TXN, 2),
]


async def each_error_in_a_transaction(key: ApiKey, version: int, codes: list[ErrorCode]) -> None:
    async with FakeCluster({"t": 1, "in": 1}) as cluster:
        cluster.transactions.version = version
        ledger = Ledger(cluster)
        await ledger.start()
        for code in codes:
            cluster.on(key, error_step(key, code))
            error = await ledger.transaction()
            assert not cluster.steps[key], f"{key.name} was not asked"
            if code.retriable or (key is ApiKey.PRODUCE and code in WRITTEN):
                assert error is None, f"{code.name}: {error}"
            else:
                assert isinstance(error, (TransactionFailed, ProducerUnusable)), f"{code.name}: {error}"
                fenced = code is ErrorCode.INVALID_PRODUCER_EPOCH and isinstance(error, ProducerUnusable)
                assert error.code is (ErrorCode.PRODUCER_FENCED if fenced else code)
            if isinstance(error, ProducerUnusable):
                assert isinstance(await ledger.transaction(), ProducerUnusable)
                await ledger.start()
            # It is raised once: the next transaction is not touched by it.
            assert await ledger.transaction() is None, code.name
            ledger.check()
        await ledger.producer.stop()


@pytest.mark.parametrize(("key", "version"), TRANSACTIONAL, ids=lambda each: getattr(each, "name", str(each)))
def test_each_error_in_a_transaction_is_survived_or_raised_once(key: ApiKey, version: int) -> None:
    uvloop.run(each_error_in_a_transaction(key, version, SAMPLE))


async def each_error_at_a_start(key: ApiKey, codes: list[ErrorCode]) -> None:
    async with FakeCluster({"t": 1, "in": 1}) as cluster:
        ledger = Ledger(cluster)
        for code in codes:
            cluster.on(key, error_step(key, code))
            error = await ledger.start()
            assert (error is None) == code.retriable, code.name
            assert error is None or isinstance(error, ProducerUnusable)
            assert await ledger.transaction() is None, code.name
        ledger.check()
        await ledger.producer.stop()


@pytest.mark.parametrize("key", [ApiKey.INIT_PRODUCER_ID, ApiKey.FIND_COORDINATOR], ids=lambda key: key.name)
def test_each_error_at_the_start_of_a_transactional_producer_is_survived_or_raised_once(key: ApiKey) -> None:
    uvloop.run(each_error_at_a_start(key, SAMPLE))


# The broker has forgotten the producer id, so the batch goes again with another.
NEW_ID = {ErrorCode.UNKNOWN_PRODUCER_ID}


async def each_error_without_transactions(key: ApiKey, acks: Any, codes: list[ErrorCode]) -> None:
    async with FakeCluster({"t": 1}) as cluster:
        options = {**QUICK, "acks": acks, "enable_idempotence": acks == "all"}
        expected: list[bytes | None] = []
        producer = Producer(cluster.address, **options)
        await producer.start()
        for code in codes:
            if key is ApiKey.INIT_PRODUCER_ID:
                await producer.stop()
                producer = Producer(cluster.address, **options)
                await producer.start()
            cluster.on(key, error_step(key, code))
            survives = code.retriable or (key is ApiKey.PRODUCE and code in WRITTEN | NEW_ID)
            value = b"%d" % code
            try:
                await producer.send_and_wait("t", value)
            except KafkaError as error:
                assert not survives, f"{code.name}: {error}"
                assert error.code is code
            else:
                assert survives or not cluster.steps[key], code.name
                expected.append(value)
            await producer.send_and_wait("t", b"next")
            expected.append(b"next")
            assert not cluster.steps[key]
        assert cluster.values("t") == expected
        await producer.stop()


@pytest.mark.parametrize(
    ("key", "acks"),
    [(ApiKey.PRODUCE, "all"), (ApiKey.PRODUCE, 1), (ApiKey.INIT_PRODUCER_ID, "all")],
    ids=["Produce", "Produce, acks=1", "InitProducerId"],
)
def test_each_error_without_transactions_is_survived_or_raised_once(key: ApiKey, acks: Any) -> None:
    uvloop.run(each_error_without_transactions(key, acks, SAMPLE))
