"""The producer's one task: takes what is due from the accumulator, sends it to the leaders, and judges the answers.

Each pass groups the due batches by leader, one batch a partition in a request of at most `max_request_size` bytes, up
to `max_in_flight_requests_per_connection` requests under way to a broker. Requests of one broker leave in the order
in which they were drained: sequences depend on it. The pass ends with a sleep until the next linger, pause or
wake-up: nothing polls.

Verdicts on a batch: acknowledged; to be tried again (the error is retriable and `delivery_timeout_ms` is not over);
given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ...protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ...protocol.primitives import ZERO_UUID
from ..errors import BadResponse, ConnectionLost
from ..metadata import NO_LEADER
from ..network.cluster import Cluster
from ..network.connection import Connection
from .accumulator import Accumulator, Batch, Identity, PartitionQueue

# Produce 3 brought batches of format v2, 7 zstd (the broker then knows what it is given), 13 topics by id.
_ZSTD_VERSION = 7
_TOPIC_ID_VERSION = 13
_LAST_NAMED_VERSION = 12

_IN_THE_LOG: set[int] = {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}
# The write may have happened although these were answered.
_UNCERTAIN = {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}
# The broker that was asked is not, or not any more, the one to ask.
_STALE_METADATA = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
}


@dataclass(frozen=True, slots=True)
class SenderOptions:
    acks: int
    max_request_size: int
    max_in_flight: int
    request_timeout_ms: float


class Sender:
    """Moves batches from an accumulator to a cluster.

    Run `run()` as a task; `wake()` when there is something new to see.
    """

    def __init__(
        self, cluster: Cluster, accumulator: Accumulator, options: SenderOptions, clock: Callable[[], float]
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._options = options
        # Monotonic, in milliseconds.
        self._clock = clock
        self._wake = asyncio.Event()
        # Requests under way by node id.
        self._under_way: dict[int, int] = {}
        # Nodes that are being connected to.
        self._connecting: set[int] = set()
        self._connect_failures: dict[int, int] = {}
        self._identities: asyncio.Task[None] | None = None
        cluster.listen(lambda _view: self.wake())

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        while True:
            self._wake.clear()
            wait_ms = self._pass()
            try:
                async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
                    await self._wake.wait()
            except TimeoutError:
                pass  # the linger or pause that was waited for is over

    def _pass(self) -> float | None:
        """Send what is due; in how many ms to look again."""
        while True:
            now_ms = self._clock()
            self._accumulator.expire(now_ms)
            ready, next_ms = self._accumulator.due(now_ms)
            sent = False
            for node_id, queues in self._by_leader(ready).items():
                sent = self._send_to(node_id, queues) or sent
            if not sent:
                # What is due but cannot go waits for metadata, a connection or an answer; each of them wakes us. The
                # delivery time-out needs a look of its own.
                return min(next_ms or 1_000.0, 1_000.0) if ready or next_ms is not None else None

    def _by_leader(self, ready: list[PartitionQueue]) -> dict[int, list[PartitionQueue]]:
        leaders: dict[int, list[PartitionQueue]] = {}
        for queue in ready:
            leader = self._cluster.leader(queue.partition)
            if leader == NO_LEADER:
                self._cluster.watch((queue.partition.topic,))
                self._cluster.refresh_soon()
            elif self._accumulator.idempotent and (queue.identity is None or queue.identity_lost):
                self._find_identities()
            else:
                leaders.setdefault(leader, []).append(queue)
        return leaders

    # -- out ---------------------------------------------------------------------------------------

    def _send_to(self, node_id: int, queues: list[PartitionQueue]) -> bool:
        """One request with as many of the queues' batches as fit, if the broker can take one now."""
        if self._under_way.get(node_id, 0) >= self._options.max_in_flight:
            return False
        connection = self._cluster.ready(node_id)
        if connection is None:
            self._connect(node_id)
            return False
        batches: list[Batch] = []
        size = 0
        for queue in queues:
            following = queue.sealed[0] if queue.sealed else queue.open
            assert following is not None
            if batches and size + following.size_bytes > self._options.max_request_size:
                break
            size += following.size_bytes
            batches.append(self._accumulator.drain(queue))
        self._under_way[node_id] = self._under_way.get(node_id, 0) + 1
        try:
            answer = self._ask(connection, batches)
        except KafkaError as error:
            self._answered(node_id)
            self._all_failed(batches, error)
        else:
            self._cluster.spawn(self._judge(node_id, batches, answer), "produce")
        return True

    def _ask(self, connection: Connection, batches: list[Batch]) -> asyncio.Future[ProduceResponse] | None:
        """Put a request on the wire. None where acks=0 asks for no answer."""
        view = self._cluster.view
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            name, number = batch.partition
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = TopicProduceData(name=name, topic_id=view.topic_id(name))
            topic.partition_data.append(PartitionProduceData(index=number, records=batch.encoded))
        named = any(topic.topic_id == ZERO_UUID for topic in topics.values())
        version = connection.version_for(ProduceRequest, _LAST_NAMED_VERSION if named else None)
        request = ProduceRequest(
            acks=self._options.acks,
            timeout_ms=int(self._options.request_timeout_ms),
            topic_data=list(topics.values()),
        )
        if self._options.acks == 0:
            connection.send_unanswered(request, version=version)
            return None
        return connection.send(request, ProduceResponse, version=version)

    def _connect(self, node_id: int) -> None:
        if node_id not in self._connecting:
            self._connecting.add(node_id)
            self._cluster.spawn(self._open(node_id), "connect for produce")

    async def _open(self, node_id: int) -> None:
        try:
            await self._cluster.connection(node_id)
            self._connect_failures.pop(node_id, None)
        except KafkaError:
            # The records stay queued until delivery_timeout_ms; perhaps somebody else leads by now.
            failures = self._connect_failures[node_id] = self._connect_failures.get(node_id, 0) + 1
            self._cluster.refresh_soon()
            await asyncio.sleep(self._cluster.backoff.pause_ms(failures) / 1000)
        finally:
            self._connecting.discard(node_id)
            self.wake()

    # -- identities --------------------------------------------------------------------------------

    def _find_identities(self) -> None:
        if self._identities is None or self._identities.done():
            self._identities = self._cluster.spawn(self._give_identities(), "producer id")

    async def _give_identities(self) -> None:
        """A producer id for every queue that has none or has lost its own. Queues that start together share one."""
        failures = 0
        while True:
            try:
                answer = await self._cluster.ask_any(
                    InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1),
                    InitProducerIdResponse,
                )
                if not answer.error_code:
                    break
                error = KafkaError(ErrorCode.of(answer.error_code), "InitProducerId was refused")
            except KafkaError as caught:
                error = caught
            if not error.retriable:
                for queue in self._without_identity():
                    for batch in queue.batches():
                        self._accumulator.fail(batch, error)
                return
            failures += 1
            await asyncio.sleep(self._cluster.backoff.pause_ms(failures) / 1000)
        identity = Identity(answer.producer_id, answer.producer_epoch)
        for queue in self._without_identity():
            queue.take_identity(identity)
        self.wake()

    def _without_identity(self) -> list[PartitionQueue]:
        """Queues that can take an identity now: what was sent under the old one has come back."""
        return [
            q for q in self._accumulator.queues.values() if (q.identity is None or q.identity_lost) and not q.in_flight
        ]

    # -- back --------------------------------------------------------------------------------------

    async def _judge(self, node_id: int, batches: list[Batch], answer: asyncio.Future[ProduceResponse] | None) -> None:
        try:
            verdicts = {} if answer is None else self._verdicts(await answer)
        except KafkaError as error:
            self._all_failed(batches, error)
            return
        finally:
            self._answered(node_id)
        for batch in batches:
            if answer is None:
                self._accumulator.acknowledge(batch, -1, -1)
                continue
            verdict = verdicts.get(batch.partition)
            if verdict is None:
                self._failed(batch, BadResponse(f"Produce was answered without {batch.partition}"))
            elif verdict.error_code in _IN_THE_LOG:
                offset = -1 if verdict.error_code else verdict.base_offset
                self._accumulator.acknowledge(batch, offset, verdict.log_append_time_ms)
            else:
                self._failed(batch, _error(batch, verdict))

    def _verdicts(self, answer: ProduceResponse) -> dict[tuple[str, int], PartitionProduceResponse]:
        names = self._cluster.view.topic_names
        return {
            (topic.name or names.get(topic.topic_id, ""), partition.index): partition
            for topic in answer.responses
            for partition in topic.partition_responses
        }

    def _answered(self, node_id: int) -> None:
        self._under_way[node_id] -= 1
        self.wake()

    def _all_failed(self, batches: list[Batch], error: KafkaError) -> None:
        for batch in batches:
            self._failed(batch, error)

    def _failed(self, batch: Batch, error: KafkaError) -> None:
        """Try the batch again, or give it up."""
        accumulator = self._accumulator
        queue = accumulator.queues[batch.partition]
        now_ms = self._clock()
        if error.code in _UNCERTAIN or isinstance(error, ConnectionLost):
            batch.maybe_written = True
        if error.code in _STALE_METADATA:
            self._cluster.watch((batch.partition.topic,))
            self._cluster.refresh_soon()
        if accumulator.is_late(batch, now_ms):
            accumulator.fail(batch, accumulator.lateness(batch))
        elif error.retriable or self._is_behind_a_gap(queue, batch, error):
            accumulator.retry(batch, now_ms, self._cluster.backoff.pause_ms(batch.attempts))
            if queue.outcome_unknown:
                accumulator.fail_uncertain(queue)
        else:
            accumulator.fail(batch, error)

    def _is_behind_a_gap(self, queue: PartitionQueue, batch: Batch, error: KafkaError) -> bool:
        """Whether the broker refuses the batch only because one before it has not arrived, or has forgotten who we are.

        Either way the batch is not in the log, and may go again: behind the one that is missing, or under a new
        identity.
        """
        if error.code == ErrorCode.UNKNOWN_PRODUCER_ID and not batch.maybe_written:
            queue.identity_lost = True
            return True
        if error.code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return False
        return queue.identity_lost or any(other.number < batch.number for other in (*queue.sealed, *queue.in_flight))


def _error(batch: Batch, verdict: PartitionProduceResponse) -> KafkaError:
    code = ErrorCode.of(verdict.error_code)
    text = verdict.error_message or code.text
    if verdict.record_errors:
        first = verdict.record_errors[0]
        text += f" (record {first.batch_index} of the batch: {first.batch_index_error_message or 'no reason given'})"
    return KafkaError(code, f"{batch.partition.topic}-{batch.partition.partition}: {text}")
