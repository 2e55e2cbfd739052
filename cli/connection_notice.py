"""Says on standard error what a command waits for: its broker, or requests that fail and are retried."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Protocol

import click

# A shorter loss, as while a broker closes an idle connection, is not worth a line.
_SAID_AFTER_S = 1.0
_LOOKS_EVERY_S = 0.2


class Connected(Protocol):
    """A producer or a consumer."""

    @property
    def is_connected(self) -> bool:
        """Whether a connection to any broker is open."""
        ...


@asynccontextmanager
async def connection_notice(client: Connected, address: str) -> AsyncGenerator[None]:
    """Watch a client's connection while the block runs. Without one, nothing is said of requests that fail."""
    from ..client.core.retry_notice import log

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


@contextmanager
def retry_notice() -> Generator[None]:
    """Print what the command's clients say of requests that fail and are retried."""
    from ..client.core.retry_notice import log

    handler = _Lines()
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


async def _watch(client: Connected, address: str) -> None:
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
