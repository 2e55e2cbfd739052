"""Serializers: how keys and values of any type become bytes. Named ones are "bytes", "str", "json" and "msgpack".

A serializer of your own is a function, or an object with a method `encode`. None is never serialized: it stays null.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from ..errors import InvalidOption, SerializationFailed
from .record_checks import checked_bytes

T_contra = TypeVar("T_contra", contravariant=True)


class Encoder(Protocol[T_contra]):
    """Turns keys or values into bytes."""

    def encode(self, content: T_contra, /) -> bytes | None:
        """Return the bytes of a key or value; None means null."""
        ...


Serializer = str | Callable[[Any], bytes | None] | Encoder[Any]


def serializer(option: Serializer | None, field: str) -> Callable[[Any], bytes | None] | None:
    """Return the function for an option, None if only bytes are taken. Raises InvalidOption, which names the field."""
    if option is None or option == "bytes":
        return None
    if isinstance(option, str):
        found = _NAMED.get(option)
        if found is None:
            raise InvalidOption(f"{field}_serializer must be one of bytes, {', '.join(_NAMED)}, or your own")
        return _checked(found, field)
    encode = getattr(option, "encode", option)
    if not callable(encode):
        raise InvalidOption(f"{field}_serializer must be a name, a function or an object with a method encode")
    return _checked(encode, field)


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


def _json(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _msgpack(content: Any) -> bytes:
    import msgpack  # loaded by those who use it

    packb = cast("Callable[[Any], bytes]", msgpack.packb)  # pyright: ignore[reportUnknownMemberType]
    return packb(content)


_NAMED: dict[str, Callable[[Any], bytes]] = {"str": str.encode, "json": _json, "msgpack": _msgpack}
