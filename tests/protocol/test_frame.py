"""Frames: sizes, headers of every version, and who gets tagged fields in them."""

from __future__ import annotations

import struct
from contextlib import nullcontext

import pytest
from odradek.protocol import decoding, frame
from odradek.protocol.apis import ApiKey
from odradek.protocol.codec import encode
from odradek.protocol.errors import DecodeError, EncodeError, InvalidField, TrailingBytes, TruncatedMessage
from odradek.protocol.frame import RequestHeader
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def joined(pieces: list) -> bytes:  # type: ignore[type-arg]
    return b"".join(pieces)


def unsized(pieces: list) -> bytes:  # type: ignore[type-arg]
    """The frame without its size, which must be right."""
    raw = joined(pieces)
    assert raw[:4] == (len(raw) - 4).to_bytes(4, "big")
    return raw[4:]


class TestRequestHeader:
    @pytest.mark.parametrize("version", [0, 3])
    def test_version_1_ends_with_the_client_id(self, version: int) -> None:
        raw = struct.pack(">hhih", 12, version, 99, 3) + b"cli" + b"body"
        assert frame.decode_request_header(raw) == (RequestHeader(12, version, 99, "cli"), 13)

    def test_version_2_ends_with_tagged_fields(self) -> None:
        raw = struct.pack(">hhih", 12, 4, 99, 3) + b"cli" + b"\0" + b"body"
        assert frame.decode_request_header(raw) == (RequestHeader(12, 4, 99, "cli"), 14)

    def test_unknown_tagged_fields_in_it_are_stepped_over(self) -> None:
        raw = struct.pack(">hhih", 12, 4, 99, -1) + b"\x01\x05\x03xyz" + b"body"
        assert frame.decode_request_header(raw) == (RequestHeader(12, 4, 99, None), 16)

    @pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
    def test_a_client_id_may_be_null_empty_or_any_text(self, buffer_type: type) -> None:
        for client_id in (None, "", "caf\u00e9"):
            raw = unsized(frame.encode_request(12, 0, 1, client_id, HeartbeatRequest()))
            assert frame.decode_request_header(buffer_type(raw))[0].client_id == client_id

    @pytest.mark.parametrize(("key", "version"), [(18, 99), (0, 14), (999, 0), (-1, -1), (12, -1), (17, 1)])
    def test_an_unknown_key_or_version_is_read_as_far_as_it_can_be(self, key: int, version: int) -> None:
        """Whatever follows, the dispatcher knows what was asked, and under which correlation id to answer."""
        raw = struct.pack(">hhih", key, version, 5, 3) + b"cli" + b"\xff\xff"
        assert frame.decode_request_header(raw) == (RequestHeader(key, version, 5, "cli"), 13)

    @pytest.mark.parametrize(
        "raw",
        [
            b"",
            struct.pack(">hhi", 12, 0, 1),
            struct.pack(">hhih", 12, 0, 1, 4) + b"cli",
            struct.pack(">hhih", 12, 4, 1, 3) + b"cli",
            struct.pack(">hhih", 12, 4, 1, 3) + b"cli" + b"\x01\x00",
        ],
        ids=["nothing", "no client id", "client id cut", "no tagged fields", "tagged fields cut"],
    )
    def test_a_cut_header_is_refused(self, raw: bytes) -> None:
        with pytest.raises(TruncatedMessage):
            frame.decode_request_header(raw)

    def test_a_client_id_that_is_not_utf_8_or_has_a_negative_length_is_refused(self) -> None:
        for tail in (struct.pack(">h", 2) + b"\xc3\x28", struct.pack(">h", -2)):
            with pytest.raises(InvalidField):
                frame.decode_request_header(struct.pack(">hhi", 12, 0, 1) + tail)


@pytest.mark.parametrize(("version", "tags"), [(0, b""), (3, b""), (4, b"\0"), (4, b"\x01\x05\x03xyz")])
@pytest.mark.parametrize("client_id", [None, "", "caf\u00e9"])
def test_a_compiled_decoder_of_frames_reads_header_and_body(version: int, tags: bytes, client_id: str | None) -> None:
    text = (client_id or "").encode()
    name = struct.pack(">h", -1 if client_id is None else len(text)) + text
    body = joined(encode(HeartbeatRequest("g", 3, "m"), version))
    raw = struct.pack(">hhi", 12, version, -7) + name + tags + body
    decode = frame.request_decoder(HeartbeatRequest, version)
    assert decode(memoryview(raw + b"rest")) == (-7, client_id, HeartbeatRequest("g", 3, "m"), len(raw))
    for end in range(len(raw)):
        with pytest.raises(TruncatedMessage):
            decode(memoryview(raw[:end]))


def test_a_compiled_decoder_of_frames_rejects_a_bad_client_id_and_very_many_tags() -> None:
    decode = frame.request_decoder(HeartbeatRequest, 4)
    count = decoding.MAX_HEADER_TAGS + 1
    many = struct.pack(">h", -1) + bytes([count & 127 | 128, count >> 7]) + b"\x01\x00" * count
    for tail in (struct.pack(">h", 2) + b"\xc3\x28", struct.pack(">h", -2) + bytes(9), many):
        with pytest.raises(InvalidField):
            decode(struct.pack(">hhi", 12, 4, 1) + tail)


def test_a_text_of_a_request_has_at_most_as_many_bytes_as_in_older_versions() -> None:
    decode = frame.request_decoder(HeartbeatRequest, 4)
    for group, is_read in (("g" * 0x7FFF, True), ("g" * 0x8000, False), ("ä" * 0x4000, False)):
        raw = unsized(frame.encode_request(ApiKey.HEARTBEAT, 4, 7, "cli", HeartbeatRequest(group, 3, "m")))
        with nullcontext() if is_read else pytest.raises(InvalidField, match="32767 is the most"):
            assert decode(raw)[2].group_id == group


def test_a_request_comes_back_from_its_frame() -> None:
    from odradek.protocol.codec import decode

    for version in HeartbeatRequest.VERSIONS:
        request = HeartbeatRequest("g", 3, "m")
        raw = unsized(frame.encode_request(ApiKey.HEARTBEAT, version, 7, "cli", request))
        header, offset = frame.decode_request_header(raw)
        assert header == (12, version, 7, "cli")
        assert decode(HeartbeatRequest, version, raw, offset) == request


def test_a_response_comes_back_from_its_frame() -> None:
    for version in HeartbeatResponse.VERSIONS:
        response = HeartbeatResponse(throttle_time_ms=5 if version else 0, error_code=27)
        raw = unsized(frame.encode_response(-8, response, version))
        assert frame.decode_response(raw, HeartbeatResponse, version) == (-8, response)
        assert len(raw) == 4 + (version >= 4) + (4 if version else 0) + 2 + (version >= 4)


@pytest.mark.parametrize("version", list(ApiVersionsResponse.VERSIONS))
def test_the_response_header_of_api_versions_never_has_tagged_fields(version: int) -> None:
    """A client takes the error code for a length of gigabytes otherwise; it cannot know the broker yet."""
    raw = unsized(frame.encode_response(1, ApiVersionsResponse(error_code=35), version))
    assert raw[:6] == b"\0\0\0\1" + b"\0\x23"
    assert frame.decode_response(raw, ApiVersionsResponse, version)[1].error_code == 35


def test_the_request_header_of_api_versions_does_have_them() -> None:
    raw = unsized(frame.encode_request(18, 3, 1, "cli", ApiVersionsRequest("kcat", "1")))
    assert raw[10:14] == b"cli\0"


class FileRange:
    def __len__(self) -> int:
        return 1_000_000


def test_records_are_counted_in_the_size_and_stay_pieces_of_their_own() -> None:
    records = FileRange()
    response = FetchResponse(responses=[FetchableTopicResponse("t", partitions=[PartitionData(records=records)])])
    pieces = frame.encode_response(1, response, 12)
    assert pieces[1] is records
    first = pieces[0]
    assert isinstance(first, bytes)
    assert int.from_bytes(first[:4], "big") == sum(map(len, pieces)) - 4


class Endless:
    def __len__(self) -> int:
        return 2**31 - 5


def test_a_frame_beyond_what_its_size_can_say_is_refused() -> None:
    response = FetchResponse(responses=[FetchableTopicResponse("t", partitions=[PartitionData(records=Endless())])])
    with pytest.raises(EncodeError, match="a frame of"):
        frame.encode_response(1, response, 11)


def test_a_client_id_beyond_its_length_is_refused() -> None:
    with pytest.raises(EncodeError, match="client id"):
        frame.encode_request(12, 0, 1, "x" * 40_000, HeartbeatRequest())


def test_a_garbled_response_is_refused() -> None:
    raw = unsized(frame.encode_response(1, HeartbeatResponse(), 4))
    with pytest.raises(TrailingBytes):
        frame.decode_response(raw + b"\0", HeartbeatResponse, 4)
    for end in range(len(raw)):
        with pytest.raises(DecodeError):
            frame.decode_response(raw[:end], HeartbeatResponse, 4)


def test_a_header_of_very_many_tagged_fields_is_rejected_before_they_are_read() -> None:
    count = decoding.MAX_HEADER_TAGS
    head = bytes.fromhex("0012 0003 00000007 ffff")
    for extra in (0, 1):
        tags = bytes(((count + extra) & 0x7F | 0x80, (count + extra) >> 7)) + b"\x05\x00" * (count + extra)
        if extra:
            with pytest.raises(InvalidField):
                frame.decode_request_header(head + tags)
        else:
            assert frame.decode_request_header(head + tags)[1] == len(head + tags)
