"""Frames: the length and the header around a message on a connection.

    request:   size int32 | key int16 | version int16 | correlation id int32 | client id | [tagged fields] | body
    response:  size int32 | correlation id int32 | [tagged fields] | body

The size counts what follows it. The client id is a nullable string with an int16 length in every header version. Only
flexible versions have the tagged fields: request header version 2 instead of 1, response header version 1 instead of 0.
The response of ApiVersions never has them, because a client that does not know the broker yet must be able to read it.
A connection takes the size off before it decodes a frame; the encoders here put it in front.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeVar, cast

from .apis import ApiKey, request_class
from .codec import Piece, decode, encoder
from .decoding import FrameDecoder, compile_frame_decoder, skip_header_tags
from .encoding import MAX_FRAME_BYTES, compile_frame_encoder, too_large
from .errors import EncodeError, InvalidField, TruncatedMessage
from .primitives import Buffer
from .schema import Message

M = TypeVar("M", bound=Message)

# What a request begins with: it says how the rest is read.
KEY_AND_VERSION = struct.Struct(">hh")
_request_head = struct.Struct(">hhih")
_int32 = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """The API, version and client of a request."""

    api_key: int
    """Not always a known one."""
    api_version: int
    correlation_id: int
    """Given back with the response."""
    client_id: str | None


def decode_request_header(buffer: Buffer) -> tuple[RequestHeader, int]:
    """(header, where the body begins) of a frame without its size. Raises DecodeError.

    Of an API or version that is not declared, the offset is that behind the client id: whether tagged fields follow
    cannot be known, and the caller has no use for the body anyway.
    """
    try:
        key, version, correlation_id, length = _request_head.unpack_from(buffer)
    except struct.error:
        raise TruncatedMessage(f"a request header does not fit in {len(buffer)} bytes") from None
    position = 10
    if length >= 0:
        position += length
        if position > len(buffer):
            raise TruncatedMessage(f"a client id of {length} bytes does not fit in the frame of {len(buffer)}")
        try:
            client_id = str(buffer[10:position], "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidField("the client id is not UTF-8") from error
    elif length == -1:
        client_id = None
    else:
        raise InvalidField(f"the client id has the length {length}")
    cls = request_class(key)
    if cls is not None and version in cls.VERSIONS and version in cls.FLEXIBLE:
        position = _skip_tags(buffer, position)
    return RequestHeader(key, version, correlation_id, client_id), position


def encode_request(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, message: Message
) -> list[Piece]:
    """Return a whole frame, its size in front. Raises EncodeError."""
    pieces = encoder(message.__class__, api_version)(message)
    try:
        text = b"" if client_id is None else client_id.encode()
        length = -1 if client_id is None else len(text)
        head = _request_head.pack(api_key, api_version, correlation_id, length) + text
    except (struct.error, UnicodeEncodeError) as error:
        raise EncodeError(f"a request header cannot hold the client id {client_id!r:.40}: {error}") from error
    if api_version in message.__class__.FLEXIBLE:
        head += b"\0"
    size = len(head) + sum(map(len, pieces))
    if size > MAX_FRAME_BYTES:
        too_large(size)
    # The first piece is bytes in every message: a length precedes any records.
    pieces[0] = _int32.pack(size) + head + cast("bytes", pieces[0])
    return pieces


def encode_response(correlation_id: int, message: Message, version: int) -> list[Piece]:
    """Return a whole frame, its size in front. The first piece is bytes; records are pieces too. Raises EncodeError."""
    return response_encoder(message.__class__, version)(correlation_id, message)


@cache  # one entry for each declared version at most
def response_encoder(cls: type[Message], version: int) -> Callable[[int, Message], list[Piece]]:
    """Return the compiled function (correlation id, response) -> pieces of the frame. Raises EncodeError."""
    return compile_frame_encoder(cls, version, tags=_has_tags(cls, version))


@cache  # as above
def request_decoder(cls: type[M], version: int) -> FrameDecoder[M]:
    """Return the compiled decoder of a whole request frame, without its size. Raises UnknownVersion."""
    return compile_frame_decoder(cls, version)


def decode_response(buffer: Buffer, cls: type[M], version: int) -> tuple[int, M]:
    """(correlation id, message) of a frame without its size. Raises DecodeError."""
    if len(buffer) < 4:
        raise TruncatedMessage(f"a response header does not fit in {len(buffer)} bytes")
    (correlation_id,) = _int32.unpack_from(buffer)
    position = 4
    if _has_tags(cls, version):
        position = _skip_tags(buffer, position)
    return correlation_id, decode(cls, version, buffer, position)


def _has_tags(cls: type[Message], version: int) -> bool:
    """Return whether the header of this response ends in tagged fields."""
    return version in cls.FLEXIBLE and cls.KEY != ApiKey.API_VERSIONS


def _skip_tags(buffer: Buffer, position: int) -> int:
    """Return the position behind a header's tagged fields: usually one byte, because there are none."""
    end = len(buffer)
    if position >= end:
        raise TruncatedMessage("the header's tagged fields are missing")
    first = buffer[position]
    if not first:
        return position + 1
    return skip_header_tags(buffer, position + 1, first, end)
