"""Varints and UUIDs: the leaves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.protocol.errors import DecodeError, EncodeError, InvalidField
from odradek.protocol.primitives import (
    ZERO_UUID,
    decode_uvarint,
    encode_uvarint,
    uuid_from_text,
    uuid_to_text,
)


@given(st.integers(0, 2**32 - 1))
def test_a_varint_comes_back(value: int) -> None:
    raw = encode_uvarint(value)
    assert decode_uvarint(b"front" + raw + b"\xff", 5) == (value, 5 + len(raw))
    assert len(raw) == max(1, -(-value.bit_length() // 7))


@pytest.mark.parametrize(
    ("value", "raw"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**31 - 1, "ffffffff07"), (2**32 - 1, "ffffffff0f")],
)
def test_varints_have_the_bytes_of_the_protocol(value: int, raw: str) -> None:
    assert encode_uvarint(value).hex() == raw


@pytest.mark.parametrize("value", [-1, 2**32])
def test_a_number_outside_of_32_bits_is_no_varint(value: int) -> None:
    with pytest.raises(EncodeError):
        encode_uvarint(value)


@pytest.mark.parametrize("raw", ["", "80", "ffffff", "ffffffff10", "808080808001"])
def test_cut_and_endless_varints_are_refused(raw: str) -> None:
    with pytest.raises(DecodeError):
        decode_uvarint(bytes.fromhex(raw), 0)


def test_uuids_have_kafkas_text() -> None:
    assert uuid_to_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_to_text(bytes(15) + b"\x01") == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_to_text(b"\xff" * 16) == "_____________________w"


@given(st.binary(min_size=16, max_size=16))
def test_a_uuid_comes_back_from_its_text(uuid: bytes) -> None:
    assert uuid_from_text(uuid_to_text(uuid)) == uuid


@pytest.mark.parametrize("text", ["", "short", "AAAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAA+AAAAAAAAAAA", "\u00e9" * 22])
def test_other_text_is_no_uuid(text: str) -> None:
    with pytest.raises(InvalidField):
        uuid_from_text(text)
