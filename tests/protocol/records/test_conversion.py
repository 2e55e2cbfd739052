"""Message sets made batches, batches made message sets, batches in another codec: nothing lost that can be said."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.protocol.records import batch, conversion, legacy
from odradek.protocol.records.batch import TimestampType
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.control import ControlType, Marker, encode_marker
from odradek.protocol.records.conversion import down_converted, recompressed, up_converted
from odradek.protocol.records.errors import (
    CorruptCrc,
    DecompressionLimit,
    InvalidRecord,
    RecordError,
    TruncatedBatch,
    UnsupportedCodec,
)
from odradek.protocol.records.record import Record

ROOT = Path(__file__).parents[3]
LINES = [json.loads(line) for line in (ROOT / "tests/golden/records/kafka-python-1.4.7.jsonl").read_text().splitlines()]
START_MS = 1_400_000_000_000
LEGACY_CODECS = [codec for codec in Compression if codec is not Compression.ZSTD]
BIG = 1 << 30

texts = st.one_of(st.none(), st.binary(max_size=30))
plain_records = st.lists(
    st.builds(lambda t, k, v: Record(-1, t, k, v), st.integers(-1, 2**40), texts, texts), min_size=1, max_size=12
)


def records_of(*values: bytes, offset: int = 0, **rest: object) -> list[Record]:
    return [Record(offset + at, START_MS + at, b"k", value, **rest) for at, value in enumerate(values)]  # type: ignore[arg-type]


def as_hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def legacy_values(data: bytes) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in legacy.decode_message_set(data)]


def with_crc(data: bytearray) -> bytes:
    data[17:21] = batch.crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


class TestUp:
    @pytest.mark.parametrize("line", LINES, ids=lambda line: line["name"])
    def test_what_an_old_client_encodes_is_one_batch_of_the_same_records_and_codec(self, line: dict) -> None:
        data = bytes(up_converted(bytes.fromhex(line["hex"])))
        header = batch.read_header(data)
        assert header.size_bytes == len(data)
        assert header.compression.name.lower() == line["name"].partition("-")[2]
        assert (header.base_offset, header.record_count, header.last_offset_delta) == (0, 5, 4)
        found = [[r.offset, r.timestamp_ms, as_hex(r.key), as_hex(r.value)] for r in batch.decode_batch(data)]
        assert found == [[at, when, key, value] for at, when, key, value in line["records"]]

    @given(plain_records, st.sampled_from([0, 1]), st.sampled_from(LEGACY_CODECS))
    def test_records_come_through(self, records: list[Record], magic: int, codec: Compression) -> None:
        data = up_converted(legacy.encode_message_set(records, magic, codec))
        expected = [Record(at, r.timestamp_ms if magic else -1, r.key, r.value, ()) for at, r in enumerate(records)]
        assert batch.decode_batch(data) == expected

    def test_offsets_count_from_0_whatever_the_messages_said(self) -> None:
        gaps = [Record(7, 1, None, b"a"), Record(100, 2, None, b"b")]
        assert [r.offset for r in batch.decode_batch(up_converted(legacy.encode_message_set(gaps, 1)))] == [0, 1]

    def test_several_wrappers_and_bare_messages_are_one_batch_in_the_last_wrappers_codec(self) -> None:
        parts = (Compression.GZIP, Compression.NONE, Compression.SNAPPY, Compression.NONE)
        data = b"".join(legacy.encode_message_set(records_of(b"a", b"b"), 1, codec) for codec in parts)
        made = up_converted(data)
        assert batch.read_header(made).compression is Compression.SNAPPY
        assert [record.value for record in batch.decode_batch(made)] == [b"a", b"b"] * 4

    def test_a_codec_that_is_asked_for_takes_the_place_of_the_clients(self) -> None:
        made = up_converted(legacy.encode_message_set(records_of(b"a" * 99), 0, Compression.GZIP), Compression.ZSTD, 5)
        assert batch.read_header(made).compression is Compression.ZSTD

    def test_a_set_that_is_cut_off_is_refused_not_shortened(self) -> None:
        data = legacy.encode_message_set(records_of(b"a", b"b"), 1)
        with pytest.raises(TruncatedBatch):
            up_converted(data[:-1])
        with pytest.raises(TruncatedBatch):
            up_converted(data + b"\0" * 5)

    def test_an_empty_message_set_is_rejected(self) -> None:
        with pytest.raises(InvalidRecord):
            up_converted(b"")

    def test_a_bad_crc_outside_and_inside_of_a_wrapper(self) -> None:
        data = bytearray(legacy.encode_message_set(records_of(b"value"), 0))
        data[-1] ^= 1
        with pytest.raises(CorruptCrc):
            up_converted(data)
        outer = bytearray(legacy.encode_message_set([Record(0, -1, None, bytes(data))], 0))
        assert len(legacy.decode_message_set(outer)) == 1
        packed = bytearray(legacy.encode_message_set([Record(0, -1, None, legacy.compress(1, bytes(data)))], 0))
        packed[17] = Compression.GZIP
        packed[12:16] = legacy.crc32(bytes(packed[16:])).to_bytes(4, "big")
        with pytest.raises(CorruptCrc):
            up_converted(packed)

    def test_a_wrapper_in_a_wrapper_is_refused(self) -> None:
        inner = legacy.encode_message_set(records_of(b"a"), 1, Compression.GZIP)
        packed = bytearray(legacy.encode_message_set([Record(0, 1, None, legacy.compress(1, inner))], 1))
        packed[17] = Compression.GZIP
        packed[12:16] = legacy.crc32(bytes(packed[16:])).to_bytes(4, "big")
        with pytest.raises(InvalidRecord):
            up_converted(packed)

    def test_zstd_in_a_message_set_is_rejected(self) -> None:
        data = bytearray(legacy.encode_message_set(records_of(b"a"), 1))
        data[17] = Compression.ZSTD
        data[12:16] = legacy.crc32(bytes(data[16:])).to_bytes(4, "big")
        with pytest.raises(UnsupportedCodec):
            up_converted(data)

    def test_sets_that_would_fill_the_memory_are_rejected(self) -> None:
        data = legacy.encode_message_set(records_of(b"\0" * 100_000), 1, Compression.GZIP)
        with pytest.raises(DecompressionLimit):
            up_converted(data, limit=50_000)

    def test_a_set_of_too_many_messages_is_rejected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(legacy, "MAX_MESSAGES", 3)
        for codec in (Compression.NONE, Compression.GZIP):
            assert up_converted(legacy.encode_message_set(records_of(b"a", b"b", b"c"), 1, codec))
            with pytest.raises(DecompressionLimit, match="more than 3 messages"):
                up_converted(legacy.encode_message_set(records_of(b"a", b"b", b"c", b"d"), 1, codec))
        two = legacy.encode_message_set(records_of(b"a", b"b"), 1, Compression.GZIP)
        with pytest.raises(DecompressionLimit, match="more than 3 messages"):
            up_converted(two + two)

    @given(st.binary(max_size=200))
    def test_any_bytes_are_a_batch_or_a_record_error(self, data: bytes) -> None:
        with contextlib.suppress(RecordError):
            batch.decode_batch(up_converted(data))


class TestRecompressed:
    @pytest.mark.parametrize("to", list(Compression))
    @pytest.mark.parametrize("of", list(Compression))
    def test_only_codec_length_and_crc_change(self, of: Compression, to: Compression) -> None:
        records = [Record(at, START_MS - at, None, b"v" * 100, (("h", b"x"),)) for at in range(20)]
        data = batch.encode_batch(records, compression=of, producer_id=5, producer_epoch=1, base_sequence=9)
        header = batch.read_header(data)
        made = recompressed(data, header, to)
        now = batch.read_header(made)
        assert now == header._replace(
            batch_length=now.batch_length, attributes=header.attributes & ~7 | to, crc=now.crc
        )
        assert batch.decode_batch(made) == records

    def test_a_level_makes_a_difference(self) -> None:
        data = batch.encode_batch([Record(at, 1, None, b"%d" % (at * at)) for at in range(2000)])
        sizes = [len(recompressed(data, batch.read_header(data), Compression.GZIP, level)) for level in (1, 9)]
        assert sizes[0] > sizes[1]

    def test_records_that_are_none_are_refused_before_a_crc_of_ours_stands_over_them(self) -> None:
        data = bytearray(batch.encode_batch(records_of(b"a", b"b")))
        data[61] ^= 0x20
        sealed = with_crc(data)
        with pytest.raises(InvalidRecord):
            recompressed(sealed, batch.read_header(sealed), Compression.GZIP)


class TestDown:
    @given(plain_records, st.sampled_from([0, 1]), st.sampled_from(list(Compression)))
    def test_records_come_through_but_for_what_the_format_cannot_say(
        self, records: list[Record], magic: int, codec: Compression
    ) -> None:
        data = batch.encode_batch(records, base_offset=40, compression=codec)
        found = down_converted(data, magic, 40, BIG)
        expected = [Record(40 + at, r.timestamp_ms if magic else -1, r.key, r.value) for at, r in enumerate(records)]
        assert legacy.decode_message_set(found.data) == expected
        assert (found.next_offset, found.ends_at_limit) == (40 + len(records), False)

    @pytest.mark.parametrize("codec", list(Compression))
    def test_a_compressed_batch_is_one_wrapper_in_its_codec_and_zstd_is_gzip(self, codec: Compression) -> None:
        data = down_converted(batch.encode_batch(records_of(b"a" * 90, b"b"), compression=codec), 1, 0, BIG).data
        messages = list(legacy.iter_messages(data))
        wanted = Compression.GZIP if codec is Compression.ZSTD else codec
        assert [message.compression for message in messages] == [wanted] * (1 if codec else 2)

    def test_a_batch_of_very_many_records_is_several_wrappers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(conversion, "WRAPPED_RECORDS", 2)
        records = records_of(b"a", b"b", b"c", b"d", b"e")
        data = down_converted(batch.encode_batch(records, compression=Compression.GZIP), 1, 0, BIG).data
        assert len(list(legacy.iter_messages(data))) == 3
        assert [each.value for each in legacy.decode_message_set(data)] == [b"a", b"b", b"c", b"d", b"e"]

    def test_headers_are_left_out(self) -> None:
        [record] = legacy.decode_message_set(
            down_converted(batch.encode_batch(records_of(b"a", headers=(("h", b"x"),))), 1, 0, BIG).data
        )
        assert record.headers == ()

    @pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
    def test_log_append_time_is_said_where_it_can_be(self, codec: Compression) -> None:
        data = batch.encode_batch(
            records_of(b"a", b"b"), compression=codec, timestamp_type=TimestampType.LOG_APPEND_TIME
        )
        found = down_converted(data, 1, 0, BIG).data
        assert all(m.timestamp_type is TimestampType.LOG_APPEND_TIME for m in legacy.iter_messages(found))
        assert {r.timestamp_ms for r in legacy.decode_message_set(found)} == {START_MS + 1}
        assert {r.timestamp_ms for r in legacy.decode_message_set(down_converted(data, 0, 0, BIG).data)} == {-1}

    def test_control_batches_are_left_out_and_passed(self) -> None:
        marker = encode_marker(
            Marker(ControlType.COMMIT, 3), producer_id=7, producer_epoch=1, timestamp_ms=4_000, base_offset=0
        )
        found = down_converted(marker, 1, 0, BIG)
        assert (found.data, found.next_offset) == (b"", 1)
        more = down_converted(bytes(marker) + batch.encode_batch(records_of(b"a", offset=1), base_offset=1), 1, 0, BIG)
        assert legacy_values(more.data) == [(1, b"a")]

    def test_from_the_middle_bare_messages_begin_where_asked_and_a_wrapper_comes_whole(self) -> None:
        records = records_of(b"a", b"b", b"c")
        bare = down_converted(batch.encode_batch(records), 0, 1, BIG).data
        assert legacy_values(bare) == [(1, b"b"), (2, b"c")]
        packed = down_converted(batch.encode_batch(records, compression=Compression.GZIP), 0, 1, BIG).data
        assert [offset for offset, _ in legacy_values(packed)] == [0, 1, 2]

    @given(st.integers(1, 3000), st.integers(0, 29))
    def test_reading_on_from_the_limit_sees_every_record_once(self, max_bytes: int, start: int) -> None:
        data = b"".join(
            batch.encode_batch(records_of(*(b"x" * (each * 7) for each in range(10)), offset=at), base_offset=at)
            for at in (0, 10, 20)
        )
        offset, seen = start, []
        while offset < 30:
            found = down_converted(data, 1, offset, max_bytes)
            got = [record.offset for record in legacy.decode_message_set(found.data)]
            assert got[0] == offset
            assert len(found.data) <= max_bytes or len(got) == 1
            assert found.next_offset == got[-1] + 1
            seen += got
            offset = found.next_offset
        assert seen == list(range(start, 30))

    def test_wrappers_are_not_split_and_stop_at_the_limit(self) -> None:
        data = b"".join(
            batch.encode_batch(records_of(b"a", b"b", offset=at), base_offset=at, compression=Compression.GZIP)
            for at in (0, 2, 4)
        )
        found = down_converted(data, 1, 0, 1)
        assert [offset for offset, _ in legacy_values(found.data)] == [0, 1]
        assert (found.next_offset, found.ends_at_limit) == (2, True)

    def test_a_batch_that_is_cut_off_is_left_out(self) -> None:
        first = batch.encode_batch(records_of(b"a"))
        second = batch.encode_batch(records_of(b"b", offset=1), base_offset=1)
        found = down_converted(first + second[:-1], 1, 0, BIG)
        assert (legacy_values(found.data), found.next_offset) == ([(0, b"a")], 1)

    def test_a_broken_batch_ends_the_set_or_is_the_error_where_it_comes_first(self) -> None:
        first = batch.encode_batch(records_of(b"a"))
        broken = bytearray(batch.encode_batch(records_of(b"b", offset=1), base_offset=1))
        broken[-1] ^= 1
        assert legacy_values(down_converted(first + broken, 1, 0, BIG).data) == [(0, b"a")]
        with pytest.raises(CorruptCrc):
            down_converted(first + broken, 1, 1, BIG)

    def test_gaps_that_compaction_left_stay(self) -> None:
        kept = [Record(3, START_MS, b"k", b"a"), Record(9, START_MS, b"k", b"b")]
        for codec in (Compression.NONE, Compression.LZ4):
            data = batch.encode_batch(kept, base_offset=0, compression=codec)
            for magic in (0, 1):
                assert legacy_values(down_converted(data, magic, 0, BIG).data) == [(3, b"a"), (9, b"b")]

    def test_lz4_at_magic_0_has_the_checksum_that_old_clients_want(self) -> None:
        data = batch.encode_batch(records_of(b"a" * 100), compression=Compression.LZ4)
        [message] = legacy.iter_messages(down_converted(data, 0, 0, BIG).data)
        assert message.value is not None
        right = legacy.lz4_header_checksum(message.value, broken=False)
        assert bytes(message.value) != bytes(right)
        assert bytes(message.value) == bytes(legacy.lz4_header_checksum(right, broken=True))
