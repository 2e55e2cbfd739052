"""Producer ids in a cluster: each broker hands out blocks of 1000, which it takes from `/latest_producer_id_block`.

The next block is fetched while a tenth of the present one is left, so that nobody waits for ZooKeeper. Where it does
not come in time, producers are told to try again (COORDINATOR_LOAD_IN_PROGRESS, as in Kafka). An id that was handed out
is never handed out again; a restart wastes the rest of a block.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ...protocol.errors import ErrorCode, KafkaError
from ...zookeeper.operations import Put, Steps, read, write
from .znodes import PRODUCER_ID_BLOCK, BadZnode, ProducerIds, decode_producer_ids, encode_producer_ids

# Kafka's numbers.
BLOCK_SIZE = 1000
_FETCH_WHEN_LEFT = BLOCK_SIZE // 10
# A transaction that ends may need an id at once, because its producer has used up its epochs.
_RESERVE = 10
_LAST_ID = 2**63 - 1

_log = logging.getLogger(__name__)


def take_block(broker_id: int, at_least: int = 0) -> Steps[ProducerIds]:
    """Take the next block that no broker has, with ids from `at_least` on.

    Raises BadZnode where `/latest_producer_id_block` makes no sense or was removed: an id might be given out twice.
    """
    while True:
        found = yield from read(PRODUCER_ID_BLOCK)
        if found is None:
            raise BadZnode(PRODUCER_ID_BLOCK, "it has been removed, and with it the last id that was given out")
        newest = decode_producer_ids(found.data)
        first = max(newest.last + 1 if newest is not None else 0, at_least)
        if first > _LAST_ID - BLOCK_SIZE:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "every producer id of the cluster was handed out")
        block = ProducerIds(broker_id, first, first + BLOCK_SIZE - 1)
        failure = yield from write(Put(PRODUCER_ID_BLOCK, encode_producer_ids(block), found.version))
        if failure is None:
            return block


class ProducerIdBlocks:
    """The producer ids of one broker. Call `fetch` before the first is wanted."""

    def __init__(self, take: Callable[[], Awaitable[ProducerIds]]) -> None:
        """`take` takes a block; it may fail while ZooKeeper is away."""
        self._take = take
        self._next = 0
        self._end = 0
        self._following: ProducerIds | None = None
        self._fetching: asyncio.Future[None] | None = None

    def new_id(self) -> int:
        """Return an id that was never given out. Raises COORDINATOR_LOAD_IN_PROGRESS where no block is here yet."""
        if self._next >= self._end and self._following is not None:
            self._next, self._end, self._following = self._following.first, self._following.last + 1, None
        if self._end - self._next <= _FETCH_WHEN_LEFT and self._following is None:
            self._fetch_in_background()
        if self._next >= self._end:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the next block of producer ids is on its way")
        self._next += 1
        return self._next - 1

    @property
    def can_give(self) -> bool:
        """Whether producers may ask for ids. The last few are kept for transactions that are under way."""
        following = 0 if self._following is None else BLOCK_SIZE
        if self._end - self._next + following > _RESERVE:
            return True
        self._fetch_in_background()
        return False

    async def fetch(self) -> None:
        """Take a block. Raises what `take` raises."""
        self._following = await self._take()

    def close(self) -> None:
        """Fetch no more."""
        if self._fetching is not None:
            self._fetching.cancel()

    def _fetch_in_background(self) -> None:
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.ensure_future(self.fetch())
            self._fetching.add_done_callback(_report)


def _report(fetching: asyncio.Future[None]) -> None:
    if not fetching.cancelled() and (error := fetching.exception()) is not None:
        # The next producer that asks is another try.
        _log.warning("no block of producer ids could be taken: %s", error)
