"""Says on standard error when a command has lost its broker for a second, and when it has it again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
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
    """Watch a client's connection while the block runs."""
    task = asyncio.create_task(_watch(client, address), name="connection notice")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


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
