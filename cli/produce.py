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

import click

from .errors import CliError
from .session import CLIENT_ID, PATIENCE_MS, bootstrap_option, run

_READ_BYTES = 256 * 1024
# Reads that may wait to be sent. With the producer's buffer, they bound the memory when the broker is slower.
_READS_AHEAD = 16
# A line is held in memory until its end. By default Kafka accepts no batch over 1 MiB, so longer lines are rare.
_MAX_LINE_BYTES = 64 << 20

Pair = tuple[bytes | None, bytes | None]


@click.command(short_help="Send lines from standard input as records.")
@click.argument("topic")
@click.option("--key-separator", metavar="TEXT", help="Each line is KEY TEXT VALUE.")
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
@bootstrap_option
def command(
    topic: str, key_separator: str | None, partition: int | None, compression: str, acks: str, bootstrap_server: str
) -> None:
    """Send each line of standard input as a record to TOPIC. It ends when all are acknowledged.

    \b
    Examples:
      seq 1000 | odradek produce numbers
      odradek produce users --key-separator : < users.txt
      tail -f app.log | odradek produce logs --compression zstd
    """
    if key_separator == "":
        raise click.UsageError("--key-separator must not be empty")
    lines = _Lines(key_separator.encode() if key_separator else None)
    run(_produce(topic, lines, partition, compression, acks, bootstrap_server))


async def _produce(
    topic: str, lines: _Lines, partition: int | None, compression: str, acks: str, bootstrap_server: str
) -> None:
    from ..client import Producer

    shown = sys.stderr.isatty() and not sys.stdin.isatty()
    async with Producer(
        bootstrap_server,
        client_id=CLIENT_ID,
        acks=acks,
        compression_type=compression,
        enable_idempotence=acks == "all",
        max_block_ms=PATIENCE_MS,
    ) as producer:
        async for chunk in _chunks(sys.stdin.fileno()):
            await producer.send_many(topic, lines.feed(chunk), partition=partition)
            if shown:
                click.echo(f"\r{lines.count:,} records", nl=False, err=True)
        await producer.send_many(topic, lines.end(), partition=partition)
    if shown:
        click.echo(f"\r{lines.count:,} records to {topic}", err=True)


class _Lines:
    """Cuts the input into lines, and lines into key and value."""

    def __init__(self, separator: bytes | None) -> None:
        self.count = 0
        self._separator = separator
        self._open = b""  # Invariant: a line whose end has not come, at most _MAX_LINE_BYTES

    def feed(self, data: bytes) -> Iterator[Pair]:
        *whole, self._open = (self._open + data).split(b"\n")
        if len(self._open) > _MAX_LINE_BYTES:
            raise CliError(f"line {self.count + len(whole) + 1} is longer than {_MAX_LINE_BYTES >> 20} MiB")
        return self._pairs(whole)

    def end(self) -> Iterator[Pair]:
        """Return the last line, if the input does not end with a line feed."""
        rest, self._open = self._open, b""
        return self._pairs([rest] if rest else [])

    def _pairs(self, lines: list[bytes]) -> Iterator[Pair]:
        for line in lines:
            self.count += 1
            if self._separator is None:
                yield None, line
                continue
            key, separator, value = line.partition(self._separator)
            if not separator:
                raise CliError(f"line {self.count} has no {self._separator.decode()!r}: {line[:80]!r}")
            yield key, value


async def _chunks(fd: int) -> AsyncIterator[bytes]:
    """Yield the bytes of `fd` as they come. Reads that came together are joined.

    The thread is a daemon: an input without an end, such as a terminal, must not keep the command from ending.
    """
    queue: asyncio.Queue[bytes | OSError] = asyncio.Queue(_READS_AHEAD)
    loop = asyncio.get_running_loop()

    def pump() -> None:
        data = b"?"
        while data:
            try:
                data = os.read(fd, _READ_BYTES)
            except OSError as error:
                asyncio.run_coroutine_threadsafe(queue.put(error), loop).result()
                return
            asyncio.run_coroutine_threadsafe(queue.put(data), loop).result()

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
