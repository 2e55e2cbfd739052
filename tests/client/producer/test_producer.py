"""The producer against a broker that fails in every way on the way."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import chain, pairwise
from types import FrameType
from typing import Any

import pytest
from odradek.client import (
    BatchDescription,
    BulkMetadata,
    KafkaError,
    Producer,
    ProducerListener,
    RecordMetadata,
    TopicPartition,
)
from odradek.client.core.randomness import drawn_from
from odradek.client.errors import (
    BufferFull,
    ClientStopped,
    InvalidOption,
    NoBrokerReachable,
    RecordTooLarge,
    UnknownTopic,
)
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.init_producer_id import InitProducerIdResponse
from odradek.protocol.records.batch import TimestampType, encode_batch, read_header
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.errors import RecordError
from odradek.protocol.records.record import Record
from odradek.tests.support.fakes.fake_cluster import FakeCluster, refuse_produce
from odradek.tests.support.fakes.wire import Call, answer, do_and_drop, drop, keep_silent
from odradek.tests.support.waiting import until

T0 = TopicPartition("t", 0)


def producer_for(cluster: FakeCluster, **options: Any) -> Producer:
    quick = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "linger_ms": 0, "max_block_ms": 5_000}
    return Producer(cluster.address, **quick | options)


@pytest.fixture
async def producer(cluster: FakeCluster) -> AsyncIterator[Producer]:
    async with producer_for(cluster) as started:
        yield started


async def test_a_record_is_written_and_told_where(cluster: FakeCluster, producer: Producer) -> None:
    await producer.send_and_wait("t", b"before")
    sent = await producer.send("t", b"value", b"key", timestamp_ms=1234, headers=[("h", b"x"), ("n", None)])
    assert await sent == RecordMetadata("t", 0, 1, 1234)
    await producer.send_and_wait("t", b"value", b"key", timestamp_ms=1234, headers={"h": b"x", "n": None})
    for offset, record in enumerate(cluster.log("t").records()[1:], 1):
        assert record == (offset, 1234, b"key", b"value", (("h", b"x"), ("n", None)))


async def test_many_are_written_in_order_by_key_and_told_where() -> None:
    async with FakeCluster({"t": 3}) as cluster, producer_for(cluster, batch_size=500) as producer:
        done = await producer.send_many("t", ((b"%d" % (n % 7), b"%d" % n) for n in range(3000)))
        assert done.records == 3000
        for partition in range(3):
            numbers = [int(record.value or b"") for record in cluster.log("t", partition).records()]
            keys = {number % 7 for number in numbers}
            assert numbers == [n for n in range(3000) if n % 7 in keys]
            if numbers:
                assert done.offsets[TopicPartition("t", partition)] == (0, len(numbers) - 1)


async def test_many_without_a_key_fill_batches_of_one_partition_after_another() -> None:
    async with FakeCluster({"t": 4}) as cluster, producer_for(cluster, batch_size=1000) as producer:
        await producer.send_many("t", ((None, b"x" * 64) for _ in range(400)))
        batches = [batch for log in cluster.topics["t"] for batch in log.batches]
        assert sum(len(log.batches) > 1 for log in cluster.topics["t"]) > 1
        assert len(batches) < 100


async def test_nothing_to_send_is_done_at_once(producer: Producer) -> None:
    assert await producer.send_many("t", []) == BulkMetadata(0, {})
    await producer.flush()


async def test_a_partition_can_be_named() -> None:
    async with FakeCluster({"t": 3}) as cluster, producer_for(cluster) as producer:
        await producer.send_and_wait("t", b"one", b"key", partition=2)
        await producer.send_many("t", [(b"key", b"two"), (None, b"three")], partition=2)
        assert cluster.values("t", 2) == [b"one", b"two", b"three"]
        with pytest.raises(UnknownTopic, match="partitions 0 to 2, not 3"):
            await producer.send("t", b"x", partition=3)


async def test_lingering_puts_neighbours_into_one_batch_and_flush_ends_it() -> None:
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster, linger_ms=60_000) as producer:
        sent = [await producer.send("t", b"%d" % n) for n in range(10)]
        await producer.flush()
        assert all(each.done() for each in sent)
        assert len(cluster.log("t").batches) == 1


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_batches_are_compressed(codec: str) -> None:
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster, compression_type=codec) as producer:
        await producer.send_many("t", ((None, b"same old same old" * 10) for _ in range(100)))
        [batch] = cluster.log("t").batches
        assert read_header(batch).compression.name == codec.upper()
        assert len(batch) < 2000
        assert len(cluster.values("t")) == 100


# -- what passes ------------------------------------------------------------------------------------


async def test_records_wait_for_a_broker_that_comes_back(cluster: FakeCluster, producer: Producer) -> None:
    await producer.send_and_wait("t", b"before")
    await cluster.nodes[1].stop()
    sent = await producer.send("t", b"after")
    await cluster.nodes[1].start()
    await sent
    assert cluster.values("t") == [b"before", b"after"]


# -- what cannot be mended ---------------------------------------------------------------------------


async def test_a_refused_batch_fails_its_records_with_the_brokers_reason_and_the_next_go_on() -> None:
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster) as producer:
        await producer.send_and_wait("t", b"before")
        cluster.on(ApiKey.PRODUCE, refuse_produce(ErrorCode.MESSAGE_TOO_LARGE))
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE: t-0"):
            await producer.send_and_wait("t", b"refused")
        await producer.send_and_wait("t", b"after")
        assert cluster.values("t") == [b"before", b"after"]
        assert [read_header(batch).base_sequence for batch in cluster.log("t").batches] == [0, 0]


async def test_batches_in_flight_behind_a_refused_one_are_written_all_the_same() -> None:
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster, batch_size=1) as producer:
        await producer.send_and_wait("t", b"before")
        cluster.on(ApiKey.PRODUCE, refuse_produce(ErrorCode.INVALID_RECORD))
        sent = [await producer.send("t", b"%d" % n) for n in range(5)]
        results = await asyncio.gather(*sent, return_exceptions=True)
        assert isinstance(results[0], KafkaError)
        assert results[0].code is ErrorCode.INVALID_RECORD
        assert [type(result) for result in results[1:]] == [RecordMetadata] * 4
        assert cluster.values("t") == [b"before", b"1", b"2", b"3", b"4"]


class _First(random.Random):
    """Draws the first of several."""

    def choice(self, seq: Any) -> Any:
        return seq[0]


async def test_an_answer_is_understood_although_the_topic_has_left_the_metadata_meanwhile(cluster: FakeCluster) -> None:
    """A broker that lags behind may not know the topic yet. With acks=1 a second attempt would be a second record."""
    # Metadata is asked for on the first connection, that of the start, and not behind the Produce that waits.
    drawn_from(_First())
    options: dict[str, Any] = {"acks": 1, "enable_idempotence": False, "metadata_max_age_ms": 5}
    async with producer_for(cluster, **options) as producer:
        await producer.send_and_wait("t", b"before")
        logs = cluster.topics["t"]

        async def answer_late(call: Call) -> Any:
            done = await call.default()
            del cluster.topics["t"]
            asked = len(cluster.calls(ApiKey.METADATA))
            await until(lambda: len(cluster.calls(ApiKey.METADATA)) >= asked + 2)
            cluster.topics["t"] = logs
            return done

        cluster.on(ApiKey.PRODUCE, answer_late)
        await producer.send_and_wait("t", b"once")
    assert cluster.values("t") == [b"before", b"once"]


async def test_a_broker_that_forgot_us_gets_the_records_under_a_new_identity() -> None:
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster) as producer:
        await producer.send_and_wait("t", b"x")
        cluster.on(ApiKey.PRODUCE, refuse_produce(ErrorCode.UNKNOWN_PRODUCER_ID))
        await producer.send_and_wait("t", b"y")
        assert cluster.values("t") == [b"x", b"y"]
        assert len({read_header(batch).producer_id for batch in cluster.log("t").batches}) == 2


async def test_send_many_tells_how_many_were_not_delivered() -> None:
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster, batch_size=1) as producer:
        cluster.on(ApiKey.PRODUCE, refuse_produce(ErrorCode.INVALID_RECORD))
        with pytest.raises(KafkaError, match="INVALID_RECORD") as caught:
            await producer.send_many("t", ((None, b"%d" % n) for n in range(5)))
        assert caught.value.__notes__ == ["1 of 5 records were not delivered: 1 not written"]


async def test_no_producer_id_fails_the_records_where_it_will_not_pass() -> None:
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster) as producer:
        loading = InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        refused = InitProducerIdResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        cluster.on(ApiKey.INIT_PRODUCER_ID, answer(loading), answer(refused))
        with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
            await producer.send_and_wait("t", b"x")


# -- without idempotence -----------------------------------------------------------------------------


async def test_acks_0_asks_for_no_answer(cluster: FakeCluster) -> None:
    async with producer_for(cluster, acks=0, enable_idempotence=False) as producer:
        assert (await producer.send_and_wait("t", b"x", timestamp_ms=5)) == RecordMetadata("t", 0, -1, 5)
        done = await producer.send_many("t", ((None, b"%d" % n) for n in range(100)))
        assert done.records == 100
        # The next answer on the same connection says that the ones before it were read.
        await producer.partitions_for("t")
    while cluster.log("t").end < 101:
        await cluster.log("t").grown.wait()
    assert cluster.calls(ApiKey.INIT_PRODUCER_ID) == []


async def test_acks_1_needs_no_producer_id(cluster: FakeCluster) -> None:
    async with producer_for(cluster, acks=1, enable_idempotence=False) as producer:
        cluster.on(ApiKey.PRODUCE, drop)
        await producer.send_and_wait("t", b"x")
    assert cluster.values("t") == [b"x"]
    assert read_header(cluster.log("t").batches[0]).producer_id == -1


# -- bounds and rejections -----------------------------------------------------------------------------


async def test_no_more_than_buffer_memory_waits(cluster: FakeCluster) -> None:
    async with producer_for(cluster, buffer_memory=20_000, batch_size=1000, max_block_ms=2_000) as producer:
        await producer.partitions_for("t")
        sent: list[asyncio.Future[RecordMetadata]] = []
        with pytest.raises(BufferFull):
            while True:
                sent.append(producer.send_nowait("t", b"x" * 1000))
        assert len(sent) == 19
        sent.append(await producer.send("t", b"room again"))
        done = await producer.send_many("t", ((None, b"x" * 1000) for _ in range(200)))
        assert done.records == 200
        assert len(await asyncio.gather(*sent)) == 20


async def test_no_room_in_time_is_an_error(cluster: FakeCluster) -> None:
    cluster.on(ApiKey.PRODUCE, keep_silent)
    producer = producer_for(cluster, buffer_memory=2_000, max_block_ms=30)
    async with producer:
        # On a busy machine the metadata take longer.
        first = None
        while first is None:
            with suppress(KafkaError):
                first = await producer.send("t", b"x" * 1500)
        with pytest.raises(BufferFull, match="max_block_ms"):
            await producer.send("t", b"x" * 1500)
        with pytest.raises(BufferFull, match="larger than buffer_memory"):
            await producer.send("t", b"x" * 2500)
        await producer.stop(timeout_ms=0)
    with pytest.raises(ClientStopped):
        await first


async def test_a_record_that_is_too_large_is_refused_before_it_is_sent() -> None:
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster, max_request_size=1000) as producer:
        with pytest.raises(RecordTooLarge, match=r"max_request_size \(1000\)"):
            await producer.send("t", b"x" * 1000)
        with pytest.raises(RecordTooLarge):
            await producer.send_many("t", [(None, b"fits"), (None, b"x" * 1000)])


async def test_text_is_refused_before_it_is_sent(cluster: FakeCluster, producer: Producer) -> None:
    bad: Any = "text"
    for send in (
        producer.send("t", bad),
        producer.send("t", b"", bad),
        producer.send("t", b"", headers=[("h", bad)]),
        producer.send("t", b"", headers=[(b"h", b"")]),  # pyright: ignore[reportArgumentType]
        producer.send_many("t", [(None, bad)]),
        producer.send_many("t", [(bad, None)]),
    ):
        with pytest.raises(TypeError, match="must be"):
            await send
    await producer.send_and_wait("t", bytearray(b"any bytes"))  # pyright: ignore[reportArgumentType]
    assert cluster.values("t") == [b"any bytes"]


@pytest.mark.parametrize("timestamp_ms", [-1, 1 << 63])
async def test_a_time_that_no_record_can_have_is_refused(producer: Producer, timestamp_ms: int) -> None:
    with pytest.raises(KafkaError, match="INVALID_TIMESTAMP"):
        await producer.send("t", b"x", timestamp_ms=timestamp_ms)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"acks": 2}, "acks"),
        ({"acks": 1}, "enable_idempotence"),
        ({"max_in_flight_requests_per_connection": 6}, "enable_idempotence"),
        ({"compression_type": "brotli"}, "compression_type"),
        ({"delivery_timeout_ms": 1}, "delivery_timeout_ms"),
        ({"bootstrap_servers": ""}, "bootstrap_servers"),
    ],
)
def test_options_that_cannot_be_are_refused_by_name(options: dict[str, Any], names: str) -> None:
    with pytest.raises(InvalidOption, match=names):
        Producer(**options)


async def test_the_producer_says_when_it_is_not_running() -> None:
    async with FakeCluster({"t": 1}) as cluster:
        producer = producer_for(cluster)
        with pytest.raises(ClientStopped, match=r"start\(\) first"):
            await producer.send("t", b"x")
        await producer.start()
        await producer.start()
        await producer.stop()
        await producer.stop()
        with pytest.raises(ClientStopped):
            producer.send_nowait("t", b"x")
        address = cluster.address
    with pytest.raises(NoBrokerReachable):
        await Producer(address).start()


async def test_stopping_sends_what_waits(cluster: FakeCluster) -> None:
    async with producer_for(cluster, linger_ms=60_000) as producer:
        sent = await producer.send("t", b"x")
    assert (await sent).offset == 0


async def test_a_sender_that_breaks_fails_everything_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> bytes:
        raise ZeroDivisionError("a bug")

    async with FakeCluster({"t": 1}) as cluster:
        producer = producer_for(cluster)
        await producer.start()
        await producer.partitions_for("t")
        monkeypatch.setattr("odradek.client.producer.batch.encode_batch", broken)
        with pytest.raises(KafkaError, match="a bug"):
            await producer.send_and_wait("t", b"x")
        with pytest.raises(KafkaError, match="a bug"):
            await producer.send("t", b"x")
        await producer.stop()


async def test_a_lone_record_does_not_linger() -> None:
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster, linger_ms=60_000) as producer:
        async with asyncio.timeout(10):
            assert (await producer.send_and_wait("t", b"x")).offset == 0
            assert (await producer.send_and_wait("t", b"y")).offset == 1


async def test_values_are_written_in_order_over_all_partitions_and_told_where() -> None:
    values = [b"%d" % number for number in range(5000)]
    async with FakeCluster({"t": 3}) as cluster, producer_for(cluster, batch_size=2000) as producer:
        done = await producer.send_values("t", values, timestamp_ms=5)
        assert done.records == 5000
        written = [[record.value for record in cluster.log("t", partition).records()] for partition in range(3)]
        assert sorted(chain.from_iterable(written)) == sorted(values)
        assert all(len(part) > 100 and part == sorted(part, key=lambda value: int(value or b"")) for part in written)
        fixed = await producer.send_values("t", [b"x" * 3000, b"y"], partition=1)
        assert fixed.offsets.keys() == {TopicPartition("t", 1)}
        with pytest.raises(RecordTooLarge):
            await producer.send_values("t", [b"x" * 2_000_000])
        with pytest.raises(UnknownTopic):
            await producer.send_values("t", [b"x"], partition=3)


async def test_a_whole_batch_keeps_its_records_and_is_written_once_over_lost_responses() -> None:
    records = [Record(-1, 10 + n, b"k", b"%d" % n, (("h", None),)) for n in range(3)]
    batch = encode_batch(records, base_offset=90, compression=Compression.ZSTD, producer_id=4, producer_epoch=0)
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster) as producer:
        cluster.on(ApiKey.PRODUCE, do_and_drop)
        assert (await (await producer.send_batch(T0, batch))).timestamp_ms == 10
        await producer.send_and_wait("t", b"between")
        assert (await (await producer.send_batch(T0, batch))).offset == 4
        kept = [each._replace(offset=-1) for each in cluster.log("t").records()]
        assert kept[:3] == records == kept[4:] and len(kept) == 7


@pytest.mark.parametrize(
    "batch",
    [
        encode_batch([Record(0, 1, None, b"a"), Record(2, 1, None, b"b")]),
        encode_batch([Record(0, 1, None, b"a")], timestamp_type=TimestampType.LOG_APPEND_TIME),
        encode_batch([Record(0, 1, None, b"a")]) + b"more",
        encode_batch([Record(0, 1, None, b"a")])[:-1] + b"?",
    ],
    ids=["gap", "append time", "more", "crc"],
)
async def test_a_batch_that_no_broker_takes_is_not_queued(batch: bytes) -> None:
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster) as producer:
        with pytest.raises(RecordError):
            await producer.send_batch(T0, batch)
        await producer.flush()
        assert cluster.log("t").records() == []


async def test_the_first_batch_of_a_producer_id_goes_alone_because_a_broker_takes_any_first_sequence() -> None:
    values: list[bytes | None] = [b"%d" % number for number in range(5)]
    async with FakeCluster({"t": 1}) as cluster:
        cluster.on(ApiKey.PRODUCE, refuse_produce(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        async with Producer(cluster.address, batch_size=1, linger_ms=0, retry_backoff_ms=1) as producer:
            await producer.send_many("t", [(None, value) for value in values])
        assert cluster.values("t") == values


async def test_a_record_that_is_sent_takes_few_calls() -> None:
    calls: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_globals["__name__"].startswith("odradek."):
            calls.append(frame.f_code.co_name)

    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster, linger_ms=10_000) as producer:
        await producer.send_and_wait("t", b"first", b"key")
        sys.setprofile(note)
        try:
            for _ in range(10):
                await producer.send("t", b"value", b"key")
        finally:
            sys.setprofile(None)
    assert calls.count("send") == 10
    last = calls[len(calls) - calls[::-1].index("send") - 1 :]  # the first one also starts a batch
    assert len(last) <= 12, last


async def test_a_turn_of_the_loop_encodes_and_sends_one_request() -> None:
    """Compressing what waits for several requests would hold the loop for a quarter of a second."""
    listener, beats = Counting(), list[int]()

    async def beat() -> None:
        while True:
            beats.append(listener.sent_batches)
            await asyncio.sleep(0)

    async with FakeCluster({"t": 20}, nodes=2) as cluster:
        options: dict[str, Any] = {"linger_ms": 60_000, "batch_size": 1_000, "max_request_size": 4_000}
        async with Producer(cluster.address, listeners=[listener], **options) as producer:
            await producer.send_and_wait("t", b"first", partition=0)
            await producer.send_and_wait("t", b"first", partition=1)
            for number in range(20):
                producer.send_nowait("t", bytes(900), partition=number)
            beating = asyncio.create_task(beat())
            await producer.flush()
            beating.cancel()
    assert listener.sent_batches == 22
    assert max(after - before for before, after in pairwise(beats)) == 4


class Counting(ProducerListener):
    """Counts the batches that were sent."""

    sent_batches = 0

    def sent(self, batch: BatchDescription, node_id: int) -> None:
        self.sent_batches += 1
