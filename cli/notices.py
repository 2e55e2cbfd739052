"""Lines on standard error while a command works: how far it is, a lost connection, requests that are retried."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..client import Consumer, Producer

# A shorter loss, as while a broker closes an idle connection, is not worth a line.
_SAID_AFTER_S = 1.0
_LOOKS_EVERY_S = 0.2
# How many reasons of failed logins are remembered: more than a cluster has brokers, as a rule.
_REASONS = 100


@asynccontextmanager
async def connection_notice(client: Consumer | Producer, address: str) -> AsyncGenerator[None]:
    """Watch a client's connection while the block runs. Without one, nothing is said of requests that fail."""
    from ..client.core.clock import log

    def is_news(_record: logging.LogRecord) -> bool:
        return client.is_connected

    log.addFilter(is_news)
    task = asyncio.create_task(_watch(client, address), name="connection notice")
    try:
        yield
    finally:
        log.removeFilter(is_news)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class _Lines(logging.Handler):
    """Prints each warning as a line of the command's."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(f"odradek: {record.getMessage()}", err=True)


class _Logins(logging.Handler):
    """Prints why a client cannot log in, each reason once: brokers of a cluster, which it names, fail in turns."""

    def __init__(self) -> None:
        super().__init__()
        self._said: deque[str] = deque(maxlen=_REASONS)

    def emit(self, record: logging.LogRecord) -> None:
        from ..client.core.options import in_words_of_kafka

        if (text := in_words_of_kafka(record.getMessage())) not in self._said:
            self._said.append(text)
            click.echo(f"odradek: {text}", err=True)


@contextmanager
def retry_notice() -> Generator[None]:
    """Print what the command's clients say of requests that fail and are retried.

    A login that fails is the error of the command, so the log's line about it goes nowhere without `login_notice`.
    """
    from ..client.core.clock import log
    from ..client.core.connection import login_log

    with _handled(log, _Lines()), _handled(login_log, logging.NullHandler()):
        yield


@asynccontextmanager
async def login_notice() -> AsyncGenerator[None]:
    """Print why a client cannot log in that tries again, as a producer does for the records that it holds."""
    from ..client.core.connection import login_log

    with _handled(login_log, _Logins()):
        yield


@contextmanager
def _handled(log: logging.Logger, handler: logging.Handler) -> Generator[None]:
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


async def _watch(client: Consumer | Producer, address: str) -> None:
    loop = asyncio.get_running_loop()
    lost_at: float | None = None
    said = False
    while True:
        await asyncio.sleep(_LOOKS_EVERY_S)
        if client.is_connected:
            if said:
                click.echo("odradek: connected again", err=True)
            lost_at, said = None, False
        elif lost_at is None:
            lost_at = loop.time()
        elif not said and loop.time() - lost_at >= _SAID_AFTER_S:
            said = True
            click.echo(f"odradek: the connection to {address} is lost, trying again", err=True)


# A line that changes more often flickers.
_EVERY_S = 0.2


class Progress:
    """Shows the share of `total` bytes, or of what `text` says, that is done. `clear` it before printing lines."""

    def __init__(self, total: int, text: str | None = None) -> None:
        self.total = total
        self._text = text or f"{total / 1e9:.1f} GB"
        self._done = 0
        self._shown_at = 0.0
        self._is_shown = False
        self._terminal = sys.stderr.isatty()

    def add(self, size: int) -> None:
        """Count `size` more bytes as done."""
        self._done += size
        if self._terminal and time.monotonic() - self._shown_at > _EVERY_S:
            self._shown_at = time.monotonic()
            self._is_shown = True
            percent = min(100 * self._done // max(self.total, 1), 100)
            click.echo(f"\r\033[K{percent:3d} % of {self._text}", nl=False, err=True)

    def clear(self) -> None:
        """Remove the line."""
        if self._is_shown:
            self._is_shown = False
            click.echo("\r\033[K", nl=False, err=True)
