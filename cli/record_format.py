"""The form of a printed record: its value, key and value, one JSON object, or a format of the user's own.

A format has `%t` topic, `%p` partition, `%o` offset, `%T` timestamp in milliseconds, `%k` key, `%v` value, `%h` headers
and `%%`. `%k{hex}`, `%v{base64}` and `%v{json}` print bytes in another form. Backslash escapes are those of `escapes`.

Keys and values of internal topics are printed as JSON objects, unless they are wanted raw.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import click

from ..client.core.record_json import as_json, json_line
from .values import unescape

if TYPE_CHECKING:
    from ..client import ConsumerRecord
    from .internal_records import Fields

Formatter = Callable[["ConsumerRecord"], bytes]

# The topics whose records are the broker's own: internal_records.py reads them.
INTERNAL_TOPICS = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))
_FIELD = re.compile(rb"%(.|\Z)(?:\{(\w+)\})?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LineFormat:
    """`of` makes a line of a record. Where a line is the value alone, `null_value` is what a missing one prints."""

    of: Formatter
    null_value: bytes | None = None


def line_format(
    as_json: bool, key_separator: str | None, layout: str | None, null: str, raw: bool, internal: bool
) -> LineFormat:
    """Return the form of lines. UsageError for a bad format.

    Records of internal topics, if there may be such, are made readable unless they are wanted `raw`.
    """
    line = _formatter(as_json, key_separator, layout, null)
    if internal and not raw:
        return LineFormat(lambda record: line(readable(record, as_json) if record.topic in INTERNAL_TOPICS else record))
    is_value = not as_json and layout is None and key_separator is None
    return LineFormat(line, unescape(null, "--null") if is_value else None)


def _formatter(as_json: bool, key_separator: str | None, layout: str | None, null: str) -> Formatter:
    if as_json:
        return json_line
    null_bytes = unescape(null, "--null")
    if layout is not None:
        return _custom(unescape(layout, "--format"), null_bytes)
    if key_separator is None:
        return lambda record: (null_bytes if record.value is None else record.value) + b"\n"
    separator = unescape(key_separator, "--key-separator")

    def pair(record: ConsumerRecord) -> bytes:
        key = null_bytes if record.key is None else record.key
        return key + separator + (null_bytes if record.value is None else record.value) + b"\n"

    return pair


def readable(record: ConsumerRecord, as_objects: bool) -> ConsumerRecord:
    """Return a record of an internal topic with its key and value as objects, or as bytes that hold these as JSON."""
    from .internal_records import decode

    found = decode(record.topic, record.key, record.value)
    if found is None:
        return record
    key, value = found if as_objects else [None if part is None else _json_text(part) for part in found]
    return record._replace(key=cast("bytes", key), value=cast("bytes | None", value))


def _custom(layout: bytes, null: bytes) -> Formatter:
    parts: list[bytes | Formatter] = []
    end = 0
    for match in _FIELD.finditer(layout):
        parts += [layout[end : match.start()], _field(match, null)]
        end = match.end()
    parts.append(layout[end:])
    return lambda record: b"".join(part if isinstance(part, bytes) else part(record) for part in parts)


def _field(match: re.Match[bytes], null: bytes) -> bytes | Formatter:
    letter, form = match[1], match[2]
    encode = _ENCODINGS.get(form or b"")
    if encode is None or (form and letter not in b"kv"):
        raise click.UsageError(
            f"--format: {match[0].decode(errors='replace')!r}: only %k and %v take hex, base64, json"
        )
    match letter:
        case b"%":
            return b"%" + (b"{" + form + b"}" if form else b"")
        case b"t":
            return lambda record: record.topic.encode()
        case b"p":
            return lambda record: b"%d" % record.partition
        case b"o":
            return lambda record: b"%d" % record.offset
        case b"T":
            return lambda record: b"%d" % record.timestamp_ms
        case b"k":
            return lambda record: null if record.key is None else encode(record.key)
        case b"v":
            return lambda record: null if record.value is None else encode(record.value)
        case b"h":
            return lambda record: b",".join(
                name.encode() + b"=" + (null if value is None else value) for name, value in record.headers
            )
        case _:
            text = match[0].decode(errors="replace")
            raise click.UsageError(f"--format knows %t %p %o %T %k %v %h and %%, not {text!r}")


def _json_text(value: bytes | Fields) -> bytes:
    return as_json(value).encode("utf-8", "surrogatepass")


_ENCODINGS: dict[bytes, Callable[[bytes], bytes]] = {
    b"": lambda data: data,
    b"hex": lambda data: data.hex().encode(),
    b"base64": b64encode,
    b"json": _json_text,
}
