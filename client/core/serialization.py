"""Serializers and deserializers: keys and values of any type to bytes, and back. Named ones are "bytes", "str", "json"
and "msgpack".

One of your own is a function, or an object with a method `encode` (`decode`). None is never passed to it: a null stays
null. One that must know the topic has a method `encode_at_once` (`decode_at_once`), which may raise SchemaMissing: then
the client awaits what is missing, and calls it again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from ..errors import (
    DeserializationFailed,
    InvalidOption,
    SchemaRegistryRefused,
    SchemaRegistryUnavailable,
    SerializationFailed,
)
from ..record import ConsumerRecord
from .lifetime import retrieve

if TYPE_CHECKING:
    import typing_extensions

    # What a consumer's deserializers return. A name such as "json" does not say it to a type checker.
    KeyT = typing_extensions.TypeVar("KeyT", default=Any)
    ValueT = typing_extensions.TypeVar("ValueT", default=Any)
else:
    KeyT = TypeVar("KeyT")
    ValueT = TypeVar("ValueT")
T = TypeVar("T")
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


class TopicEncoder(Protocol):
    """Turns keys or values into bytes, by their topic."""

    def encode_at_once(self, content: Any, topic: str, field: str, /) -> bytes | None:
        """Return the bytes of a key or value; `field` is "key" or "value". Raises SchemaMissing."""
        ...


class TopicDecoder(Protocol):
    """Turns bytes into keys or values, by their topic."""

    def decode_at_once(self, content: bytes, topic: str, field: str, /) -> Any:
        """Return the key or value that the bytes stand for. Raises SchemaMissing."""
        ...


class SchemaMissing(Exception):
    """A serializer must ask somebody before it can go on. `ask` begins that, in another thread."""

    def __init__(self, ask: Callable[[], Future[Any]]) -> None:
        super().__init__("the schema registry must be asked first, which takes its time: use a method that waits")
        self._ask = ask
        # What interceptors have made of a record that was to be sent: they see it once.
        self.record: tuple[Any, ...] | None = None

    async def load(self) -> None:
        """Wait until it is known. Raises SchemaRegistryUnavailable, SchemaRegistryRefused."""
        try:
            await asyncio.wrap_future(self._ask())
        except SchemaRegistryRefused as error:
            # What does not exist is known now, and the serializer says what it means for the record.
            if error.status != 404:
                raise


class MissingSchema:
    """The schema that the polls of a consumer miss: it is asked for once, also where a poll ends before the answer."""

    def __init__(self, spawn: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]], answered: asyncio.Event):
        self._spawn, self._answered = spawn, answered
        self._asking: asyncio.Task[None] | None = None

    def ask(self, missing: SchemaMissing) -> None:
        """Set the event when there is an answer: then the records are tried again. Raises why the last one failed."""
        asking = self._asking
        if asking is None or asking.done():
            self._asking = None
            if asking is not None and not asking.cancelled():
                asking.result()
            self._asking = asking = self._spawn(missing.load(), "schema")
            asking.add_done_callback(self._end)
        self._answered.clear()

    def _end(self, asking: asyncio.Task[None]) -> None:
        retrieve(asking)
        self._answered.set()


Serializer = str | Callable[[Any], bytes | None] | Encoder[Any] | TopicEncoder
DeserializerOf = str | Callable[[bytes], T] | Decoder[T] | TopicDecoder
Deserializer = DeserializerOf[Any]
# The default of a deserializer is None. A type checker learns from it that keys and values are bytes.
AS_BYTES = cast("Decoder[bytes] | None", None)
# Content and topic -> bytes; bytes and topic -> content.
Serialize = Callable[[Any, str], bytes | None]
_Deserialize = Callable[[bytes, str], Any]


def _chosen(
    option: object, field: str, method: str, named: Mapping[str, Callable[[Any], Any]]
) -> Callable[[Any, str], Any] | None:
    """Return the function for an option, None for bytes as they are. Raises InvalidOption, which names the field."""
    if option is None or option == "bytes":
        return None
    by_topic = getattr(option, f"{method}_at_once", None)
    if by_topic is not None:
        return lambda content, topic: by_topic(content, topic, field)
    function = _function(option, f"{field}_{'' if method == 'encode' else 'de'}serializer", method, named)
    return lambda content, topic: function(content)


def _function(
    option: object, name: str, method: str, named: Mapping[str, Callable[[Any], Any]]
) -> Callable[[Any], Any]:
    if isinstance(option, str):
        if option not in named:
            raise InvalidOption(f"{name} must be one of bytes, {', '.join(named)}, or your own")
        return named[option]
    function = getattr(option, method, option)
    if not callable(function):
        raise InvalidOption(f"{name} must be a name, a function or an object with a method {method}")
    return function


# -- To bytes


def serializer(option: Serializer | None, field: str) -> Serialize | None:
    """Return the function for an option, None if only bytes are taken. Raises InvalidOption, which names the field.

    The function raises SerializationFailed, SchemaMissing, SchemaRegistryRefused.
    """
    encode = _chosen(option, field, "encode", _SERIALIZERS)
    return None if encode is None else _checked(encode, field)


def _checked(encode: Callable[[Any, str], Any], field: str) -> Serialize:
    def serialize(content: Any, topic: str) -> bytes | None:
        if content is None:
            return None
        try:
            return checked_bytes(encode(content, topic), field)
        except (SchemaMissing, SchemaRegistryRefused, SchemaRegistryUnavailable):
            raise
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
        self._key = _chosen(key, "key", "decode", _DESERIALIZERS)
        self._value = _chosen(value, "value", "decode", _DESERIALIZERS)

    def __bool__(self) -> bool:
        return self._key is not None or self._value is not None

    def one(self, record: ConsumerRecord) -> ConsumerRecord[Any, Any]:
        """Return a record with its key and value as objects. Raises DeserializationFailed, SchemaMissing."""
        key = _object(self._key, "key", record.key, record)
        return record._replace(key=key, value=_object(self._value, "value", record.value, record))

    async def one_in_time(self, record: ConsumerRecord) -> ConsumerRecord[Any, Any]:
        """Do as `one`, and wait for schemas. Raises DeserializationFailed, or the error of the schema registry."""
        while True:
            try:
                return self.one(record)
            except SchemaMissing as missing:
                await missing.load()

    def many(self, records: list[ConsumerRecord]) -> list[ConsumerRecord[Any, Any]]:
        """Do as `one` up to the first record that fails. It is raised if that is the first of all."""
        if not self:
            return records
        made: list[ConsumerRecord[Any, Any]] = []
        try:
            for record in records:
                made.append(self.one(record))
        except (DeserializationFailed, SchemaMissing, SchemaRegistryUnavailable):
            if not made:
                raise
        return made


def _object(function: _Deserialize | None, field: str, content: bytes | None, record: ConsumerRecord) -> Any:
    if function is None or content is None:
        return content
    try:
        return function(content, record.topic)
    except (SchemaMissing, SchemaRegistryUnavailable):
        raise
    except Exception as error:
        raise DeserializationFailed(field, record, error) from error


def _from_msgpack(content: bytes) -> Any:
    import msgpack  # loaded by those who use it

    unpackb = cast("Callable[[bytes], Any]", msgpack.unpackb)  # pyright: ignore[reportUnknownMemberType]
    return unpackb(content)


_DESERIALIZERS: dict[str, Callable[[bytes], Any]] = {"str": bytes.decode, "json": json.loads, "msgpack": _from_msgpack}
