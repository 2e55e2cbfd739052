"""`odradek produce`: send each line of standard input as a record.

A thread reads the input, so that a line is sent at once and does not wait for the next one. The input that was read and
not yet acknowledged is bounded. Promise: status 0 means that the broker acknowledged every line.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING

import click

from .connection_options import connection_options
from .errors import CliError
from .escapes import unescape
from .names import TOPIC
from .session import CLIENT_ID, PATIENCE_MS, client_options, run

if TYPE_CHECKING:
    from ..client import Producer

_READ_BYTES = 256 * 1024
# Reads that may wait to be sent. With the producer's buffer, they bound the memory when the broker is slower.
_READS_AHEAD = 16
# A line is held in memory until its end. The topic's max.message.bytes decides which lines the broker accepts.
_MAX_LINE_BYTES = 64 << 20
# Room for the longest line in a request, and for a second one while the first is on its way.
_MAX_REQUEST_BYTES = _MAX_LINE_BYTES + (1 << 20)
_BATCH_BYTES = 128 << 10
_BUFFER_BYTES = 2 * _MAX_REQUEST_BYTES

Pair = tuple[bytes | None, bytes | None]


@click.command(short_help="Send lines from standard input as records.")
@click.argument("topic", type=TOPIC)
@click.option("--key-separator", metavar="TEXT", help=r"Each line is KEY TEXT VALUE; \t is a tab.")
@click.option("--null", metavar="TEXT", help="A key or value that is TEXT is null; a null value is a tombstone.")
@click.option(
    "--partition", type=click.IntRange(min=0), help="Send all records to this partition; otherwise by key, or evenly."
)
@click.option(
    "--compression",
    type=click.Choice(("none", "gzip", "snappy", "lz4", "zstd")),
    default="none",
    show_default=True,
    help="The codec of batches.",
)
@click.option("--acks", type=click.Choice(("all", "1", "0")), default="all", show_default=True)
@connection_options("producer")
def command(
    topic: str,
    key_separator: str | None,
    null: str | None,
    partition: int | None,
    compression: str,
    acks: str,
    bootstrap_server: str,
) -> None:
    """Send each line of standard input as a record to TOPIC. It ends when all are acknowledged.

    \b
    Examples:
      seq 1000 | odradek produce numbers
      odradek produce users --key-separator : < users.txt
      printf 'ann\\tNULL\\n' | odradek produce users --key-separator '\\t' --null NULL
      tail -f app.log | odradek produce logs --compression zstd
    """
    if key_separator == "":
        raise click.UsageError("--key-separator must not be empty")
    separator = unescape(key_separator, "--key-separator") if key_separator else None
    lines = _Lines(separator, None if null is None else unescape(null, "--null"))
    run(_produce(topic, lines, partition, compression, acks, bootstrap_server))


async def _produce(
    topic: str, lines: _Lines, partition: int | None, compression: str, acks: str, bootstrap_server: str
) -> None:
    from ..client import Producer

    shown = sys.stderr.isatty() and not sys.stdin.isatty()
    options = client_options(
        "producer",
        client_id=CLIENT_ID,
        acks=acks,
        compression_type=compression,
        enable_idempotence=acks == "all",
        max_block_ms=PATIENCE_MS,
        batch_size=_BATCH_BYTES,
        max_request_size=_MAX_REQUEST_BYTES,
        buffer_memory=_BUFFER_BYTES,
    )
    async with Producer(bootstrap_server, **options) as producer:
        async for chunk in _chunks(sys.stdin.fileno()):
            await _send(producer, topic, partition, lines, lines.feed(chunk))
            if shown:
                click.echo(f"\r{lines.count:,} records", nl=False, err=True)
        await _send(producer, topic, partition, lines, lines.end())
    if shown:
        click.echo(f"\r{lines.count:,} records to {topic}", err=True)


async def _send(producer: Producer, topic: str, partition: int | None, lines: _Lines, cut: list[bytes]) -> None:
    """Send lines and wait until they are acknowledged. CliError says which lines are in the topic."""
    from ..client.errors import ErrorCode, KafkaError

    before = lines.count
    try:
        await producer.send_many(topic, lines.pairs(cut), partition=partition)
    except KafkaError as error:
        longest = max(range(len(cut)), key=lambda index: len(cut[index]), default=0)
        # A batch of several lines ends at batch_size, so a larger one is a single line.
        if error.code is ErrorCode.MESSAGE_TOO_LARGE and len(cut[longest]) > _BATCH_BYTES:
            advice = "the topic's max.message.bytes allows no batch of that size"
            why = f"line {before + longest + 1} is too large ({len(cut[longest]):,} bytes): {advice}"
        else:
            why = str(error).removesuffix(".")
        if before:
            raise CliError(f"{why}; lines 1 to {before} were sent, later ones possibly not") from error
        raise CliError(why) from error
    if lines.error is not None:
        raise CliError(f"{lines.error}; {lines.sent_text()}")


class _Lines:
    """Cuts the input into lines, and lines into key and value."""

    def __init__(self, separator: bytes | None, null: bytes | None) -> None:
        self.count = 0
        # What is wrong with the line after the first `count`.
        self.error: str | None = None
        self._separator = separator
        self._null = null
        # The pieces of a line whose end has not come.
        self._open: list[bytes] = []
        # Invariant: the size of these pieces, at most _MAX_LINE_BYTES.
        self._open_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that end in `data`."""
        first, *rest = data.split(b"\n")
        self._open.append(first)
        self._open_bytes += len(first)
        whole: list[bytes] = []
        if rest:
            whole = [b"".join(self._open), *rest[:-1]]
            self._open, self._open_bytes = [rest[-1]], len(rest[-1])
        if self._open_bytes > _MAX_LINE_BYTES or (whole and len(whole[0]) > _MAX_LINE_BYTES):
            number = self.count + (1 if whole and len(whole[0]) > _MAX_LINE_BYTES else len(whole) + 1)
            raise CliError(f"line {number} is longer than {_MAX_LINE_BYTES >> 20} MiB; {self.sent_text()}")
        return whole

    def end(self) -> list[bytes]:
        """Return the last line, if the input does not end with a line feed."""
        rest, self._open = b"".join(self._open), []
        return [rest] if rest else []

    def pairs(self, lines: list[bytes]) -> Iterator[Pair]:
        """Yield the key and value of each line, up to the first line that has none, which is then `error`."""
        for line in lines:
            if self._separator is None:
                key, value = None, line
            else:
                key, separator, value = line.partition(self._separator)
                if not separator:
                    text = self._separator.decode(errors="backslashreplace")
                    self.error = f"line {self.count + 1} has no {text!r}: {line[:80]!r}"
                    return
            self.count += 1
            yield (None if key == self._null else key), (None if value == self._null else value)

    def sent_text(self) -> str:
        """Return what is known of the lines before an error: all of them were acknowledged."""
        if not self.count:
            return "nothing was sent"
        return "line 1 was sent" if self.count == 1 else f"lines 1 to {self.count} were sent"


async def _chunks(fd: int) -> AsyncIterator[bytes]:
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
