"""Producer ids for idempotence (KIP-98): requested by InitProducerId (key 22) when queues need one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ..core.cluster import Cluster
from .accumulator import RecordAccumulator
from .batch import ProducerIdAndEpoch
from .partition_queue import PartitionQueue

_MAX_INT32 = 2**31 - 1


class ProducerIds:
    """Gives producer ids to the queues of an accumulator. Queues that need one at the same time share it."""

    def __init__(self, cluster: Cluster, accumulator: RecordAccumulator, on_given: Callable[[], None]) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        # Called when queues have got their producer id.
        self._on_given = on_given
        self._request: asyncio.Task[None] | None = None

    def ready(self, queue: PartitionQueue) -> bool:
        """Whether a queue has a producer id to go on with; if not, one is requested."""
        if queue.needs_producer_id:
            self.request()
            return False
        return True

    def request(self) -> None:
        """Start a request unless one is under way."""
        if self._request is None or self._request.done():
            self._request = self._cluster.spawn(self._give(), "producer id")

    async def _give(self) -> None:
        """Request a producer id until the broker returns one, or fail the batches of queues that need one."""
        failures = 0
        with self._cluster.retries.of(self):
            while True:
                try:
                    producer = await self._request_once()
                    break
                except KafkaError as error:
                    if not error.retriable:
                        self._fail_waiting(error)
                        return
                    failures += 1
                    for queue in self._waiting_queues():
                        queue.last_error = error
                    self._cluster.retries.failed(self, error)
                    await asyncio.sleep(self._cluster.backoff.pause_ms(failures) / 1000)
        for queue in self._waiting_queues():
            queue.reset_producer_id(producer)
        self._on_given()

    async def _request_once(self) -> ProducerIdAndEpoch:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_MAX_INT32)
        response = await self._cluster.request_any(request, InitProducerIdResponse)
        if response.error_code:
            raise KafkaError(ErrorCode.of(response.error_code), "InitProducerId was refused")
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

    def _fail_waiting(self, error: KafkaError) -> None:
        for queue in self._waiting_queues():
            for batch in queue.batches():
                self._accumulator.fail(batch, error)

    def _waiting_queues(self) -> list[PartitionQueue]:
        """Return the queues that can take a producer id now: nothing is in flight under the old one."""
        return [queue for queue in self._accumulator.queues.values() if queue.needs_producer_id and not queue.in_flight]
