"""Encode and decode any declared message: the door to the compiled codecs.

A codec is compiled when its (message, version) is first asked for, which takes about a millisecond, and is kept. There
are only as many as there are declared versions, so what is kept is bounded by the code itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import TypeVar

from .decoding import Decoder, compile_decoder
from .encoding import Piece, compile_encoder
from .errors import EncodeError, TrailingBytes, TruncatedMessage
from .primitives import Buffer
from .schema import Message

__all__ = [
    "Buffer",
    "Decoder",
    "Piece",
    "decode",
    "decode_versioned",
    "decoder",
    "encode",
    "encode_versioned",
    "encoder",
]

M = TypeVar("M", bound=Message)


def decode(cls: type[M], version: int, buffer: Buffer, offset: int = 0) -> M:
    """Return the message that fills buffer from offset to its end. Raises DecodeError; TrailingBytes for bytes left."""
    message, end = decoder(cls, version)(buffer, offset)
    if end != len(buffer):
        raise TrailingBytes(f"{cls.__name__} v{version} ends at offset {end} of {len(buffer)}")
    return message


def encode(message: Message, version: int) -> list[Piece]:
    """Return the message's bytes as pieces, at least one. Raises EncodeError if a value does not fit the version."""
    return encoder(message.__class__, version)(message)


@cache
def decoder(cls: type[M], version: int) -> Decoder[M]:
    """Return the compiled decoder. Raises UnknownVersion."""
    return compile_decoder(cls, version)


@cache
def encoder(cls: type[M], version: int) -> Callable[[M], list[Piece]]:
    """Return the compiled function message -> pieces. Raises EncodeError if cls has no such version."""
    return compile_encoder(cls, version)


def encode_versioned(message: Message, version: int) -> bytes:
    """Return the version as int16 and the message: the form in records and in bytes fields of other messages."""
    pieces = encoder(message.__class__, version)(message)
    if len(pieces) != 1 or not isinstance(pieces[0], bytes):
        raise EncodeError(f"{message.__class__.__name__} holds records, which have no versioned form")
    return struct.pack(">h", version) + pieces[0]


def decode_versioned(cls: type[M], buffer: Buffer) -> M:
    """Return the message that follows its version as int16. Raises DecodeError; UnknownVersion if cls lacks it."""
    if len(buffer) < 2:
        raise TruncatedMessage(f"{cls.__name__} lacks the two bytes of its version")
    (version,) = struct.unpack_from(">h", buffer)
    return decode(cls, version, buffer, 2)
