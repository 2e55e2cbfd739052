"""The clients of one cluster: an admin client that is opened when it is first needed, and a bounded number of readers.

A cluster that cannot be reached is an error of the pages that ask; the next page tries again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..client import Admin, Consumer, Producer
from ..client.admin.admin import retried_errors
from ..client.errors import NoBrokerReachable
from ..web.exchange import HttpError

# Each holds what it has fetched ahead: some tens of MiB at most.
MAX_READERS = 8
_WAIT_S = 10.0
# Somebody looks at an empty page meanwhile. It is for options that say nothing else.
PAGE_WAIT_MS = 15_000
# A broker that starts again is waited for so long.
REFUSED_WITHIN_S = 3.0

T = TypeVar("T")


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
        # All pages that come meanwhile wait for one attempt: one after another they would wait for all before them.
        self._opening: asyncio.Task[Admin] | None = None
        self._is_stopped = False
        self._readers = asyncio.Semaphore(MAX_READERS)

    async def admin(self) -> Admin:
        """Return the admin client. Raises NoBrokerReachable, and what else a start raises; HttpError after a stop."""
        if self._admin is not None:
            return self._admin
        if self._opening is None and not self._is_stopped:
            self._opening = asyncio.create_task(self._open(), name="admin client")
            self._opening.add_done_callback(self._opened)
        if (opening := self._opening) is not None:
            await asyncio.wait({opening})
            if not opening.cancelled():
                return opening.result()
        # What a page opened now, nobody would close.
        raise HttpError(503, "the clients of this page are closed: load it again")

    async def _open(self) -> Admin:
        options: dict[str, Any] = {"default_api_timeout_ms": PAGE_WAIT_MS, **self.options.admin}
        admin = Admin(self.options.bootstrap_servers, **options)
        await admin.start()
        return admin

    def _opened(self, opening: asyncio.Task[Admin]) -> None:
        self._opening = None
        # The look also tells asyncio that somebody knows of the error: all pages that wait may be gone.
        if not opening.cancelled() and opening.exception() is None:
            self._admin = opening.result()

    async def answer(self, page: Awaitable[T]) -> T:
        """Return what a page makes. Raises what it raises, and NoBrokerReachable where nobody listens for a while.

        The client would ask again until the time of its calls is over, while somebody looks at an empty page.
        """
        making = asyncio.ensure_future(page)
        try:
            while not (await asyncio.wait({making}, timeout=REFUSED_WITHIN_S))[0]:
                errors = retried_errors(self._admin) if self._admin is not None else []
                refused = next((e for e in errors if isinstance(e, NoBrokerReachable) and not e.listens), None)
                if refused is not None:
                    raise refused
            return making.result()
        finally:
            making.cancel()

    async def stop(self) -> None:
        """Close the admin client; readers end with their pages. May be called again."""
        self._is_stopped = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening})
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

    def producer(self) -> Producer:
        """Return a producer for one record, which is not open yet."""
        return Producer(self.options.bootstrap_servers, **self.options.producer)
