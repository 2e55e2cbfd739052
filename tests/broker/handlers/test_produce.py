"""Produce: what is accepted, what is refused and how, acks, idempotence."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from itertools import product
from struct import pack_into
from typing import Any

import pytest
from odradek.broker import Broker
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records import batch
from odradek.protocol.records.compression import Compression, compress
from odradek.protocol.records.crc import crc32c
from odradek.protocol.records.record import Record
from odradek.tests.support.clients.raw import Raw, batch_of


@pytest.fixture(autouse=True)
async def topic(raw: Raw) -> None:
    assert (await raw.create_topic("t", 2, max_message_bytes="10000")).error_code == 0


async def test_batches_get_offsets_one_after_the_other(raw: Raw) -> None:
    assert (await raw.produce("t", batch_of(b"a", b"b"))).base_offset == 0
    assert (await raw.produce("t", batch_of(b"c"))).base_offset == 2
    assert (await raw.produce("t", batch_of(b"d"), partition=1)).base_offset == 0


@pytest.mark.parametrize("version", [3, 7, 9, 12])
async def test_what_is_produced_is_fetched(raw: Raw, version: int) -> None:
    await raw.produce("t", batch_of(b"hello", b"world"), version=version)
    answer = await raw.fetch("t", 0)
    assert [record.value for record in batch.decode_batch(bytes(answer.records))] == [b"hello", b"world"]


@pytest.mark.parametrize("codec", list(Compression))
async def test_compressed_batches_stay_as_they_are(raw: Raw, codec: Compression) -> None:
    sent = batch_of(b"x" * 1000, b"y" * 1000, compression=codec)
    assert (await raw.produce("t", sent)).error_code == 0
    got = bytes((await raw.fetch("t", 0)).records)
    assert got[16:] == sent[16:]


async def test_by_topic_id_and_by_an_unknown_id(broker: Broker, raw: Raw) -> None:
    topic = broker.topics.get("t")
    assert topic is not None
    for topic_id, code in ((topic.id, 0), (b"\x07" * 16, ErrorCode.UNKNOWN_TOPIC_ID)):
        data = TopicProduceData(topic_id=topic_id, partition_data=[PartitionProduceData(0, batch_of(b"v"))])
        response = await raw.ask(ApiKey.PRODUCE, 13, ProduceRequest(acks=1, topic_data=[data]))
        assert response.responses[0].topic_id == topic_id
        assert response.responses[0].partition_responses[0].error_code == code


def corrupted(position: int) -> bytes:
    data = bytearray(batch_of(b"some value", b"another"))
    data[position] ^= 0x40
    return bytes(data)


def counting(count: int, *values: bytes, compression: Compression = Compression.NONE) -> bytes:
    """A batch of these values whose header counts others, with a correct CRC."""
    data = bytearray(batch_of(*values, compression=compression))
    pack_into(">i", data, 23, count - 1)
    pack_into(">i", data, 57, count)
    pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return bytes(data)


def with_field(layout: str, position: int, value: int) -> bytes:
    """A batch with one header field changed and the CRC made right again."""
    data = bytearray(batch_of(b"one", b"two"))
    pack_into(layout, data, position, value)
    pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return bytes(data)


BAD_BATCHES = [
    (None, ErrorCode.INVALID_RECORD),
    (b"", ErrorCode.INVALID_RECORD),
    (b"\0" * 60, ErrorCode.INVALID_RECORD),
    (batch_of(b"a") + batch_of(b"b"), ErrorCode.INVALID_RECORD),
    (batch_of(b"a")[:-1], ErrorCode.INVALID_RECORD),
    (batch_of(b"a") + b"tail", ErrorCode.INVALID_RECORD),
    (corrupted(70), ErrorCode.CORRUPT_MESSAGE),
    (corrupted(18), ErrorCode.CORRUPT_MESSAGE),
    (corrupted(30), ErrorCode.CORRUPT_MESSAGE),
    (with_field(">b", 16, 1), ErrorCode.INVALID_RECORD),
    (with_field(">b", 16, 9), ErrorCode.CORRUPT_MESSAGE),
    (with_field(">i", 57, 7), ErrorCode.INVALID_RECORD),
    (with_field(">i", 57, -1), ErrorCode.INVALID_RECORD),
    (with_field(">i", 23, 40), ErrorCode.INVALID_RECORD),
    (counting(2, b"x"), ErrorCode.INVALID_RECORD),
    (counting(1, b"x", b"y"), ErrorCode.INVALID_RECORD),
    (counting(2_000_000_000, b"x"), ErrorCode.INVALID_RECORD),
    *((counting(2**31 - 1, b"x", compression=each), ErrorCode.INVALID_RECORD) for each in Compression),
    (with_field(">h", 21, 1 << 5), ErrorCode.INVALID_RECORD),
    (with_field(">h", 21, 6), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    (with_field(">h", 21, 1 << 4), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    (batch_of(b"z" * 20_000), ErrorCode.MESSAGE_TOO_LARGE),
    (b"\0" * 7 + b"\1" + batch_of(b"z" * 20_000)[8:], ErrorCode.INVALID_RECORD),
]


async def test_a_bad_batch_is_refused_with_its_error_and_writes_nothing(raw: Raw) -> None:
    for number, (records, code) in enumerate(BAD_BATCHES):
        answer = await raw.produce("t", records)
        assert (number, answer.error_code, answer.base_offset) == (number, code, -1)
        assert answer.error_message
        assert (await raw.produce("t", batch_of(b"fine"))).base_offset == number


async def test_a_compressed_batch_may_have_more_records_than_bytes(raw: Raw) -> None:
    alike, header = batch_of(b"x")[batch.HEADER_SIZE :], batch.read_header(counting(5_000, b"x"))
    sent = batch.with_body(header, compress(Compression.GZIP, alike * 5_000), Compression.GZIP)
    assert len(sent) < 5_000
    assert (await raw.produce("t", bytes(sent))).base_offset == 0
    assert (await raw.produce("t", batch_of(b"fine"))).base_offset == 5_000


@pytest.mark.parametrize(
    ("records", "start"),
    [
        (with_field(">i", 57, 7), 0),
        (with_field(">q", 0, 5), 0),
        (corrupted(70), -1),
        (batch_of(b"a") + batch_of(b"b"), -1),
        (batch_of(b"z" * 20_000), -1),
    ],
)
async def test_a_batch_that_the_log_rejects_is_answered_with_the_log_start_offset(
    raw: Raw, records: bytes, start: int
) -> None:
    assert (await raw.produce("t", records)).log_start_offset == start


async def test_a_length_one_too_small_is_corruption(raw: Raw) -> None:
    data = bytearray(batch_of(b"a"))
    pack_into(">i", data, 8, len(data) - 12 - 1)
    assert (await raw.produce("t", bytes(data))).error_code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
async def test_a_body_that_is_not_of_the_codec_that_the_batch_names(raw: Raw, codec: Compression) -> None:
    answer = await raw.produce("t", with_field(">h", 21, codec))
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.CORRUPT_MESSAGE, 0)
    assert codec.name.lower() in answer.error_message


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
async def test_a_timestamp_more_than_an_hour_ahead_is_refused_record_by_record(
    broker: Broker, raw: Raw, codec: Compression
) -> None:
    soon = int(time.time() * 1000) + 3_590_000
    assert (await raw.produce("t", batch_of(b"soon", timestamp_ms=soon))).error_code == 0
    late = [Record(0, 5, None, b"fine"), Record(1, soon + 60_000, None, b"late"), Record(2, 6, None, b"fine")]
    answer = await raw.produce("t", batch.encode_batch(late, compression=codec))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_TIMESTAMP, -1)
    assert [each.batch_index for each in answer.record_errors] == [1]
    assert str(soon + 60_000) in answer.record_errors[0].batch_index_error_message
    assert answer.log_start_offset == 0


async def test_a_small_zstd_batch_of_a_million_late_records_is_read_in_a_thread(
    raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    late_ms = 17_000_000_000_000
    body = compress(Compression.ZSTD, bytes.fromhex("0c000000010000") * 1_000_000)
    first = batch.read_header(batch.encode_batch([Record(0, late_ms, None, b"")]))
    header = first._replace(last_offset_delta=999_999, record_count=1_000_000)
    readers: set[str] = set()
    iter_records = batch.iter_records

    def watched(*args: Any, **options: Any) -> Iterator[Record]:
        readers.add(threading.current_thread().name)
        return iter_records(*args, **options)

    monkeypatch.setattr(batch, "iter_records", watched)
    data = batch.with_body(header, body, Compression.ZSTD)
    assert len(data) < 2000
    answer = await raw.produce("t", bytes(data))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in answer.record_errors] == list(range(1000))
    assert readers
    assert threading.main_thread().name not in readers


async def test_a_header_may_name_a_wrong_largest_timestamp(raw: Raw) -> None:
    answer = await raw.produce("t", with_field(">q", 35, 17_000_000_000_000))
    assert (answer.error_code, answer.record_errors) == (ErrorCode.INVALID_TIMESTAMP, [])


async def test_any_timestamp_is_accepted_if_the_broker_sets_it(raw: Raw) -> None:
    await raw.create_topic("appended", message_timestamp_type="LogAppendTime")
    assert (await raw.produce("appended", batch_of(b"v", timestamp_ms=17_000_000_000_000))).error_code == 0


async def test_a_topic_that_comes_twice_is_answered_once_and_one_without_partitions_not_at_all(raw: Raw) -> None:
    data = [
        TopicProduceData("t", partition_data=[PartitionProduceData(index, batch_of(b"v"))] if index >= 0 else [])
        for index in (1, -1, 0)
    ]
    response = await raw.ask(ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, topic_data=data))
    assert [(each.name, [one.index for one in each.partition_responses]) for each in response.responses] == [
        ("t", [1, 0])
    ]
    none = ProduceRequest(acks=-1, topic_data=[TopicProduceData("t", partition_data=[])])
    assert (await raw.ask(ApiKey.PRODUCE, 9, none)).responses == []


async def test_two_batches_for_a_partition_are_both_written(raw: Raw) -> None:
    data = TopicProduceData("t", partition_data=[PartitionProduceData(0, batch_of(value)) for value in (b"a", b"b")])
    response = await raw.ask(ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, topic_data=[data]))
    assert [each.base_offset for each in response.responses[0].partition_responses] == [0, 1]


async def test_unknown_topic_and_partition(raw: Raw) -> None:
    assert (await raw.produce("nowhere", batch_of(b"v"))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await raw.produce("t", batch_of(b"v"), partition=2)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await raw.produce("t", batch_of(b"v"), partition=-1)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_clients_cannot_write_to_internal_topics(broker: Broker, raw: Raw) -> None:
    broker.services.internal_topics.create("__consumer_offsets")
    for records, code in ((batch_of(b"v"), ErrorCode.INVALID_TOPIC_EXCEPTION), (b"", ErrorCode.INVALID_RECORD)):
        assert (await raw.produce("__consumer_offsets", records)).error_code == code


@pytest.mark.parametrize("acks", [-2, 2, 100])
async def test_invalid_acks(raw: Raw, acks: int) -> None:
    """Kafka looks at the topic and at the form of the records first."""
    for topic, records, code in (
        ("t", batch_of(b"v"), ErrorCode.INVALID_REQUIRED_ACKS),
        ("t", batch_of(b"v") * 2, ErrorCode.INVALID_RECORD),
        ("t", with_field(">b", 16, 1), ErrorCode.INVALID_RECORD),
        ("nowhere", batch_of(b"v"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        assert (await raw.produce(topic, records, acks=acks)).error_code == code
    zstd = with_field(">h", 21, 4)
    assert (await raw.produce("t", zstd, version=6, acks=acks)).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


async def test_zstd_needs_version_7(raw: Raw) -> None:
    sent = batch_of(b"x" * 100, compression=Compression.ZSTD)
    assert (await raw.produce("t", sent, version=6)).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert (await raw.produce("t", sent, version=7)).error_code == 0


async def test_a_codec_that_does_not_exist_is_rejected_in_every_version(broker: Broker, raw: Raw) -> None:
    topic = broker.topics.get("t")
    assert topic is not None
    for version, codec in product(range(3, 14), (5, 6, 7)):
        sent = bytearray(batch_of(b"x" * 100))
        sent[22] |= codec
        sent[17:21] = crc32c(memoryview(sent)[21:]).to_bytes(4, "big")
        good = PartitionProduceData(1, batch_of(b"good"))
        data = TopicProduceData("t", topic.id, partition_data=[PartitionProduceData(0, bytes(sent)), good])
        request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data])
        response = await raw.ask(ApiKey.PRODUCE, version, request)
        errors = [each.error_code for each in response.responses[0].partition_responses]
        assert (version, codec, errors) == (version, codec, [ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, 0])


async def test_acks_0_is_not_answered_and_does_not_wedge_what_follows(raw: Raw) -> None:
    data = TopicProduceData("t", partition_data=[PartitionProduceData(0, batch_of(b"quiet"))])
    for _ in range(3):
        raw.send(ApiKey.PRODUCE, 9, ProduceRequest(acks=0, topic_data=[data]))
    assert (await raw.produce("t", batch_of(b"loud"))).base_offset == 3


async def test_a_failed_produce_with_acks_0_closes_the_connection(raw: Raw, caplog: pytest.LogCaptureFixture) -> None:
    data = TopicProduceData("t", partition_data=[PartitionProduceData(9, batch_of(b"quiet"))])
    with caplog.at_level(logging.WARNING):
        raw.send(ApiKey.PRODUCE, 9, ProduceRequest(acks=0, topic_data=[data]))
        assert await raw.is_closed()
    assert "UNKNOWN_TOPIC_OR_PARTITION" in caplog.text


async def test_an_error_of_one_partition_leaves_the_others_alone(raw: Raw) -> None:
    parts = [PartitionProduceData(0, batch_of(b"good")), PartitionProduceData(1, corrupted(70))]
    request = ProduceRequest(acks=-1, topic_data=[TopicProduceData("t", partition_data=parts)])
    response = await raw.ask(ApiKey.PRODUCE, 9, request)
    codes = [each.error_code for each in response.responses[0].partition_responses]
    assert codes == [0, ErrorCode.CORRUPT_MESSAGE]


async def test_a_plain_batch_of_a_transactional_client_is_no_part_of_a_transaction(raw: Raw) -> None:
    answer = await raw.produce("t", batch_of(b"v"), transactional_id="tx")
    assert answer.error_code == 0
    assert (await raw.fetch("t", 0)).last_stable_offset == 1


async def test_log_append_time_is_the_brokers(raw: Raw) -> None:
    await raw.create_topic("appended", message_timestamp_type="LogAppendTime")
    answer = await raw.produce("appended", batch_of(b"a", b"b", timestamp_ms=5))
    assert answer.log_append_time_ms > 1_700_000_000_000
    got = bytes((await raw.fetch("appended", 0)).records)
    assert {record.timestamp_ms for record in batch.decode_batch(got)} == {answer.log_append_time_ms}


async def test_a_producer_cannot_claim_log_append_time(raw: Raw) -> None:
    await raw.produce("t", with_field(">h", 21, 1 << 3))
    got = bytes((await raw.fetch("t", 0)).records)
    assert batch.read_header(got).timestamp_type == 0
    assert [record.value for record in batch.decode_batch(got)] == [b"one", b"two"]


# Idempotence.


async def new_producer(raw: Raw) -> int:
    return (await raw.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None))).producer_id


async def send(raw: Raw, producer_id: int, sequence: int, count: int = 1, epoch: int = 0) -> tuple[int, int]:
    values = [b"v%d" % at for at in range(sequence, sequence + count)]
    records = batch_of(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    answer = await raw.produce("t", records)
    return answer.error_code, answer.base_offset


async def test_a_batch_sent_again_is_answered_with_its_first_offset_and_written_once(raw: Raw) -> None:
    producer = await new_producer(raw)
    for sequence in range(0, 10, 2):
        assert await send(raw, producer, sequence, 2) == (0, sequence)
    for sequence in range(0, 10, 2):
        assert await send(raw, producer, sequence, 2) == (0, sequence)
    assert await send(raw, producer, 10) == (0, 10)


async def test_a_batch_sent_again_is_answered_with_its_own_timestamp(raw: Raw) -> None:
    records = batch_of(b"a", b"b", timestamp_ms=5000, producer_id=7, producer_epoch=0, base_sequence=0)
    times = [(await raw.produce("t", records)).log_append_time_ms for _ in "12"]
    assert times == [-1, 5001]


async def test_a_batch_older_than_the_window_of_five_is_out_of_order(raw: Raw) -> None:
    producer = await new_producer(raw)
    for sequence in range(7):
        await send(raw, producer, sequence)
    assert (await send(raw, producer, 1))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await send(raw, producer, 2) == (0, 2)


async def test_a_gap_is_refused(raw: Raw) -> None:
    producer = await new_producer(raw)
    assert await send(raw, producer, 0) == (0, 0)
    assert (await send(raw, producer, 5))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await send(raw, producer, 1) == (0, 1)


async def test_an_older_epoch_is_refused_and_a_newer_one_begins_at_0(raw: Raw) -> None:
    producer = await new_producer(raw)
    assert await send(raw, producer, 0, epoch=1) == (0, 0)
    assert (await send(raw, producer, 1, epoch=0))[0] == ErrorCode.INVALID_PRODUCER_EPOCH
    assert (await send(raw, producer, 3, epoch=2))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await send(raw, producer, 0, epoch=2) == (0, 1)
