"""Requests and responses as dicts by the field names of Kafka's specifications, such as {"Topics": [{"Name": "t"}]}.

Fields that a request leaves out have their defaults; fields that its version lacks are dropped. A response has every
field of its version but our own additions. UUIDs are text, records bytes.
"""

from __future__ import annotations

import re
import struct
import uuid
from functools import cache
from typing import Any, Literal

from odradek.protocol import codec, frame
from odradek.protocol.apis import ApiKey, message
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsResponse
from odradek.protocol.schema import OWN_TAGS, Field, Message, Struct, span


@cache
def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def message_class(api: str, kind: Literal["request", "response"]) -> type[Message]:
    return message(ApiKey[snake(api).upper()], kind)


def encode_request(api: str, version: int, correlation_id: int, client_id: str, body: dict[str, Any]) -> bytes:
    """Return the frame, without its length. A version above the highest has the form of the highest."""
    cls = message_class(api, "request")
    form = min(version, cls.VERSIONS[-1])
    pieces = frame.encode_request(int(cls.KEY or 0), form, correlation_id, client_id, made(cls, body, form))
    data = bytearray(b"".join(bytes(piece) for piece in pieces)[4:])
    struct.pack_into(">h", data, 2, version)
    return bytes(data)


def encode_body(api: str, version: int, body: dict[str, Any]) -> bytes:
    cls = message_class(api, "request")
    return b"".join(bytes(piece) for piece in codec.encode(made(cls, body, version), version))


def decode_response(api: str, version: int, data: bytes) -> dict[str, Any]:
    """Return the fields of a frame. A refused ApiVersions has version 0. Raises DecodeError."""
    cls = message_class(api, "response")
    if cls is ApiVersionsResponse and struct.unpack_from(">h", data, 4)[0] == ErrorCode.UNSUPPORTED_VERSION:
        version = 0
    return shown(frame.decode_response(data, cls, version)[1], version)


def made(cls: type[Any], body: dict[str, Any], version: int) -> Any:
    """Return the struct that a dict describes. Raises KeyError for a field that it does not have."""
    fields = {field.name: field for field in cls.FIELDS}
    given = {snake(name): value for name, value in body.items()}
    present = {name: value for name, value in given.items() if version in span(fields[name].versions)}
    return cls(**{name: _inward(fields[name], value, version) for name, value in present.items()})


def _inward(field: Field, value: Any, version: int) -> Any:
    if isinstance(value, dict):
        return made(field.struct(), value, version)
    if isinstance(value, list):
        return [_inward(field, each, version) for each in value]
    return uuid.UUID(value).bytes if "uuid" in (field.kind, field.of) and value is not None else value


def shown(value: Struct, version: int) -> dict[str, Any]:
    """Return the fields of a struct that its version has."""
    fields = (each for each in type(value).FIELDS if version in span(each.versions) and (each.tag or 0) < OWN_TAGS)
    return {each.name.title().replace("_", ""): _outward(each, getattr(value, each.name), version) for each in fields}


def _outward(field: Field, value: Any, version: int) -> Any:
    if isinstance(value, Struct):
        return shown(value, version)
    if isinstance(value, list):
        return [_outward(field, each, version) for each in value]
    if isinstance(value, memoryview):
        return bytes(value)
    return str(uuid.UUID(bytes=value)) if "uuid" in (field.kind, field.of) and value is not None else value
