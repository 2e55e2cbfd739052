"""Serializers, partitioners, listeners and interceptors: what users give a producer, and what it does with them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import msgpack
import pytest
from odradek.client import (
    Producer,
    ProducerInterceptor,
    ProducerListener,
    ProducerRecord,
    RecordMetadata,
    TopicPartition,
)
from odradek.client.core.cluster import Cluster
from odradek.client.core.metadata import NO_LEADER
from odradek.client.core.serialization import SchemaMissing
from odradek.client.errors import (
    InvalidOption,
    KafkaError,
    RecordTooLarge,
    SchemaRegistryUnavailable,
    SerializationFailed,
    UnknownTopic,
)
from odradek.client.producer.partitioner import java_hash, murmur2
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.tests.client.producer.test_producer import producer_for
from odradek.tests.support.fakes.fake_cluster import FakeCluster, refuse_produce
from odradek.tests.support.fakes.wire import drop

# -- Serializers


class Shouting:
    def encode(self, content: str, /) -> bytes:
        return content.upper().encode()


SERIALIZERS: list[tuple[Any, Any, bytes | None]] = [
    (None, b"x", b"x"),
    ("bytes", bytearray(b"x"), b"x"),
    ("str", "größe", "größe".encode()),
    ("json", {"a": [1, "ö"]}, '{"a":[1,"ö"]}'.encode()),
    ("msgpack", {"a": 1}, msgpack.packb({"a": 1})),
    (lambda content: b"%d" % content, 7, b"7"),
    (Shouting(), "loud", b"LOUD"),
    ("json", None, None),
]


@pytest.mark.parametrize(("option", "given", "written"), SERIALIZERS)
async def test_keys_and_values_are_serialized(option: Any, given: Any, written: bytes | None) -> None:
    async with FakeCluster({"t": 1}) as cluster:
        async with producer_for(cluster, value_serializer=option) as producer:
            await producer.send_and_wait("t", given, b"key")
            await producer.send_many("t", [(b"key", given)])
        async with producer_for(cluster, key_serializer=option) as producer:
            await producer.send_and_wait("t", b"value", given)
        records = cluster.log("t").records()
        assert [(record.key, record.value) for record in records] == [(b"key", written)] * 2 + [(written, b"value")]


class Registered:
    """A serializer whose registry answers when the test says so."""

    is_known = False

    def encode(self, content: bytes, /) -> bytes:
        if not self.is_known:
            raise SchemaMissing(self.ask)
        return content

    def ask(self) -> Future[None]:
        self.asked: Future[None] = Future()
        return self.asked

    def answer(self) -> None:
        self.is_known = True
        self.asked.set_result(None)


async def test_a_schema_is_waited_for_no_longer_than_max_block_ms() -> None:
    async with FakeCluster({"t": 1}) as cluster:
        async with producer_for(cluster, value_serializer=Registered(), max_block_ms=10) as producer:
            for send in (producer.send("t", b"x"), producer.send_many("t", [(None, b"x")])):
                with pytest.raises(SchemaRegistryUnavailable, match="max_block_ms"):
                    await send
        assert not cluster.log("t").batches


async def test_what_the_wait_for_a_schema_leaves_of_max_block_ms_is_for_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[float | None] = []
    real = Cluster.topic

    async def topic(cluster: Cluster, name: str, *, timeout_ms: float | None = None, create: bool = False) -> Any:
        limits.append(timeout_ms)
        return await real(cluster, name, timeout_ms=timeout_ms, create=create)

    monkeypatch.setattr(Cluster, "topic", topic)
    serializer = Registered()
    async with FakeCluster({"t": 1}) as cluster:
        async with producer_for(cluster, value_serializer=serializer, max_block_ms=60_000) as producer:
            asyncio.get_running_loop().call_later(0.005, serializer.answer)
            await producer.send("t", b"x")
    (limit_ms,) = limits
    assert limit_ms is not None and limit_ms < 59_999


async def test_a_topic_that_is_not_there_is_told_in_whole_milliseconds() -> None:
    async with FakeCluster() as cluster, producer_for(cluster, max_block_ms=20) as producer:
        with pytest.raises(UnknownTopic, match=r"'nowhere' was not there within \d+ ms"):
            await producer.send("nowhere", b"x")


BAD: list[tuple[Any, Any]] = [("json", {1, 2}), ("str", 7), (lambda _: "text", 1), ("json", float("nan"))]


@pytest.mark.parametrize(("option", "given"), BAD)
async def test_what_cannot_be_serialized_is_rejected_before_it_is_queued(option: Any, given: Any) -> None:
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster, value_serializer=option) as producer:
        with pytest.raises(SerializationFailed, match="cannot turn this value"):
            await producer.send("t", given)
        with pytest.raises(SerializationFailed):
            await producer.send_many("t", [(None, given)])
        await producer.flush()
        assert cluster.values("t") == []


@pytest.mark.parametrize("options", [{"value_serializer": "avro"}, {"key_serializer": 7}, {"partitioner": "best"}])
def test_unknown_names_are_rejected(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match=next(iter(options))):
        Producer(**options)


# -- Partitioners


async def places(partitioner: Any, keys: Sequence[Any], *, partitions: int = 4, **options: Any) -> list[int]:
    """The partition of a record with each key, first by `send`, and the same by `send_many`."""
    async with FakeCluster({"t": partitions}) as cluster:
        cluster.log("t", 0).leader = NO_LEADER
        found: list[int] = []
        async with producer_for(cluster, partitioner=partitioner, **options) as producer:
            for key in keys:
                found.append((await producer.send_and_wait("t", b"x", key)).partition)
        async with producer_for(cluster, partitioner=partitioner, **options) as producer:
            await producer.send_many("t", [(key, b"many") for key in keys])
        for partition in range(partitions):
            if partitioner not in ("random", "sticky"):
                assert cluster.values("t", partition).count(b"many") == found.count(partition)
        return found


async def test_round_robin_goes_over_the_partitions_that_have_a_leader() -> None:
    assert await places("round_robin", [b"same"] * 7) == [1, 2, 3, 1, 2, 3, 1]


async def test_random_and_sticky_take_partitions_that_have_a_leader() -> None:
    assert set(await places("random", [b"same"] * 60)) == {1, 2, 3}
    assert len(set(await places("sticky", [b"%d" % n for n in range(20)]))) == 1


async def test_hash_is_javas_modulo_the_partitions() -> None:
    keys = [1, 2, 3, 7]
    assert await places("hash", keys, key_serializer=lambda key: b"%d" % key) == [1, 2, 3, 3]


# What Java's hashCode returns.
HASHES: dict[object, int] = {
    "": 0,
    "kafka": 101807910,
    "größe": 98762257,
    "\U0001f600": 1772899,
    -1: 0xFFFFFFFF,
    1 << 32: 1,
    -5_000_000_000: 705032702,
    b"": 1,
    b"\x01\xff": 991,
}


@pytest.mark.parametrize(("key", "expected"), HASHES.items())
def test_hashes_are_javas(key: object, expected: int) -> None:
    assert java_hash(key) == expected


async def test_hash_takes_no_other_keys() -> None:
    with pytest.raises(TypeError, match="int, str or bytes"):
        await places("hash", [1.5], key_serializer="json")


async def test_a_partitioner_of_ones_own_sees_the_key_and_the_partitions() -> None:
    seen: list[tuple[object, list[int], list[int]]] = []

    def own(key: object, partitions: Sequence[int], available: Sequence[int]) -> int:
        seen.append((key, list(partitions), list(available)))
        return available[-1]

    assert await places(own, ["k"], key_serializer="str") == [3]
    assert seen == [("k", [0, 1, 2, 3], [1, 2, 3])] * 2
    with pytest.raises(UnknownTopic, match="partitions 0 to 3, not 9"):
        await places(lambda *_: 9, [b"k"])


async def test_the_default_is_murmur2() -> None:
    async with FakeCluster({"t": 5}) as cluster, producer_for(cluster) as producer:
        assert (await producer.send_and_wait("t", b"x", b"key")).partition == (murmur2(b"key") & 0x7FFFFFFF) % 5


# -- Listeners


class Diary(ProducerListener):
    """Notes every stage."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    def enqueued(self, partition: TopicPartition, key: bytes | None, value: bytes | None) -> None:
        self.stages.append(f"enqueued {value!r}")

    def batched(self, batch: Any) -> None:
        self.stages.append(f"batched {batch.records}")

    def sent(self, batch: Any, node_id: int) -> None:
        self.stages.append(f"sent to {node_id}, attempt {batch.attempts}")

    def acknowledged(self, batch: Any, base_offset: int) -> None:
        self.stages.append(f"acknowledged at {base_offset}")

    def failed(self, batch: Any, error: Any) -> None:
        self.stages.append(f"failed: {error.code.name}, {error.outcome.value}")


async def test_a_listener_is_told_of_each_stage() -> None:
    diary = Diary()
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster, listeners=[diary]) as producer:
        cluster.on(ApiKey.PRODUCE, drop)
        await producer.send_and_wait("t", b"a")
        assert diary.stages == [
            "enqueued b'a'",
            "batched 1",
            "sent to 1, attempt 1",
            "sent to 1, attempt 2",
            "acknowledged at 0",
        ]
        diary.stages.clear()
        cluster.on(ApiKey.PRODUCE, refuse_produce(ErrorCode.INVALID_RECORD))
        with pytest.raises(KafkaError):
            await producer.send_many("t", [(None, b"b"), (None, b"c")])
        assert diary.stages[:2] == ["enqueued b'b'", "enqueued b'c'"]
        assert diary.stages[-1] == "failed: INVALID_RECORD, not written"


# -- Interceptors


class Stamp(ProducerInterceptor):
    """Adds a header, and notes what became of each record."""

    def __init__(self) -> None:
        self.outcomes: list[object] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(headers=(*record.headers, ("seen", b"yes")), topic="other")

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        self.outcomes.append(metadata.offset if metadata is not None else error)


async def test_interceptors_change_records_and_learn_their_outcome() -> None:
    stamp = Stamp()
    async with FakeCluster({"t": 1, "other": 1}) as cluster:
        async with producer_for(cluster, interceptors=[stamp], value_serializer="str") as producer:
            await producer.send_and_wait("t", "one")
            done = await producer.send_many("t", [(None, "two"), (None, "three")])
            assert done.records == 2
            cluster.on(ApiKey.PRODUCE, refuse_produce(ErrorCode.INVALID_RECORD))
            with pytest.raises(KafkaError):
                await producer.send_and_wait("t", "bad")
            with pytest.raises(RecordTooLarge):
                await producer.send("t", "x" * 2_000_000)
        assert cluster.values("t") == []
        assert [record.headers for record in cluster.log("other").records()] == [(("seen", b"yes"),)] * 3
        assert stamp.outcomes[:3] == [0, 1, 2]
        assert [type(each).__name__ for each in stamp.outcomes[3:]] == ["DeliveryFailed", "RecordTooLarge"]


class Broken(ProducerInterceptor, ProducerListener):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise ZeroDivisionError

    def sent(self, batch: Any, node_id: int) -> None:
        raise ZeroDivisionError


async def test_a_hook_that_raises_is_logged_and_the_record_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    broken = Broken()
    async with FakeCluster({"t": 1}) as cluster:
        async with producer_for(cluster, interceptors=[broken], listeners=[broken]) as producer:
            with caplog.at_level(logging.ERROR):
                await producer.send_and_wait("t", b"x")
        assert cluster.values("t") == [b"x"]
        assert [line.levelname for line in caplog.records] == ["ERROR", "ERROR"]
        assert "the record goes on" in caplog.text
