"""A fake cluster in a thread, for tests of clients that block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager

from .fake_cluster import FakeCluster


@contextmanager
def cluster_in_thread(topics: dict[str, int], nodes: int = 1) -> Generator[FakeCluster]:
    """Serve a fake cluster until the end of the block."""
    ready, found = threading.Event(), list[FakeCluster]()
    ending: list[asyncio.Event] = []
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        async with FakeCluster(topics, nodes) as cluster:
            found.append(cluster)
            ending.append(asyncio.Event())
            loops.append(asyncio.get_running_loop())
            ready.set()
            await ending[0].wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="fake cluster")
    thread.start()
    assert ready.wait(20)
    try:
        yield found[0]
    finally:
        loops[0].call_soon_threadsafe(ending[0].set)
        thread.join(20)
