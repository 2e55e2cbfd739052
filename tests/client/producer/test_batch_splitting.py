"""A batch that is too large for the broker is split: every record that fits is written once and in order."""

from __future__ import annotations

import random
from concurrent.futures import Future
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.client import KafkaError, Producer, RecordMetadata, TopicPartition
from odradek.client.errors import TransactionFailed
from odradek.client.producer.batch import BatchLimits, ProducerBatch, split
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.batch import decode_batch, encode_batch, read_header
from odradek.protocol.records.record import Record, size_upper_bound
from odradek.tests.client.producer.test_accumulator import options_of
from odradek.tests.support.fakes.fake_cluster import FakeCluster, refuse_produce
from odradek.tests.support.fakes.fake_transactions import committed
from odradek.tests.support.fakes.wire import do_and_drop, do_it, drop


def producer_for(cluster: FakeCluster, **options: Any) -> Producer:
    quick = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "max_block_ms": 5_000}
    return Producer(cluster.address, **quick | options)


async def test_a_batch_is_split_until_its_parts_fit() -> None:
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster) as producer:
        cluster.log("t").max_batch_bytes = 1000
        done = await producer.send_many("t", ((None, b"%d " % n + b"x" * 90) for n in range(100)))
        assert (done.records, done.offsets) == (100, {TopicPartition("t", 0): (0, 99)})
        assert [int((value or b"").split()[0]) for value in cluster.values("t")] == list(range(100))
        headers = [read_header(batch) for batch in cluster.log("t").batches]
        assert {header.producer_id for header in headers} == {1000}, "no sequence was lost"
        assert [header.base_sequence for header in headers] == [header.base_offset for header in headers]
        before = len(cluster.calls(ApiKey.PRODUCE))
        await producer.send_many("t", ((None, b"x" * 90) for _ in range(5)))
        assert len(cluster.calls(ApiKey.PRODUCE)) == before + 1, "later batches are smaller"


async def test_a_record_that_is_too_large_fails_alone() -> None:
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster, linger_ms=1000) as producer:
        cluster.log("t").max_batch_bytes = 500
        sizes = [10, 20, 600, 30, 700, 40]
        sent = [await producer.send("t", b"x" * size) for size in sizes]
        await producer.flush()
        failed = [size for size, future in zip(sizes, sent, strict=True) if future.exception() is not None]
        assert failed == [600, 700]
        assert all(isinstance(f.exception(), (KafkaError, type(None))) for f in sent)
        assert {f.exception().code for f in sent if f.exception()} == {ErrorCode.MESSAGE_TOO_LARGE}  # type: ignore[union-attr]
        assert [len(value or b"") for value in cluster.values("t")] == [10, 20, 30, 40]


@pytest.mark.parametrize("seed", range(6))
async def test_splits_and_faults_lose_and_double_nothing(seed: int) -> None:
    chance = random.Random(seed)
    faults = [do_it, do_it, do_it, drop, do_and_drop, refuse_produce(ErrorCode.NOT_ENOUGH_REPLICAS)]
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster, batch_size=2000, linger_ms=0) as producer:
        cluster.log("t").max_batch_bytes = 700
        cluster.on(ApiKey.PRODUCE, *(chance.choice(faults) for _ in range(60)))
        numbers = range(200)
        await producer.send_many("t", ((None, b"%d " % n + b"x" * chance.randrange(200)) for n in numbers))
        assert [int((value or b"").split()[0]) for value in cluster.values("t")] == list(numbers)


async def test_the_halves_of_a_batch_that_was_written_are_not_written_again() -> None:
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster, linger_ms=1000) as producer:
        cluster.on(ApiKey.PRODUCE, do_and_drop, refuse_produce(ErrorCode.MESSAGE_TOO_LARGE))
        sent = [await producer.send("t", b"%d" % n) for n in range(4)]
        await producer.flush()
        assert [future.exception().code for future in sent] == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * 4  # type: ignore[union-attr]
        assert cluster.values("t") == [b"0", b"1", b"2", b"3"]


async def test_values_are_split_and_a_batch_of_the_users_own_is_not() -> None:
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster) as producer:
        cluster.log("t").max_batch_bytes = 500
        assert (await producer.send_values("t", [b"%d" % n * 10 for n in range(100)])).records == 100
        assert cluster.values("t") == [b"%d" % n * 10 for n in range(100)]
        own = encode_batch([Record(-1, 7, None, b"x" * 300)] * 2)
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            await (await producer.send_batch(TopicPartition("t", 0), own))
        assert len(cluster.values("t")) == 100


async def test_a_transaction_with_a_split_batch_is_committed() -> None:
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster, transactional_id="x") as producer:
        cluster.log("t").max_batch_bytes = 500
        async with producer.transaction():
            await producer.send_many("t", ((None, b"%d" % n + b"x" * 60) for n in range(20)))
        assert len(committed(cluster.log("t").batches)) == 20
        with pytest.raises(TransactionFailed, match="MESSAGE_TOO_LARGE"):
            async with producer.transaction():
                for size in (10, 600):
                    await producer.send("t", b"x" * size)
        assert len(committed(cluster.log("t").batches)) == 20


async def test_batches_of_a_topic_are_no_larger_than_what_was_taken_after_a_rejection() -> None:
    async with FakeCluster({"t": 2, "other": 1}) as cluster, producer_for(cluster) as producer:
        for partition in (0, 1):
            cluster.log("t", partition).max_batch_bytes = 300
        values = [b"%05d" % number for number in range(3000)]
        await producer.send_values("t", values, partition=0)
        calls = len(cluster.calls(ApiKey.PRODUCE))
        assert cluster.values("t", 0) == values
        assert calls < len(cluster.log("t", 0).batches) + 20, "a few rejections, and not one on each level"
        for number in (0, 1):
            written = len(cluster.log("t", number).batches)
            await producer.send_values("t", values, partition=number)
            sent, calls = len(cluster.calls(ApiKey.PRODUCE)) - calls, len(cluster.calls(ApiKey.PRODUCE))
            assert sent == len(cluster.log("t", number).batches) - written, "none is rejected, in neither partition"
        await producer.send_values("other", values)
        assert len(cluster.log("other").batches) <= 2, "other topics have limits of their own"


def test_a_limit_is_what_was_taken_or_half_of_what_was_rejected_and_is_forgotten() -> None:
    limits = BatchLimits()
    limits.taken("t", 700)
    assert limits.limit("t") is None
    limits.rejected("t", 1000, 0)
    assert limits.limit("t") == 500
    for size in (600, 550, 1000):
        limits.taken("t", size)
    assert (limits.limit("t"), limits.limit("other")) == (600, None)
    limits.rejected("t", 2000, 1)
    assert limits.limit("t") == 600
    limits.rejected("t", 400, 2)
    assert limits.limit("t") == 200, "the topic's config was lowered"
    limits.forget(300_001)
    assert limits.limit("t") == 200
    limits.forget(300_002)
    assert limits.limit("t") is None


class Account:
    def delivered(self, batch: ProducerBatch, first: int, end: int) -> None:
        raise AssertionError

    def failed(self, batch: ProducerBatch, first: int, end: int, error: KafkaError) -> None:
        raise AssertionError


@given(sizes=st.lists(st.integers(0, 300), min_size=2, max_size=20), limit=st.integers(0, 2000), data=st.data())
def test_parts_have_the_records_sizes_sequences_and_callbacks_of_the_whole(
    sizes: list[int], limit: int, data: st.DataObject
) -> None:
    records = [Record(-1, 0, None, bytes(size)) for size in sizes]
    starts = sorted({0, *data.draw(st.sets(st.integers(0, len(sizes) - 1)))})
    whole = ProducerBatch(TopicPartition("t", 0), (7,), 0)
    owners = {start: Account() for start in starts}
    whole.callbacks = list(owners.items())
    futures: dict[int, Future[RecordMetadata]] = {
        number: Future() for number in sorted(data.draw(st.sets(st.integers(0, len(sizes) - 1))))
    }
    whole.awaited.indexes, whole.awaited.timestamps_ms = list(futures), [number + 1000 for number in futures]
    whole.awaited.futures = list(futures.values())  # type: ignore[arg-type]
    whole.size_bytes = sum(size_upper_bound(None, record.value) for record in records)
    whole.base_sequence = 0x7FFFFFFF - len(sizes) // 2
    done: list[int] = []
    whole.on_done = [lambda: done.append(1)]
    whole.encoded = encode_batch(records)
    parts = split(whole, options_of(), limit)
    assert [record.value for part in parts for record in decode_batch(part.encoded or b"")] == [
        record.value for record in records
    ]
    assert len(parts) > 1 and all(part.count > 0 for part in parts)
    assert sum(part.size_bytes for part in parts) == whole.size_bytes
    assert [whole.number, *(part.number for part in parts), (8,)] == sorted(
        {whole.number, (8,), *(p.number for p in parts)}
    )
    for part, following in pairwise(parts):
        assert following.base_sequence == (part.base_sequence + part.count) % (1 << 31)
    assert [owner for part in parts for owner in owners_of(part)] == owners_of_whole(whole, len(records))
    first = 0
    for part in parts:
        assert done == []
        part.on_done[0]()
        part.base_offset = 50 + first
        part.awaited.delivered(part)
        first += part.count
    assert done == [1]
    for number, future in futures.items():
        assert future.result(timeout=0) == RecordMetadata("t", 0, 50 + number, 1000 + number)


def owners_of(batch: ProducerBatch) -> list[object]:
    return owners_of_whole(batch, batch.count)


def owners_of_whole(batch: ProducerBatch, count: int) -> list[object]:
    """The callback of each record."""
    starts = dict(batch.callbacks)
    found: list[object] = []
    for number in range(count):
        found.append(starts.get(number, found[-1] if found else None))
    return found
