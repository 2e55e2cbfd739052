"""Standard input of `odradek produce`: it is cut into lines, and each line means a record.

A record is a value, key and value, one column as the key, a tombstone, or JSON. A JSON line is what `odradek consume
--json` prints: an object with any of `key`, `value`, `headers`, `timestamp` and `partition`. Bytes that are not UTF-8
are `{"base64": "..."}`, a timestamp is ISO 8601 or milliseconds. `topic` and `offset` may be there and mean nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from .errors import CliError
from .values import parse_time_ms

Headers = tuple[tuple[str, bytes | None], ...]

_LAST_TIMESTAMP_MS = (1 << 63) - 1
_KNOWN = frozenset(("topic", "partition", "offset", "timestamp", "key", "value", "headers"))


class InputRecord(NamedTuple):
    """A record to send. None as timestamp is now; None as partition is by key."""

    # JSON of any kind where the key (value) has a schema.
    key: Any
    value: Any
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


class BadLine(Exception):
    """A line that is no record; the text says why."""


Parser = Callable[[bytes], InputRecord]


@dataclass(frozen=True, slots=True)
class LineForm:
    """How lines become records."""

    separator: bytes | None = None
    null: bytes | None = None
    key: bytes | None = None
    # The column that is the key, from 1, and what is between columns.
    key_column: int | None = None
    column_separator: bytes = b"\t"
    tombstones: bool = False
    is_json: bool = False
    # Whether keys and values have a schema: then a JSON line has them as they are.
    has_key_schema: bool = False
    has_value_schema: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether every line is a value and nothing else."""
        return self == LineForm()

    def parser(self) -> Parser:
        """Return the function that makes a record of a line. It raises BadLine."""
        if self.is_json:
            return lambda line: from_json(line, self.has_key_schema, self.has_value_schema)
        if self.separator is not None:
            return self._pair
        if self.key_column is not None:
            return self._keyed
        if self.tombstones:
            return lambda line: InputRecord(self._content(line), None)
        return lambda line: InputRecord(self.key, self._content(line))

    def _content(self, data: bytes) -> bytes | None:
        return None if data == self.null else data

    def _pair(self, line: bytes) -> InputRecord:
        assert self.separator is not None
        key, separator, value = line.partition(self.separator)
        if not separator:
            text = self.separator.decode(errors="backslashreplace")
            raise BadLine(f"has no {text!r}: {_begin(line)}")
        return InputRecord(self._content(key), self._content(value))

    def _keyed(self, line: bytes) -> InputRecord:
        assert self.key_column is not None
        columns = line.split(self.column_separator, self.key_column)
        if len(columns) < self.key_column:
            raise BadLine(f"has {len(columns)} column{'s' * (len(columns) > 1)}, not {self.key_column}: {_begin(line)}")
        return InputRecord(self._content(columns[self.key_column - 1]), line)


def _begin(line: bytes) -> str:
    """Return the beginning of a line, in quotes."""
    return repr(line[:80].decode(errors="backslashreplace"))


def from_json(line: bytes, has_key_schema: bool = False, has_value_schema: bool = False) -> InputRecord:
    """Return the record that a line of JSON means. Keys and values with a schema stay JSON. Raises BadLine."""
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        why = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise BadLine(f"is no JSON ({why[:1].lower()}{why[1:]}): {_begin(line)}") from error
    if not isinstance(found, dict):
        raise BadLine(f"is no JSON object: {_begin(line)}")
    row = cast("dict[str, Any]", found)
    unknown = row.keys() - _KNOWN
    if unknown:
        raise BadLine(f"has {min(unknown)!r}, which no record has: known are {', '.join(sorted(_KNOWN))}")
    headers: Any = row.get("headers") or []
    if not isinstance(headers, list):
        raise BadLine("has headers that are no list of [name, value]")
    return InputRecord(
        row.get("key") if has_key_schema else _bytes(row.get("key"), "key"),
        row.get("value") if has_value_schema else _bytes(row.get("value"), "value"),
        tuple(_header(each) for each in cast("list[Any]", headers)),
        _timestamp(row.get("timestamp")),
        _partition(row.get("partition")),
    )


def _bytes(found: Any, what: str) -> bytes | None:
    if found is None:
        return None
    try:
        if isinstance(found, str):
            return found.encode()
        if isinstance(found, dict) and found.keys() == {"base64"}:
            return b64decode(cast("dict[str, Any]", found)["base64"], validate=True)
    except (UnicodeEncodeError, Base64Error, TypeError, ValueError) as error:
        raise BadLine(f"has a {what} that is no bytes: {error}") from error
    raise BadLine(f'has a {what} that is neither text nor null nor {{"base64": "..."}}')


def _header(found: Any) -> tuple[str, bytes | None]:
    if isinstance(found, list):
        parts = cast("list[Any]", found)
        if len(parts) == 2 and isinstance(parts[0], str):
            try:
                parts[0].encode("utf-8", "surrogateescape")
            except UnicodeEncodeError as error:
                raise BadLine(f"has a header whose name is no text: {error.reason}") from error
            return parts[0], _bytes(parts[1], "header")
    raise BadLine("has a header that is not [name, value]")


def _timestamp(found: Any) -> int | None:
    if found is None:
        return None
    if isinstance(found, str):
        found = parse_time_ms(found)
    if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= _LAST_TIMESTAMP_MS:
        return found
    raise BadLine("has a timestamp that is neither ISO 8601 nor milliseconds since 1970")


def _partition(found: Any) -> int | None:
    if found is None or (isinstance(found, int) and not isinstance(found, bool) and found >= 0):
        return found
    raise BadLine("has a partition that is no number")


_READ_BYTES = 256 * 1024
# Reads that may wait to be sent. With the producer's buffer, they bound the memory when the broker is slower.
_READS_AHEAD = 16
# A line is held in memory until its end. The topic's max.message.bytes decides which lines the broker accepts.
MAX_LINE_BYTES = 64 << 20


class LineCutter:
    """Cuts bytes into lines, however they come. `count` is for the caller: how many lines were sent."""

    def __init__(self) -> None:
        self.count = 0
        # The pieces of a line whose end has not come.
        self._open: list[bytes] = []
        # Invariant: the size of these pieces, at most MAX_LINE_BYTES.
        self._open_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that end in `data`."""
        first, *rest = data.split(b"\n")
        self._open.append(first)
        self._open_bytes += len(first)
        whole: list[bytes] = []
        if rest:
            last = rest.pop()
            rest.insert(0, b"".join(self._open))
            whole = rest
            self._open, self._open_bytes = [last], len(last)
        if self._open_bytes > MAX_LINE_BYTES or (whole and len(whole[0]) > MAX_LINE_BYTES):
            number = self.count + (1 if whole and len(whole[0]) > MAX_LINE_BYTES else len(whole) + 1)
            raise CliError(f"line {number} is longer than {MAX_LINE_BYTES >> 20} MiB; {self.sent_text()}")
        return whole

    def end(self) -> list[bytes]:
        """Return the last line, if the input does not end with a line feed."""
        rest, self._open = b"".join(self._open), []
        return [rest] if rest else []

    def sent_text(self) -> str:
        """Return what is known of the lines before an error: all of them were acknowledged."""
        if not self.count:
            return "nothing was sent"
        return "line 1 was sent" if self.count == 1 else f"lines 1 to {self.count} were sent"


async def chunks(fd: int) -> AsyncIterator[bytes]:
    """Yield the bytes of `fd` as they come. Reads that came together are joined.

    The thread is a daemon: an input without an end, such as a terminal, must not keep the command from ending.
    """
    queue: asyncio.Queue[bytes | OSError] = asyncio.Queue(_READS_AHEAD)
    loop = asyncio.get_running_loop()

    def put(item: bytes | OSError) -> bool:
        """Put an item into the queue, and wait for room. Return False if the command has ended meanwhile."""
        putting = queue.put(item)
        try:
            asyncio.run_coroutine_threadsafe(putting, loop).result()
        except (RuntimeError, CancelledError):
            putting.close()
            return False
        return True

    def pump() -> None:
        data = b"?"
        while data:
            try:
                data = os.read(fd, _READ_BYTES)
            except OSError as error:
                put(error)
                return
            if not put(data):
                return

    threading.Thread(target=pump, name="standard input", daemon=True).start()
    while True:
        parts = [await queue.get()]
        while not queue.empty():
            parts.append(queue.get_nowait())
        data: list[bytes] = []
        for part in parts:
            if isinstance(part, OSError):
                raise CliError(f"cannot read standard input: {part.strerror}") from part
            data.append(part)
        yield b"".join(data)
        if not data[-1]:
            return
