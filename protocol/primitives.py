"""The leaves of every message: unsigned varints, compact lengths and UUIDs.

Big-endian throughout. An unsigned varint carries seven bits a byte, lowest first, and is at most five bytes long (32
bits). A compact length is a varint of the length plus one, so that zero can say null. A UUID is its 16 bytes; its text
is Kafka's own: base64 with the URL alphabet and no padding.
"""

from __future__ import annotations

import base64
import re

from .errors import EncodeError, InvalidField, TruncatedMessage

Buffer = bytes | bytearray | memoryview

ZERO_UUID = bytes(16)
"""Stands for "no UUID" on the wire: a UUID is never null."""

BLANKS = "".join(map(chr, range(0x21)))
"""What Kafka removes around a text, by Java's trim. Python's strip would remove others."""

MAX_UVARINT = 0xFFFFFFFF

SMALL_UVARINTS = tuple(bytes((value,)) for value in range(128))
"""The varints of one byte, made once: nearly every count and length on the wire is one of them."""


def encode_uvarint(value: int) -> bytes:
    """Return the varint of 0 <= value < 2**32. Raises EncodeError outside of that."""
    if 0 <= value < 128:
        return SMALL_UVARINTS[value]
    if not 0 <= value <= MAX_UVARINT:
        raise EncodeError(f"{value} does not fit an unsigned varint of 32 bits")
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def decode_uvarint(buffer: Buffer, offset: int) -> tuple[int, int]:
    """(value, the offset after it). Raises TruncatedMessage at the buffer's end, InvalidField past 32 bits."""
    try:
        first = buffer[offset]
    except IndexError:
        raise TruncatedMessage(f"a varint is cut off at offset {offset}") from None
    if first < 128:
        return first, offset + 1
    return decode_uvarint_tail(buffer, offset + 1, first)


def decode_uvarint_tail(buffer: Buffer, offset: int, first: int) -> tuple[int, int]:
    """Finish decode_uvarint: the first byte (128 or more) has been read, and offset is behind it."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        try:
            byte = buffer[offset]
        except IndexError:
            raise TruncatedMessage(f"a varint is cut off at offset {offset}") from None
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            if value > MAX_UVARINT:
                break
            return value, offset
    raise InvalidField(f"the varint before offset {offset} is longer than 32 bits")


def uuid_to_text(uuid: bytes) -> str:
    """Return Kafka's text of a UUID, 22 characters; of ZERO_UUID "AAAAAAAAAAAAAAAAAAAAAA"."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> bytes:
    """Return the 16 bytes of a UUID from Kafka's text. Raises InvalidField if text is no UUID."""
    if re.fullmatch(r"[A-Za-z0-9_-]{22}(==)?", text) is None:
        raise InvalidField(f"{text!r} is not a UUID in base64: 22 letters, digits, - or _")
    return base64.urlsafe_b64decode(text[:22] + "==")
