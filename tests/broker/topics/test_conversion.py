"""Clients before 0.11 on the wire: message sets in and out, beside clients of today on the same partitions."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from odradek.broker import Broker
from odradek.broker.topics.validation import LARGE_BYTES
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records import batch, legacy
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.control import ControlType, Marker, encode_marker
from odradek.protocol.records.record import Record
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.waiting import until

START_MS = 1_400_000_000_000
LEGACY_CODECS = [codec for codec in Compression if codec is not Compression.ZSTD]
# So many bytes that look like nothing: they stay large when they are compressed.
NOISE = random.Random(5).randbytes(LARGE_BYTES)


def set_of(*values: bytes | None, magic: int = 1, codec: Compression = Compression.NONE) -> bytes:
    records = [Record(at, START_MS + at, b"k", value) for at, value in enumerate(values)]
    return legacy.encode_message_set(records, magic, codec)


def request_of(*partitions: bytes, acks: int = -1) -> ProduceRequest:
    """A Produce with these records for the first partitions."""
    parts = [PartitionProduceData(index, records) for index, records in enumerate(partitions)]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData("t", partition_data=parts)])


def found(answer: Any) -> list[tuple[int, int, bytes | None]]:
    """(offset, timestamp, value) of every message of a fetch of version 0 to 3."""
    return [(r.offset, r.timestamp_ms, r.value) for r in legacy.decode_message_set(answer.records)]


async def stored(raw: Raw, topic: str = "t") -> list[batch.BatchHeader]:
    """The headers of the batches that the log holds."""
    return [header for _, header in batch.iter_headers(bytes((await raw.fetch(topic, 0)).records))]


@pytest.fixture(autouse=True)
async def topic(raw: Raw) -> None:
    assert (await raw.create_topic("t", 2)).error_code == 0


class TestProduce:
    @pytest.mark.parametrize("codec", LEGACY_CODECS)
    @pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 0), (2, 1)])
    async def test_a_set_is_stored_as_one_batch(self, raw: Raw, version: int, magic: int, codec: Compression) -> None:
        await raw.produce("t", batch_of(b"before"))
        answer = await raw.produce("t", set_of(b"a", b"b", None, magic=magic, codec=codec), version=version)
        assert (answer.error_code, answer.base_offset) == (0, 1)
        header = (await stored(raw))[1]
        assert (header.base_offset, header.record_count, header.compression) == (1, 3, codec)
        data = bytes((await raw.fetch("t", 1)).records)
        when = [START_MS, START_MS + 1, START_MS + 2] if magic else [-1, -1, -1]
        assert [(r.offset, r.timestamp_ms, r.key, r.value) for r in batch.decode_batch(data)] == [
            (1, when[0], b"k", b"a"),
            (2, when[1], b"k", b"b"),
            (3, when[2], b"k", None),
        ]

    @pytest.mark.parametrize("codec", LEGACY_CODECS)
    async def test_a_large_set_is_converted_in_a_thread_and_keeps_its_order(self, raw: Raw, codec: Compression) -> None:
        for version, records in (
            (2, set_of(NOISE, b"b", codec=codec)),
            (2, set_of(b"c")),
            (9, batch_of(b"d", timestamp_ms=START_MS)),
        ):
            raw.send(ApiKey.PRODUCE, version, request_of(records))
        offsets = [
            (await raw.receive(ApiKey.PRODUCE, version)).responses[0].partition_responses[0].base_offset
            for version in (2, 2, 9)
        ]
        assert offsets == [0, 2, 3]
        assert [value for _, _, value in found(await raw.fetch("t", 0, version=2))] == [NOISE, b"b", b"c", b"d"]

    async def test_without_acks_nothing_is_answered(self, raw: Raw) -> None:
        for records in (set_of(b"a"), set_of(NOISE)):
            raw.send(ApiKey.PRODUCE, 0, request_of(records, acks=0))
        assert (await raw.produce("t", set_of(b"c"), version=1)).base_offset == 2

    async def test_a_topic_can_ask_for_log_append_time(self, raw: Raw) -> None:
        await raw.create_topic("appended", message_timestamp_type="LogAppendTime")
        for magic in (0, 1):
            answer = await raw.produce("appended", set_of(b"a", magic=magic), version=2)
            assert answer.log_append_time_ms > START_MS
            [(_, when, _)] = found(await raw.fetch("appended", answer.base_offset, version=2))
            assert when == answer.log_append_time_ms

    async def test_a_batch_in_an_old_request_is_taken_as_kafka_did(self, raw: Raw) -> None:
        assert (await raw.produce("t", batch_of(b"a"), version=2)).error_code == 0
        zstd = batch_of(b"a", compression=Compression.ZSTD)
        assert (await raw.produce("t", zstd, version=2)).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE

    @pytest.mark.parametrize(
        ("records", "code"),
        [
            (b"", ErrorCode.INVALID_RECORD),
            (set_of(b"a")[:-1], ErrorCode.CORRUPT_MESSAGE),
            (set_of(b"a")[:-1] + b"b", ErrorCode.CORRUPT_MESSAGE),
            (set_of(b"a") + b"tail", ErrorCode.CORRUPT_MESSAGE),
            (set_of(NOISE)[:-1], ErrorCode.CORRUPT_MESSAGE),
            (b"\0" * 40, ErrorCode.CORRUPT_MESSAGE),
            (set_of(b"x" * 2_000_000), ErrorCode.MESSAGE_TOO_LARGE),
            (legacy.encode_message_set([Record(0, 2**50, None, b"later")], 1), ErrorCode.INVALID_TIMESTAMP),
            (None, ErrorCode.INVALID_RECORD),
        ],
    )
    async def test_a_rejected_set_leaves_nothing(self, raw: Raw, records: bytes | None, code: ErrorCode) -> None:
        answer = await raw.produce("t", records, version=2)
        assert (ErrorCode(answer.error_code), answer.base_offset) == (code, -1)
        assert await stored(raw) == []

    async def test_one_partitions_large_rejection_is_not_anothers(self, raw: Raw) -> None:
        request = request_of(set_of(NOISE)[:-1], set_of(NOISE))
        [topic] = (await raw.ask(ApiKey.PRODUCE, 2, request)).responses
        assert [(each.index, each.error_code) for each in topic.partition_responses] == [
            (0, ErrorCode.CORRUPT_MESSAGE),
            (1, 0),
        ]

    async def test_while_a_thread_works_others_are_answered(self, broker: Broker, raw: Raw) -> None:
        gate = asyncio.Event()

        async def held(work: Any) -> Any:
            await gate.wait()
            return work()

        broker.services.conversions.run = held  # type: ignore[method-assign]
        large = asyncio.ensure_future(raw.produce("t", set_of(NOISE), version=2))
        async with await Raw.connect(broker.address) as other:
            assert (await other.produce("t", batch_of(b"quick"))).base_offset == 0
            gate.set()
            assert (await large).base_offset == 1


class TestFetch:
    @pytest.mark.parametrize("version", [0, 1, 2, 3])
    @pytest.mark.parametrize("codec", list(Compression))
    async def test_batches_come_as_messages_of_the_versions_magic(
        self, raw: Raw, version: int, codec: Compression
    ) -> None:
        await raw.produce("t", batch_of(b"a", b"b", compression=codec, timestamp_ms=START_MS))
        answer = await raw.fetch("t", 0, version=version)
        magic = 0 if version < 2 else 1
        assert {message.magic for message in legacy.iter_messages(answer.records)} == {magic}
        when = (START_MS, START_MS + 1) if magic else (-1, -1)
        assert found(answer) == [(0, when[0], b"a"), (1, when[1], b"b")]
        assert answer.high_watermark == 2

    async def test_reading_on_with_a_small_limit_sees_all(self, raw: Raw) -> None:
        for codec in (Compression.NONE, Compression.GZIP, Compression.NONE):
            await raw.produce("t", batch_of(*(b"%d" % each * 40 for each in range(20)), compression=codec))
        offset, seen = 0, []
        while offset < 60:
            answer = await raw.fetch("t", offset, version=2, partition_max_bytes=300)
            seen += [at for at, _, _ in found(answer) if at >= offset]
            offset = seen[-1] + 1
        assert seen == list(range(60))

    async def test_the_limit_over_all_partitions(self, raw: Raw) -> None:
        for partition in (0, 1):
            await raw.produce("t", batch_of(*[b""] * 200), partition=partition)
        asked = [FetchPartition(at, fetch_offset=0, partition_max_bytes=1 << 20) for at in (0, 1)]
        request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=3000, topics=[FetchTopic("t", partitions=asked)])
        [topic] = (await raw.ask(ApiKey.FETCH, 3, request)).responses
        sizes = [len(each.records) for each in topic.partitions]
        assert 0 < sizes[0] <= 3000 >= sum(sizes) - 40

    async def test_before_version_3_each_partition_has_its_first_message(self, raw: Raw) -> None:
        for partition in (0, 1):
            await raw.produce("t", batch_of(b"x" * 5000), partition=partition)
        asked = [FetchPartition(at, fetch_offset=0, partition_max_bytes=100) for at in (0, 1)]
        request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic("t", partitions=asked)])
        [topic] = (await raw.ask(ApiKey.FETCH, 2, request)).responses
        assert [len(found(each)) for each in topic.partitions] == [1, 1]

    async def test_a_stretch_of_markers_does_not_hold_the_reader(self, broker: Broker, raw: Raw) -> None:
        there = broker.topics.get("t")
        assert there is not None
        for _ in range(50):
            marker = encode_marker(Marker(ControlType.ABORT, 0), producer_id=7, producer_epoch=0, timestamp_ms=1)
            there.partitions[0].append_internal(bytearray(marker))
        await raw.produce("t", batch_of(b"a"))
        answer = await raw.fetch("t", 0, version=1, partition_max_bytes=100)
        assert found(answer) == [(50, -1, b"a")]
        assert found(await raw.fetch("t", 51, version=1)) == []

    async def test_it_waits_for_data_as_any_fetch(self, broker: Broker, raw: Raw) -> None:
        waiting = asyncio.ensure_future(raw.fetch("t", 0, version=2, max_wait_ms=20_000))
        async with await Raw.connect(broker.address) as other:
            await until(lambda: len(broker.services.purgatory))
            await other.produce("t", set_of(b"a"), version=1)
        assert found(await waiting) == [(0, START_MS, b"a")]

    async def test_errors_are_those_of_any_fetch(self, raw: Raw) -> None:
        assert (await raw.fetch("t", 9, version=0)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (await raw.fetch("nowhere", 0, version=0)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async def test_an_unreadable_body_is_an_error_if_its_batch_comes_first(self, raw: Raw) -> None:
        good, bad = batch_of(b"a"), bytearray(batch_of(b"b"))
        bad[66] ^= 0x20  # the length of the value
        bad[17:21] = batch.crc32c(bytes(bad[21:])).to_bytes(4, "big")
        for records in (good, bytes(bad)):
            assert (await raw.produce("t", records)).error_code == 0
        assert [value for _, _, value in found(await raw.fetch("t", 0, version=1))] == [b"a"]
        assert (await raw.fetch("t", 1, version=1)).error_code == ErrorCode.INVALID_RECORD
