"""The console: its clients, its history and the socket that it listens on, from start to stop.

async with Console(ConsoleConfig()) as console:
    ...  # a browser opens console.url
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ..web.connection import Limits
from ..web.listener import Listener, ListenerConfig, Service, stopped_by_signal
from ..web.origin import host_of, is_loopback
from .app import App
from .cluster import Cluster, ClusterOptions
from .door.login import ClusterLogin, OneLogin
from .history.history import History
from .journal import Journal
from .reading.schemas import Schemas
from .rendering import Templates
from .visit import Decide, House, WhyUnmatchable

_log = logging.getLogger(__name__)

DEFAULT_PORT = 8080
# A browser opens six, and one for each live view.
MAX_CONNECTIONS = 128
MAX_TAILS = 8
_LIMITS = Limits(head_bytes=16 << 10, body_bytes=2 << 20, bodies_bytes=16 << 20, idle_s=60.0)


class UnsafeConsole(Exception):
    """A console that everybody in the network could use; the text says what to do."""


@dataclass(frozen=True, slots=True)
class ConsoleConfig:
    """Where the cluster is, where the console listens, and who may do what."""

    cluster: ClusterOptions = field(default_factory=ClusterOptions)
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    # Further names under which browsers reach it.
    allowed_hosts: tuple[str, ...] = ()
    read_only: bool = False
    # "name:password" that everybody must send.
    login: str | None = field(default=None, repr=False)
    # Users log in to the cluster with their own names and passwords.
    cluster_login: bool = False
    # Listen beyond loopback without a login.
    insecure: bool = False
    tls: ssl.SSLContext | None = None
    history_file: Path | None = None
    # Of the schema registry, for records in Avro and by JSON Schema.
    schemas: Schemas | None = None
    # Decides by the cluster's ACLs; without it nobody can ask who may do something.
    decide: Decide | None = None
    # What refuses a new ACL.
    why_unmatchable: WhyUnmatchable = lambda acl: ""


class Console(Service):
    """A console in this event loop. Use `async with`, or `start()` and `stop()`. Raises UnsafeConsole."""

    def __init__(self, config: ConsoleConfig) -> None:
        if not is_loopback(config.host) and config.login is None and not (config.cluster_login or config.insecure):
            raise UnsafeConsole(
                f"on {config.host} everybody in the network could use this console: give it --login-file or "
                "--cluster-login, or --insecure"
            )
        self._config = config
        self._cluster = Cluster(config.cluster)
        self._login = ClusterLogin(config.cluster) if config.cluster_login else OneLogin(self._cluster, config.login)
        self.history = History(self._cluster, config.history_file)
        house = House(
            Templates(), Journal(), config.cluster.bootstrap_servers, config.read_only, config.schemas,
            config.decide, config.why_unmatchable,
            asyncio.Semaphore(MAX_TAILS),
        )  # fmt: skip
        hosts = frozenset((*map(host_of, config.allowed_hosts), config.host.lower()))
        app = App(house, self._login, self.history, hosts, tls=config.tls is not None)
        listener = ListenerConfig(
            config.host, config.port, config.tls, MAX_CONNECTIONS, _LIMITS, look_at_head=app.look_at_head
        )
        self._listener = Listener(listener, app.answer)

    async def _open(self) -> None:
        """Begin to sample, then listen. Raises OSError, HistoryFileError."""
        try:
            await self.history.start()
            await self._listener.start()
        except BaseException:
            await self._close()
            raise
        _log.info("the console of %s listens on %s", self._config.cluster.bootstrap_servers, self.url)

    async def _close(self) -> None:
        """Close the pages, then the history, then the clients. May be called again."""
        await self._listener.stop()
        await self.history.stop()
        await self._login.stop()
        await self._cluster.stop()


async def serve(config: ConsoleConfig, announce: Callable[[str], None]) -> None:
    """Run a console until SIGTERM or SIGINT. Call `announce` with its URL.

    Raises OSError, HistoryFileError, UnsafeConsole.
    """
    stopped = stopped_by_signal()
    async with Console(config) as console:
        announce(console.url)
        await stopped.wait()
