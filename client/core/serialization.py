"""Serializers and deserializers: keys and values of any type to bytes, and back. Named ones are "bytes", "str", "json"
and "msgpack".

One of your own is a function, or an object with a method `encode` (`decode`). None is never passed to it: a null stays
null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, cast

from ..errors import DeserializationFailed, InvalidOption, SerializationFailed
from ..record import ConsumerRecord

T_contra = TypeVar("T_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)


class Encoder(Protocol[T_contra]):
    """Turns keys or values into bytes."""

    def encode(self, content: T_contra, /) -> bytes | None:
        """Return the bytes of a key or value; None means null."""
        ...


class Decoder(Protocol[T_co]):
    """Turns bytes into keys or values."""

    def decode(self, content: bytes, /) -> T_co:
        """Return the key or value that the bytes stand for."""
        ...


Serializer = str | Callable[[Any], bytes | None] | Encoder[Any]
Deserializer = str | Callable[[bytes], Any] | Decoder[Any]


def _chosen(
    option: object, name: str, method: str, named: Mapping[str, Callable[[Any], Any]]
) -> Callable[[Any], Any] | None:
    """Return the function for an option, None for bytes as they are. Raises InvalidOption, which has its `name`."""
    if option is None or option == "bytes":
        return None
    if isinstance(option, str):
        if option not in named:
            raise InvalidOption(f"{name} must be one of bytes, {', '.join(named)}, or your own")
        return named[option]
    function = getattr(option, method, option)
    if not callable(function):
        raise InvalidOption(f"{name} must be a name, a function or an object with a method {method}")
    return function


# -- To bytes


def serializer(option: Serializer | None, field: str) -> Callable[[Any], bytes | None] | None:
    """Return the function for an option, None if only bytes are taken. Raises InvalidOption, which names the field."""
    encode = _chosen(option, f"{field}_serializer", "encode", _SERIALIZERS)
    return None if encode is None else _checked(encode, field)


def _checked(encode: Callable[[Any], Any], field: str) -> Callable[[Any], bytes | None]:
    def serialize(content: Any) -> bytes | None:
        if content is None:
            return None
        try:
            return checked_bytes(encode(content), field)
        except Exception as error:
            text = f"the serializer cannot turn this {field} ({type(content).__name__}) into bytes: {error}"
            raise SerializationFailed(text) from error

    return serialize


class Serialized(bytes):
    """Bytes that a producer sends as they are, past its serializers: those of a record that somebody else has made."""


def checked_bytes(content: object, field: str) -> bytes | None:
    """Return a key or value as bytes. Raises TypeError for other types."""
    if content is None or isinstance(content, bytes):
        return content
    if isinstance(content, (bytearray, memoryview)):
        return bytes(cast("bytearray | memoryview[int]", content))
    raise TypeError(f"{field} must be bytes or None, not {type(content).__name__}: encode it first")


def _to_json(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _to_msgpack(content: Any) -> bytes:
    import msgpack  # loaded by those who use it

    packb = cast("Callable[[Any], bytes]", msgpack.packb)  # pyright: ignore[reportUnknownMemberType]
    return packb(content)


_SERIALIZERS: dict[str, Callable[[Any], bytes]] = {"str": str.encode, "json": _to_json, "msgpack": _to_msgpack}


# -- From bytes


class Deserializers:
    """What a consumer does to the keys and values of the records that it returns."""

    def __init__(self, key: Deserializer | None, value: Deserializer | None) -> None:
        self._key = _chosen(key, "key_deserializer", "decode", _DESERIALIZERS)
        self._value = _chosen(value, "value_deserializer", "decode", _DESERIALIZERS)

    def __bool__(self) -> bool:
        return self._key is not None or self._value is not None

    def one(self, record: ConsumerRecord) -> ConsumerRecord[Any, Any]:
        """Return a record with its key and value as objects. Raises DeserializationFailed."""
        key = _object(self._key, "key", record.key, record)
        return record._replace(key=key, value=_object(self._value, "value", record.value, record))

    def many(self, records: list[ConsumerRecord]) -> list[ConsumerRecord[Any, Any]]:
        """Do as `one` up to the first record that fails. Raises DeserializationFailed if that is the first of all."""
        if not self:
            return records
        made: list[ConsumerRecord[Any, Any]] = []
        try:
            for record in records:
                made.append(self.one(record))
        except DeserializationFailed:
            if not made:
                raise
        return made


def _object(function: Callable[[bytes], Any] | None, field: str, content: bytes | None, record: ConsumerRecord) -> Any:
    if function is None or content is None:
        return content
    try:
        return function(content)
    except Exception as error:
        raise DeserializationFailed(field, record, error) from error


def _from_msgpack(content: bytes) -> Any:
    import msgpack  # loaded by those who use it

    unpackb = cast("Callable[[bytes], Any]", msgpack.unpackb)  # pyright: ignore[reportUnknownMemberType]
    return unpackb(content)


_DESERIALIZERS: dict[str, Callable[[bytes], Any]] = {"str": bytes.decode, "json": json.loads, "msgpack": _from_msgpack}
