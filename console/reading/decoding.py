"""What the bytes of a key or value are: JSON, MessagePack, text, a schema registry's Avro or JSON, or nothing known.

`auto` looks at the bytes; any other form is taken at the user's word, and bytes that are not of it are shown in hex.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

import msgpack

FORMS = ("auto", "text", "json", "msgpack", "avro", "json-schema", "int", "hex")
# Parsing more takes longer than a turn of the loop may; it is shown as text.
MAX_PARSED_BYTES = 1 << 20
# What is nested deeper is shown as text, too: filters and pages recurse over values, and Python's recursion has an end.
MAX_LEVELS = 100
_JSON_BEGINNINGS = frozenset(b'{["-0123456789tfn')
# MessagePack's maps and arrays: their first byte. Other values begin as text does.
_MSGPACK_BEGINNINGS = frozenset((*range(0x80, 0xA0), *range(0xDC, 0xE0)))
_REGISTRY_MAGIC = 0

_REGISTERED = ("avro", "json-schema")

# From bytes with the id of a schema to their form, of _REGISTERED, and plain JSON. Raises UndecodableValue.
SchemaDecoder = Callable[[bytes], tuple[str, Any]]


_unpack = cast("Callable[..., Any]", msgpack.unpackb)  # pyright: ignore[reportUnknownMemberType]


class UndecodableValue(Exception):
    """Bytes that are not of the form that they should have; the text says why."""


class Decoded(NamedTuple):
    """What bytes mean. `text` is for people, `value` for filters: plain values as JSON has them."""

    form: str
    value: Any
    text: str


NULL = Decoded("null", None, "null")


def decode(data: bytes | None, form: str = "auto", by_schema: SchemaDecoder | None = None) -> Decoded:
    """Return what bytes mean in a form of FORMS. Never raises: bytes that are not of that form are shown in hex."""
    if data is None:
        return NULL
    if form == "auto":
        return _guessed(data, by_schema)
    try:
        return _DECODERS[form](data) if form not in _REGISTERED else _registered(data, by_schema, form)
    except UndecodableValue as error:
        return _hex(data)._replace(form=f"not {form}: {error}")


def _guessed(data: bytes, by_schema: SchemaDecoder | None) -> Decoded:
    for attempt in _attempts(data, by_schema):
        try:
            return attempt()
        except UndecodableValue:
            continue
    return _hex(data)


def _attempts(data: bytes, by_schema: SchemaDecoder | None) -> list[Callable[[], Decoded]]:
    found: list[Callable[[], Decoded]] = []
    if not data:
        return [lambda: Decoded("text", "", "")]
    if data[0] in _JSON_BEGINNINGS:
        found.append(lambda: _json(data))
    if data[0] == _REGISTRY_MAGIC and len(data) > 5 and by_schema is not None:
        found.append(lambda: _registered(data, by_schema))
    found.append(lambda: _text(data))
    if data[0] in _MSGPACK_BEGINNINGS:
        found.append(lambda: _msgpack(data))
    return found


def _json(data: bytes) -> Decoded:
    _check_size(data)
    try:
        text = data.decode()
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UndecodableValue(_why(error)) from error
    if text.count("[") + text.count("{") > MAX_LEVELS:
        _check_levels(value)
    return Decoded("json", value, text)


def _text(data: bytes) -> Decoded:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UndecodableValue("no UTF-8") from error
    if "\x00" in text:
        raise UndecodableValue("zero bytes")
    return Decoded("text", text, text)


def _shown_text(data: bytes) -> Decoded:
    text = data.decode("utf-8", "backslashreplace")
    return Decoded("text", text, text)


def _msgpack(data: bytes) -> Decoded:
    _check_size(data)
    try:
        plain = _plain(_unpack(data, strict_map_key=False, timestamp=3))
        _check_levels(plain)
        return Decoded("msgpack", plain, json.dumps(plain, ensure_ascii=False))
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException, OverflowError) as error:
        raise UndecodableValue(_why(error)) from error


def _registered(data: bytes, by_schema: SchemaDecoder | None, wanted: str | None = None) -> Decoded:
    """Return what bytes mean by the schema that they name, whose form must be the wanted one, if one is."""
    if by_schema is None:
        raise UndecodableValue("the console has no --registry")
    _check_size(data)
    try:
        form, value = by_schema(data)
        if wanted not in (None, form):
            raise UndecodableValue(f"its schema makes it {form}")
        _check_levels(value)
        return Decoded(form, value, json.dumps(value, ensure_ascii=False))
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise UndecodableValue(_why(error)) from error


def _int(data: bytes) -> Decoded:
    if len(data) not in (1, 2, 4, 8):
        raise UndecodableValue(f"{len(data)} bytes")
    value = int.from_bytes(data, "big", signed=True)
    return Decoded("int", value, str(value))


def _hex(data: bytes) -> Decoded:
    text = data.hex(" ")
    return Decoded("hex", text, text)


_DECODERS: dict[str, Callable[[bytes], Decoded]] = {
    "text": _shown_text,
    "json": _json,
    "msgpack": _msgpack,
    "int": _int,
    "hex": _hex,
}


def _check_size(data: bytes) -> None:
    if len(data) > MAX_PARSED_BYTES:
        raise UndecodableValue(f"{len(data)} bytes, more than are parsed")


def _check_levels(value: Any) -> None:
    level = [value]
    for _ in range(MAX_LEVELS + 1):
        level = [child for each in level for child in _children(each)]
        if not level:
            return
    raise UndecodableValue(f"nested deeper than {MAX_LEVELS} levels")


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()


def _why(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__


def _plain(value: Any) -> Any:
    """Return a value of JSON's types: bytes become hex, other keys and values text."""
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(each) for key, each in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in cast("list[Any]", value)]
    if isinstance(value, bytes):
        return value.hex(" ")
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
