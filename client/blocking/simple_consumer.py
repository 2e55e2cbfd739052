"""The blocking consumer of one broker, without a group: `SimpleConsumer`."""

from __future__ import annotations

from ..consumer import simple_consumer as asyncio_client
from .derivation import BlockingClient, options_of, waiting


class SimpleConsumer(BlockingClient):
    """Fetches from one broker. Use `with`, or `start()` and `stop()`."""

    @options_of(asyncio_client.SimpleConsumer)
    def __init__(self, inner: asyncio_client.SimpleConsumer) -> None:
        super().__init__(inner)

    def stop(self) -> None:
        """Close the connection; may be called again."""
        self._stop_by(self._inner.stop)

    fetch = waiting(asyncio_client.SimpleConsumer.fetch)
    multifetch = waiting(asyncio_client.SimpleConsumer.multifetch)
    offsets_before = waiting(asyncio_client.SimpleConsumer.offsets_before)
    find_leader = waiting(asyncio_client.SimpleConsumer.find_leader)
    find_coordinator = waiting(asyncio_client.SimpleConsumer.find_coordinator)
    commit_offsets = waiting(asyncio_client.SimpleConsumer.commit_offsets)
    fetch_offsets = waiting(asyncio_client.SimpleConsumer.fetch_offsets)
