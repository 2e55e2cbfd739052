"""Bytes that are no message: always a DecodeError, never another exception, and no memory for a mere announcement."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from odradek.protocol import codec, frame
from odradek.protocol.errors import DecodeError, InvalidField, TruncatedMessage
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.schema import Message

FLIPS = 40
"""Random changes a version: with every version of every message that is ten thousand."""

PEAK_BYTES = 64 * 1024
"""Far above what a message of some hundred bytes needs, far below what its lengths can announce."""


def decode_or_refuse(cls: type[Message], version: int, buffer: bytes) -> None:
    try:
        codec.decode(cls, version, buffer)
    except DecodeError:
        return


def test_every_truncation_is_refused(cls: type[Message], sample: Callable[..., Any]) -> None:
    for version in cls.VERSIONS:
        buffer = b"".join(codec.encode(sample(cls, version), version))  # type: ignore[arg-type]
        for end in range(len(buffer)):
            try:
                taken = codec.decode(cls, version, buffer[:end])
            except DecodeError:  # `pytest.raises` costs more than a codec
                continue
            pytest.fail(f"version {version} took {end} bytes: {taken}")


def test_a_truncation_inside_a_larger_buffer_is_refused(sample: Callable[..., Any]) -> None:
    buffer = b"".join(codec.encode(sample(ProduceRequest, 9), 9))  # type: ignore[arg-type]
    view = memoryview(buffer + bytes(100))
    for end in range(len(buffer)):
        with pytest.raises(DecodeError):
            codec.decode(ProduceRequest, 9, view[:end])


def test_random_changes_never_raise_anything_else(cls: type[Message], sample: Callable[..., Any]) -> None:
    for version in cls.VERSIONS:
        original = b"".join(codec.encode(sample(cls, version), version))  # type: ignore[arg-type]
        chance = random.Random(f"{cls.__name__} {version}")
        for _ in range(FLIPS if original else 0):
            decode_or_refuse(cls, version, changed_at_random(chance, original))


def changed_at_random(chance: random.Random, original: bytes) -> bytes:
    """Return the bytes with one to four changed to what lengths, counts and flags are made of, or to anything."""
    changed = bytearray(original)
    for _ in range(chance.randint(1, 4)):
        changed[chance.randrange(len(changed))] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    return bytes(changed)


def test_what_is_announced_costs_no_memory(sample: Callable[..., Any]) -> None:
    """Each byte in turn is made the start of a length or count near 2**31, in both forms."""
    for cls, version in ((ProduceRequest, 9), (FetchRequest, 18), (FetchRequest, 11), (MetadataRequest, 9)):
        original = b"".join(codec.encode(sample(cls, version), version))  # type: ignore[arg-type]
        decode_or_refuse(cls, version, original)  # compiled before memory is counted
        for huge in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f"):
            for position in range(len(original)):
                changed = original[:position] + huge + original[position + len(huge) :]
                tracemalloc.start()
                decode_or_refuse(cls, version, changed)
                _, peak = tracemalloc.get_traced_memory()
                tracemalloc.stop()
                assert peak < PEAK_BYTES


def test_a_count_beyond_the_bytes_that_are_left_is_refused_before_its_first_element() -> None:
    with pytest.raises(TruncatedMessage, match="topics announces 1000"):
        codec.decode(MetadataRequest, 0, (1000).to_bytes(4, "big") + b"\0\1a" * 400)


@pytest.mark.parametrize("number", [0, 3])
def test_null_where_none_is_allowed_is_refused(number: int) -> None:
    with pytest.raises(InvalidField, match="group_id"):
        codec.decode(HeartbeatRequest, number, b"\xff\xff" + bytes(20))


def test_compact_null_where_none_is_allowed_is_refused() -> None:
    with pytest.raises(InvalidField, match="group_id"):
        codec.decode(HeartbeatRequest, 4, b"\x00" + bytes(20))


@pytest.mark.parametrize("length", [b"\xff\xfe", b"\x80\x00"])
def test_a_negative_length_other_than_null_is_refused(length: bytes) -> None:
    with pytest.raises(InvalidField):
        codec.decode(ProduceRequest, 3, length + bytes(20))


def test_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(InvalidField, match="UTF-8"):
        codec.decode(HeartbeatRequest, 0, b"\x00\x02\xc3\x28" + b"\0\0\0\1" + b"\0\0")


@pytest.mark.parametrize("varint", [b"\xff\xff\xff\xff\xff", b"\x80\x80\x80\x80\x80\x01", b"\xff\xff\xff\xff\x10"])
def test_a_varint_beyond_32_bits_is_refused(varint: bytes) -> None:
    with pytest.raises(InvalidField, match="32 bits"):
        codec.decode(HeartbeatRequest, 4, varint + bytes(20))


@pytest.mark.parametrize(
    "tail",
    [b"\x7f", b"\x01", b"\x01\x00", b"\x01\x00\x05a", b"\xff\xff\xff\xff\x0f\x00\x00", b"\x01\xff\xff\xff\xff\xff\x00"],
    ids=["count", "no tag", "no size", "size beyond", "count beyond", "tag beyond 32 bits"],
)
def test_broken_tagged_fields_are_refused(tail: bytes) -> None:
    plain = b"".join(codec.encode(HeartbeatRequest("g", 1, "m"), 4))  # type: ignore[arg-type]
    with pytest.raises(DecodeError):
        codec.decode(HeartbeatRequest, 4, plain[:-1] + tail)


def test_random_bytes_are_no_header_either() -> None:
    chance = random.Random(7)
    for _ in range(2000):
        try:
            frame.decode_request_header(chance.randbytes(chance.randrange(24)))
        except DecodeError:
            continue
