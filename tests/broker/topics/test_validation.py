"""What a topic's configs ask of batches: which are opened, what is refused in them, what is rewritten."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.broker import BrokerConfig
from odradek.broker.configs.topic_config import TopicConfig
from odradek.broker.topics.validation import (
    LARGE_BYTES,
    LARGE_DECOMPRESSED_BYTES,
    MAX_RECORD_ERRORS,
    BatchRejected,
    ValidationRules,
    is_large,
    prepare,
    validation_rules,
)
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.records import batch, legacy
from odradek.protocol.records.compression import Compression, decompress
from odradek.protocol.records.record import Record
from odradek.tests.support.clients.raw import Raw, batch_of

NOW_MS = 1_700_000_000_000
CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


def rules(**configs: str) -> ValidationRules | None:
    named = {name.replace("_", "."): text for name, text in configs.items()}
    return validation_rules(TopicConfig.resolve(BrokerConfig(), named))


def batch_at(*ages_ms: int, **rest: object) -> memoryview:
    records = [Record(at, NOW_MS - age if age >= 0 else -1, b"k", b"v" * 40) for at, age in enumerate(ages_ms)]
    return memoryview(bytearray(batch.encode_batch(records, **rest)))  # type: ignore[arg-type]


def rejection(records: memoryview, asked: ValidationRules | None, version: int = 9, **rest: int) -> BatchRejected:
    with pytest.raises(BatchRejected) as caught:
        prepare(records, version, asked, NOW_MS, **rest)
    return caught.value


class TestRules:
    def test_an_ordinary_topic_has_none(self) -> None:
        assert rules() is None
        assert rules(message_timestamp_type="LogAppendTime", message_timestamp_after_max_ms="5") is None

    @pytest.mark.parametrize("name", CODECS)
    def test_a_codec_and_its_level(self, name: str) -> None:
        found = rules(
            compression_type=name, compression_gzip_level="1", compression_lz4_level="12", compression_zstd_level="-7"
        )
        assert found is not None
        assert (found.compression, found.level) == (CODECS[name], {"gzip": 1, "lz4": 12, "zstd": -7}.get(name))
        assert not found.opens_every_batch

    def test_the_brokers_configs_are_the_topics_defaults(self) -> None:
        found = validation_rules(
            TopicConfig.resolve(BrokerConfig(compression_type="lz4", log_message_timestamp_before_max_ms=9))
        )
        assert found == ValidationRules(Compression.LZ4, 9, before_max_ms=9)

    def test_old_timestamps_are_accepted_if_the_broker_sets_the_time(self) -> None:
        assert rules(message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms="5") is None

    def test_a_level_that_gzip_does_not_have(self) -> None:
        with pytest.raises(Exception, match="must be from 1 to 9, or -1"):
            rules(compression_gzip_level="0")


class TestTimestamps:
    def test_those_too_old_are_named_and_those_without_are_taken(self) -> None:
        asked = rules(message_timestamp_before_max_ms="1000")
        assert bytes(prepare(batch_at(1000, -1, 0), 9, asked, NOW_MS).records) == bytes(batch_at(1000, -1, 0))
        refused = rejection(batch_at(0, 1001, -1, 5000), asked)
        assert refused.code is ErrorCode.INVALID_TIMESTAMP
        assert [index for index, _ in refused.record_errors] == [1, 3]

    def test_those_too_new_are_named_beside_them(self) -> None:
        records = [Record(0, NOW_MS - 5000, None, b""), Record(1, NOW_MS + 5000, None, b"")]
        data = memoryview(bytearray(batch.encode_batch(records)))
        refused = rejection(data, rules(message_timestamp_before_max_ms="1000"), latest_ms=NOW_MS + 1000)
        assert [index for index, _ in refused.record_errors] == [0, 1]

    def test_the_list_has_a_bound(self) -> None:
        refused = rejection(batch_at(*[5000] * (MAX_RECORD_ERRORS + 5)), rules(message_timestamp_before_max_ms="1000"))
        assert len(refused.record_errors) == MAX_RECORD_ERRORS

    def test_keys_where_they_are_needed(self) -> None:
        asked = ValidationRules(requires_keys=True)
        assert prepare(batch_at(0), 9, asked, NOW_MS).records
        refused = rejection(memoryview(bytearray(batch_of(b"a", b"b"))), asked)
        assert (refused.code, len(refused.record_errors)) == (ErrorCode.INVALID_RECORD, 2)

    def test_a_compressed_batch_is_decompressed_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked, times = rules(max_decompressed_message_bytes="100"), list[Compression]()

        def counted(codec: Compression, *rest: Any) -> bytes:
            times.append(codec)
            return decompress(codec, *rest)

        monkeypatch.setattr(batch, "decompress", counted)
        assert prepare(batch_at(0, 0, compression=Compression.GZIP), 9, asked, NOW_MS).records
        assert times == [Compression.GZIP]
        large = [Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS, b"k", b"v" * 200)]
        data = memoryview(bytearray(batch.encode_batch(large, compression=Compression.GZIP)))
        assert "a record of 20" in str(rejection(data, asked))


class TestCompression:
    @pytest.mark.parametrize("to", CODECS)
    @pytest.mark.parametrize("of", list(Compression))
    def test_another_codec_is_made_the_topics_and_the_same_stays(self, of: Compression, to: str) -> None:
        sent = batch_at(1, 2, 3, compression=of)
        made = prepare(sent, 9, rules(compression_type=to), NOW_MS).records
        assert batch.read_header(made).compression is CODECS[to]
        batch.check_crc(made, 0, batch.read_header(made))
        assert batch.decode_batch(made) == batch.decode_batch(sent)
        assert (made is sent) is (of is CODECS[to])

    def test_the_idempotence_fields_are_kept(self) -> None:
        sent = batch_at(1, 2, producer_id=7, producer_epoch=3, base_sequence=9, transactional=True)
        header = batch.read_header(prepare(sent, 9, rules(compression_type="gzip"), NOW_MS).records)
        assert (header.producer_id, header.producer_epoch, header.base_sequence, header.is_transactional) == (
            *(7, 3, 9),
            True,
        )

    def test_a_message_set_becomes_a_batch_of_the_topics_codec(self) -> None:
        data = memoryview(legacy.encode_message_set([Record(0, 5, b"k", b"v")], 0, Compression.SNAPPY))
        made = prepare(data, 1, rules(compression_type="zstd"), NOW_MS).records
        assert batch.read_header(made).compression is Compression.ZSTD
        assert [record.value for record in batch.decode_batch(made)] == [b"v"]

    def test_a_message_set_of_too_many_messages_gets_the_error_that_limits_md_names(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(legacy, "MAX_MESSAGES", 2)
        message_set = legacy.encode_message_set([Record(value=b"x")] * 3, 1)
        assert rejection(memoryview(message_set), None, 2).code is ErrorCode.INVALID_RECORD

    def test_a_body_that_is_no_stream_is_refused_as_an_invalid_record(self) -> None:
        data = bytearray(batch_at(1, compression=Compression.GZIP))
        data[-6] ^= 1
        data[17:21] = batch.crc32c(bytes(data[21:])).to_bytes(4, "big")
        assert rejection(memoryview(data), rules(compression_type="lz4")).code is ErrorCode.INVALID_RECORD

    def test_zstd_is_too_young_for_old_requests(self) -> None:
        """Kafka looks at that before the partition does: the error has no log start offset."""
        zstd = batch_at(1, compression=Compression.ZSTD)
        with pytest.raises(KafkaError) as refused:
            prepare(zstd, 5, rules(compression_type="gzip"), NOW_MS)
        assert refused.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert not isinstance(refused.value, BatchRejected)

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            ({"max_bytes": 50}, ErrorCode.MESSAGE_TOO_LARGE),
            ({"cut": True}, ErrorCode.INVALID_RECORD),
            ({"damage": True}, ErrorCode.CORRUPT_MESSAGE),
        ],
    )
    def test_faults_of_the_header_or_the_crc_get_the_errors_of_an_append(
        self, change: dict[str, int], code: ErrorCode
    ) -> None:
        sent = batch_at(1, 2)
        if change.pop("cut", False):
            sent = sent[:-1]
        if change.pop("damage", False):
            sent[-1] ^= 1
        with pytest.raises(KafkaError) as caught:
            prepare(sent, 9, rules(compression_type="gzip"), NOW_MS, **change)
        assert caught.value.code is code

    def test_counts_that_disagree_are_left_to_the_append(self) -> None:
        sent = batch_at(1, 2)
        sent[57:61] = (3).to_bytes(4, "big")
        sent[17:21] = batch.crc32c(bytes(sent[21:])).to_bytes(4, "big")
        assert prepare(sent, 9, rules(compression_type="gzip"), NOW_MS).records is sent


def test_large_batches_go_to_a_thread() -> None:
    small, large = batch_of(b"x" * 500), batch_of(b"x" * LARGE_BYTES)
    messages = legacy.encode_message_set([Record(0, 1, None, b"x" * 2000)], 1)
    wrapper = legacy.encode_message_set([Record(0, 1, None, b"x")], 1, Compression.GZIP)
    found = [
        is_large(memoryview(each))
        for each in (small, large, messages, wrapper, messages + wrapper, b"", b"\xff" * 2000)
    ]
    assert found == [False, True, False, True, True, False, False]


@pytest.mark.parametrize("codec", [each for each in Compression if each])
def test_a_small_batch_that_decompresses_to_much_is_large(codec: Compression) -> None:
    few, many = (
        batch.encode_batch([Record(0, 1, None, bytes(size))], compression=codec)
        for size in (LARGE_DECOMPRESSED_BYTES // 2, 2 * LARGE_DECOMPRESSED_BYTES)
    )
    assert [is_large(memoryview(each)) for each in (few, many)] == [False, True]
    assert len(many) < LARGE_BYTES


async def test_large_and_small_batches_are_rewritten_in_their_order(raw: Raw) -> None:
    await raw.create_topic("packed", compression_type="gzip")
    for number, size in enumerate((10, 2 * LARGE_BYTES, 10, 2 * LARGE_BYTES)):
        answer = await raw.produce("packed", batch_of(b"%d" % number * size))
        assert (answer.error_code, answer.base_offset) == (0, number)
    data = bytes((await raw.fetch("packed", 0)).records)
    headers = list(batch.iter_headers(data))
    assert {header.compression for _, header in headers} == {Compression.GZIP}
    firsts = [batch.decode_batch(data, position)[0].value[:1] for position, _ in headers]  # type: ignore[index]
    assert firsts == [b"0", b"1", b"2", b"3"]


async def test_a_batch_that_is_too_large_only_when_it_is_rewritten(raw: Raw) -> None:
    await raw.create_topic("plain", compression_type="uncompressed", max_message_bytes="2000")
    answer = await raw.produce("plain", batch_of(b"x" * 5000, compression=Compression.GZIP))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE


async def test_a_batch_sent_again_is_known_also_where_it_is_rewritten(raw: Raw) -> None:
    await raw.create_topic("packed", compression_type="lz4")
    sent = batch_of(b"a", b"b", producer_id=0, producer_epoch=0, base_sequence=0)
    assert [(await raw.produce("packed", sent)).base_offset for _ in range(2)] == [0, 0]


async def test_a_compacted_topic_takes_no_record_without_a_key(raw: Raw) -> None:
    assert (await raw.create_topic("kept", cleanup_policy="compact")).error_code == 0
    mixed = batch.encode_batch([Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS, None, b"v")])
    answer = await raw.produce("kept", mixed)
    assert (answer.error_code, [each.batch_index for each in answer.record_errors]) == (87, [1])
    assert (await raw.produce("kept", bytes(batch_at(0, 0)))).error_code == 0
