"""The clients of one cluster: an admin client that is opened when it is first needed, and a bounded number of readers.

A cluster that cannot be reached is an error of the page that asks; the next page tries again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ..client import Admin, Consumer, Producer
from ..web.exchange import HttpError

# Each holds what it has fetched ahead: some tens of MiB at most.
MAX_READERS = 8
_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Where a cluster is, and the options of each kind of client, passwords among them."""

    bootstrap_servers: str = "127.0.0.1:9092"
    admin: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    consumer: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    producer: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)


class Cluster:
    """The clients of a cluster. `stop` closes them."""

    def __init__(self, options: ClusterOptions) -> None:
        self.options = options
        self._admin: Admin | None = None
        self._opening = asyncio.Lock()
        self._is_stopped = False
        self._readers = asyncio.Semaphore(MAX_READERS)

    async def admin(self) -> Admin:
        """Return the admin client. Raises NoBrokerReachable, and what else a start raises; HttpError after a stop."""
        async with self._opening:
            if self._is_stopped:
                # What a page opened now, nobody would close.
                raise HttpError(503, "the clients of this page are closed: load it again")
            if self._admin is None:
                admin = Admin(self.options.bootstrap_servers, **self.options.admin)
                await admin.start()
                self._admin = admin
            return self._admin

    async def stop(self) -> None:
        """Close the admin client; readers end with their pages. May be called again."""
        self._is_stopped = True
        # One that is being opened is closed, too.
        async with self._opening:
            admin, self._admin = self._admin, None
        if admin is not None:
            await admin.stop()

    @asynccontextmanager
    async def reader(self, **needed: Any) -> AsyncGenerator[Consumer]:
        """Open a consumer without a group. Raises HttpError where too many read already."""
        try:
            async with asyncio.timeout(_WAIT_S):
                await self._readers.acquire()
        except TimeoutError:
            raise HttpError(503, f"{MAX_READERS} pages read records already: close one, and try again") from None
        options: dict[str, Any] = {
            **self.options.consumer,
            **needed,
            "enable_auto_commit": False,
            "allow_auto_create_topics": False,
        }
        try:
            async with Consumer(bootstrap_servers=self.options.bootstrap_servers, **options) as consumer:
                yield consumer
        finally:
            self._readers.release()

    @asynccontextmanager
    async def producer(self) -> AsyncGenerator[Producer]:
        """Open a producer for one record."""
        async with Producer(self.options.bootstrap_servers, **self.options.producer) as producer:
            yield producer
