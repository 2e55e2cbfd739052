"""The registry: the log, the API and the socket it listens on, from start to stop.

async with Registry(RegistryConfig(LogOptions("127.0.0.1:9092"))) as registry:
    ...  # clients use registry.url
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from ..web.listener import Listener, ListenerConfig, Service, stopped_by_signal
from ..web.origin import host_of, is_loopback
from .door import LIMITS, Door, rejection
from .schemas_log import WRITE_TIMEOUT_S, LogOptions, SchemasLog

_log = logging.getLogger(__name__)

DEFAULT_PORT = 8081
# Each holds a task and some kilobytes: more clients than this use a proxy.
MAX_CONNECTIONS = 1_000


@dataclass(frozen=True, slots=True)
class RegistryConfig:
    """Where the registry's log is, where it listens, and what clients must show."""

    log: LogOptions = field(default_factory=LogOptions)
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    # "name:password" that every client must send, none if anybody may come in.
    login: str | None = None
    tls: ssl.SSLContext | None = None
    # Further names under which clients reach it; without a login every request must name a known one.
    allowed_hosts: tuple[str, ...] = ()


class Registry(Service):
    """A schema registry in this event loop. Use `async with`, or `start()` and `stop()`."""

    def __init__(self, config: RegistryConfig) -> None:
        self._config = config
        self._log = SchemasLog(config.log)
        hosts = frozenset((*map(host_of, config.allowed_hosts), config.host.lower()))
        door = Door(self._log, config.login, hosts)
        # A change under way may finish: to cancel it would leave the outcome open.
        listener = ListenerConfig(
            config.host, config.port, config.tls, MAX_CONNECTIONS, LIMITS, WRITE_TIMEOUT_S, rejection, door.look_at_head
        )
        self._listener = Listener(listener, door.answer)

    async def _open(self) -> None:
        """Read the log, then listen. Raises KafkaError, RegistryError, OSError."""
        try:
            await self._log.start()
            await self._listener.start()
        except BaseException:
            await self._log.stop()
            raise
        if self._config.login is None and not is_loopback(self._config.host):
            _log.warning("%s is open: everybody who reaches it is let in. Give it a login (--login-file)", self.url)
        _log.info("listening on %s", self.url)

    async def _close(self) -> None:
        """Accept no more connections, end those that are there, finish the change under way, close the log."""
        await self._listener.stop()
        await self._log.stop()

    async def failed(self) -> None:
        """Wait until the log cannot be read any more. Raises the KafkaError."""
        await self._log.failed()


async def serve(config: RegistryConfig, announce: Callable[[str], None]) -> None:
    """Run a registry until SIGTERM or SIGINT. Call `announce` with its URL when clients can connect.

    Raises KafkaError, RegistryError, OSError.
    """
    waiting = asyncio.create_task(stopped_by_signal().wait())
    registry = Registry(config)
    try:
        if await _is_first(registry.start(), waiting):
            announce(registry.url)
            await _is_first(registry.failed(), waiting)
    finally:
        waiting.cancel()
        await registry.stop()


async def _is_first(work: Coroutine[Any, Any, None], other: asyncio.Task[Any]) -> bool:
    """Tell whether `work` ends before the other does, which cancels it. Raises what it raises."""
    working = asyncio.create_task(work)
    await asyncio.wait({working, other}, return_when=asyncio.FIRST_COMPLETED)
    if working.done():
        working.result()
        return True
    working.cancel()
    await asyncio.wait({working})
    return False
