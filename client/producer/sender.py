"""The producer's task: sends due batches to the leaders of their partitions and handles the responses.

Each pass sends a request to one leader: one due batch per partition, at most `max_request_size` bytes in all,
and at most `max_in_flight_requests_per_connection` requests in flight to a broker. Requests to a broker leave in the
order in which they were drained, because sequences depend on it. The next pass comes when a linger or pause ends, or in
the next turn of the event loop after `wake()`: nothing polls. Passes and responses are callbacks and not tasks, because
a task a request costs a lone record a third of its time.

A batch is acknowledged; or sent again, while the error is retriable and `delivery_timeout_ms` is not over; or it fails.
With idempotence (KIP-98) a queue also needs a producer id, for which InitProducerId (key 22) is sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial

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
from ..core.clock import monotonic_ms
from ..core.cluster import Cluster
from ..core.connection import Connection
from ..core.lifetime import retrieve
from ..core.metadata import NO_LEADER
from ..errors import AuthenticationFailed, BadResponse, ConnectionLost
from .accumulator import RecordAccumulator
from .batch import ProducerBatch, ProducerIdAndEpoch, done_after
from .listeners import Listeners, ProducerCounts
from .options import ProducerOptions
from .partition_queue import PartitionQueue
from .transaction_machine import IMPLICIT
from .transactions import Transactions

_log = logging.getLogger(__name__)

_LAST_NAMED_VERSION = 12  # Produce 13 goes by topic id
_LAST_EXPLICIT_VERSION = 11  # Produce 12 adds its partitions to the transaction (KIP-890)
# While batches are due that cannot be sent, a pass looks for expired ones this often.
_EXPIRY_CHECK_MS = 1_000.0

_IN_THE_LOG: set[int] = {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}
# After these errors the batch may be written or not.
_UNCERTAIN = {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.KAFKA_STORAGE_ERROR,
}
# With acks=all, after these too: a leader that waits for its replicas answers so when it loses the partition.
_UNCERTAIN_AFTER_A_WAIT = _UNCERTAIN | {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
_ALL = -1
# The broker does not know the sequence before that of the batch.
_SEQUENCE_ERRORS = {ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
# After these errors the records may still fit in smaller batches.
_TOO_LARGE: set[int] = {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE}
# After these errors another broker may lead the partition.
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
_MAX_INT32 = 2**31 - 1


class Sender:
    """Moves batches from an accumulator to a cluster. Run `run()` as a task; `wake()` it when batches may be due."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: RecordAccumulator,
        options: ProducerOptions,
        listeners: Listeners,
        counts: ProducerCounts,
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._options = options
        self._uncertain = _UNCERTAIN_AFTER_A_WAIT if options.wire_acks == _ALL else _UNCERTAIN
        self._listeners = listeners
        self._counts = counts
        self._loop = asyncio.get_running_loop()
        # Set while `run` runs: the exception that a pass or a response raises.
        self._broken: asyncio.Future[None] | None = None
        # Whether a pass comes in the next turn of the loop. Otherwise the timer starts the next one.
        self._is_woken = False
        self._timer: asyncio.TimerHandle | None = None
        # Set for a transactional producer, before `run`.
        self.transactions: Transactions | None = None
        self._producer_ids = ProducerIds(cluster, accumulator, self.wake)
        # Requests in flight by node id.
        self._in_flight: dict[int, int] = {}
        # Brokers that a task connects to.
        self._connecting: set[int] = set()
        # By node id, how many attempts to connect have failed in a row, and the last one's error.
        self._connect_failures: dict[int, tuple[int, KafkaError]] = {}
        cluster.on_update(lambda _view: self.wake())

    def wake(self) -> None:
        """Have a pass look for due batches."""
        if not self._is_woken:
            self._loop.call_soon(self._pass)  # raises where the loop has ended
            self._is_woken = True

    async def run(self) -> None:
        """Send due batches until cancelled. Raises what breaks a pass."""
        self._broken = self._loop.create_future()
        self.wake()
        try:
            await self._broken
        finally:
            self._broken = None
            self._set_timer(None)

    def _pass(self) -> None:
        self._is_woken = False
        self._do(lambda: self._set_timer(self._send_due()))

    def _do(self, work: Callable[[], None]) -> None:
        """Do a part of the work of `run`. If it raises, `run` raises the same."""
        if self._broken is None or self._broken.done():
            return
        try:
            work()
        except Exception as error:  # noqa: BLE001 - `run` raises it
            self._broken.set_exception(error)

    def _set_timer(self, pause_ms: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if pause_ms is None else self._loop.call_later(pause_ms / 1000, self.wake)

    @property
    def requests_in_flight(self) -> int:
        """How many requests have no response yet."""
        return sum(self._in_flight.values())

    async def flush(self) -> None:
        """Send the queued records without lingering. Return when all are acknowledged or have failed."""
        pending = self._accumulator.pending()
        if not pending:
            return
        done: asyncio.Future[None] = self._loop.create_future()
        batch_done = done_after(len(pending), [lambda: done.done() or done.set_result(None)])
        for batch in pending:
            batch.on_done.append(batch_done)
        self._accumulator.flushing += 1
        self.wake()
        try:
            await done
        finally:
            self._accumulator.flushing -= 1

    # -- Send

    def _send_due(self) -> float | None:
        """Send one request. Return the milliseconds until the next pass, None: not before a `wake`.

        One a turn of the loop: to compress the batches of several takes too long.
        """
        now_ms = monotonic_ms()
        self._accumulator.expire(now_ms)
        error = None if self.transactions is None else self.transactions.discard_error()
        if error is not None:  # what is queued for a transaction that will not be committed
            self._accumulator.fail_unsent(error)
        # A batch lingers only while a request is under way: a lone record need not wait for neighbours.
        ready, next_ms = self._accumulator.due(now_ms, linger=any(self._in_flight.values()))
        if any(self._send_request(*each) for each in self._sendable_by_leader(ready).items()):
            self.wake()
            return None
        # Due batches that cannot go wait for metadata, a connection or a response, each of which wakes the task. Only
        # their expiry needs a pass by time.
        return min(next_ms or _EXPIRY_CHECK_MS, _EXPIRY_CHECK_MS) if ready or next_ms is not None else None

    def _sendable_by_leader(self, ready: list[PartitionQueue]) -> dict[int, list[PartitionQueue]]:
        """Return the queues that can be sent by leader; look for the leader or producer id of the others."""
        gate = self.transactions or (self._producer_ids if self._options.enable_idempotence else None)
        leaders: dict[int, list[PartitionQueue]] = {}
        for queue in ready:
            leader = self._cluster.leader(queue.partition)
            if leader == NO_LEADER:
                topic, number = queue.partition
                code = self._cluster.view.errors.get(topic, ErrorCode.LEADER_NOT_AVAILABLE)
                self._hold(queue, KafkaError(code, f"{topic}-{number}: no leader of the partition is known"))
                self._cluster.refresh_leader(queue.partition, create=True)
            # Not to another broker while one has batches: a leader recognizes the last five of a producer alone.
            elif gate is None or ((queue.sent_to == leader or not queue.in_flight) and gate.ready(queue)):
                leaders.setdefault(leader, []).append(queue)
        return leaders

    def _send_request(self, node_id: int, queues: list[PartitionQueue]) -> bool:
        """Send one request with as many of the queues' batches as fit, if the broker can take one now."""
        if self._in_flight.get(node_id, 0) >= self._options.max_in_flight_requests_per_connection:
            return False
        connection = self._cluster.ready(node_id)
        if connection is None:
            self._connect(node_id)
            if node_id in self._connect_failures:
                for queue in queues:
                    self._hold(queue, self._connect_failures[node_id][1])
            return False
        batches = self._drain(node_id, queues)
        names = self._cluster.view.topic_names
        self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
        began_ms = monotonic_ms()
        try:
            response = self._produce(connection, batches)
        except KafkaError as error:
            self._request_done(node_id)
            self._fail_request(batches, error)
            return True
        self._counts.sent(batches, began_ms)
        if self._listeners:
            for batch in batches:
                self._listeners.sent(batch, node_id)
        if response is None:
            self._cluster.spawn(self._drained(node_id, batches, connection), "produce")
        else:
            answered = partial(self._answered, node_id, batches, names, began_ms)
            response.add_done_callback(partial(self._take, answered))
        return True

    def _drain(self, node_id: int, queues: list[PartitionQueue]) -> list[ProducerBatch]:
        """Drain one batch per queue, up to `max_request_size` bytes but at least one."""
        batches: list[ProducerBatch] = []
        size = 0
        for queue in queues:
            following = queue.next_batch
            assert following is not None
            if batches and size + following.size_bytes > self._options.max_request_size:
                break
            size += following.size_bytes
            queue.sent_to = node_id
            batches.append(self._accumulator.drain(queue))
        return batches

    def _produce(self, connection: Connection, batches: list[ProducerBatch]) -> asyncio.Future[ProduceResponse] | None:
        """Send a Produce request. Return the future of its response, None with acks=0."""
        view = self._cluster.view
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            name, number = batch.partition
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = TopicProduceData(name=name, topic_id=view.topic_id(name))
            topic.partition_data.append(PartitionProduceData(index=number, records=batch.encoded))
        named = any(topic.topic_id == ZERO_UUID for topic in topics.values())
        at_most = _LAST_NAMED_VERSION if named else ProduceRequest.VERSIONS[-1]
        if self.transactions is not None and self.transactions.machine.version < IMPLICIT:
            at_most = _LAST_EXPLICIT_VERSION
        version = connection.version_for(ProduceRequest, at_most)
        request = ProduceRequest(
            transactional_id=None if self.transactions is None else self.transactions.machine.transactional_id,
            acks=self._options.wire_acks,
            timeout_ms=int(self._options.request_timeout_ms),
            topic_data=list(topics.values()),
        )
        if request.acks == 0:
            connection.send_without_response(request, version=version)
            return None
        return connection.send(request, ProduceResponse, version=version)

    # -- Connect

    def _connect(self, node_id: int) -> None:
        if node_id not in self._connecting:
            self._connecting.add(node_id)
            self._cluster.spawn(self._open_connection(node_id), "connect for produce")

    async def _open_connection(self, node_id: int) -> None:
        try:
            await self._cluster.connection(node_id)
            self._connect_failures.pop(node_id, None)
        except KafkaError as error:
            # The batches stay queued until delivery_timeout_ms is over; another broker may lead by now.
            failures = self._connect_failures.get(node_id, (0, error))[0] + 1
            self._connect_failures[node_id] = failures, error
            self._cluster.refresh_soon()
            await asyncio.sleep(self._cluster.backoff.pause_ms(failures) / 1000)
        finally:
            self._connecting.discard(node_id)
            self.wake()

    # -- Responses

    def _take(
        self, answered: Callable[[asyncio.Future[ProduceResponse]], None], done: asyncio.Future[ProduceResponse]
    ) -> None:
        """Handle a response, unless the sender has ended: then nobody asks for its error."""
        retrieve(done)
        self._do(partial(answered, done))

    def _answered(
        self,
        node_id: int,
        batches: list[ProducerBatch],
        names: Mapping[bytes, str],
        began_ms: float,
        done: asyncio.Future[ProduceResponse],
    ) -> None:
        """Complete, retry or fail each of a request's batches. `names` are those of the topic ids that it used."""
        try:
            response = done.result()
        except KafkaError as error:
            self._fail_request(batches, error)
        else:
            self._counts.answered(monotonic_ms() - began_ms, response.throttle_time_ms)
            results = _results(response, names)
            for batch in batches:
                self._complete_batch(batch, results.get(batch.partition))
        self._request_done(node_id)

    async def _drained(self, node_id: int, batches: list[ProducerBatch], connection: Connection) -> None:
        """With acks=0, wait until the socket has taken the batches: until then they count against `buffer_memory`."""
        try:
            await connection.drained()
        except KafkaError as error:
            self._fail_request(batches, error)
        else:
            for batch in batches:
                self._acknowledge(batch, -1, -1)
        finally:
            self._request_done(node_id)

    def _complete_batch(self, batch: ProducerBatch, result: PartitionProduceResponse | None) -> None:
        if result is None:
            self._fail_attempt(batch, BadResponse(f"Produce was answered without {batch.partition}"))
        elif result.error_code in _IN_THE_LOG:
            offset = -1 if result.error_code else result.base_offset
            self._acknowledge(batch, offset, result.log_append_time_ms)
        else:
            self._fail_attempt(batch, _error(batch, result))

    def _acknowledge(self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int) -> None:
        if self._listeners:
            self._listeners.acknowledged(batch, base_offset)
        self._accumulator.acknowledge(batch, base_offset, log_append_time_ms)

    def _request_done(self, node_id: int) -> None:
        self._in_flight[node_id] -= 1
        if self._accumulator.has_unsent:
            self.wake()

    def _fail_request(self, batches: list[ProducerBatch], error: KafkaError) -> None:
        for batch in batches:
            self._fail_attempt(batch, error)

    def _fail_attempt(self, batch: ProducerBatch, error: KafkaError) -> None:
        """Send the batch again, or let it fail for good."""
        accumulator = self._accumulator
        queue = accumulator.queues[batch.partition]
        now_ms = monotonic_ms()
        queue.last_error = error
        if error.code in self._uncertain or isinstance(error, ConnectionLost):
            batch.maybe_written = True
        if error.code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            batch.is_appended = True
        if error.code in _STALE_METADATA:
            self._cluster.refresh_leader(batch.partition)
        if accumulator.is_expired(batch, now_ms):
            accumulator.fail(batch, batch.timeout_error(self._options.delivery_timeout_ms, error))
        elif error.code in _TOO_LARGE and batch.may_split:
            self._counts.split()
            accumulator.split(batch, now_ms)
        elif error.retriable or isinstance(error, AuthenticationFailed) or self._lacks_predecessor(queue, batch, error):
            # A password may be changed again, on one broker after the other: records wait as for a lost connection.
            pause_ms = self._pause_ms(error, batch.attempts)
            _log.debug("%s-%d: a batch goes again in %d ms: %s", *batch.partition, pause_ms, error)
            self._counts.retried(batch)
            self._note_failure(batch, error)
            accumulator.retry(batch, now_ms, pause_ms)
            accumulator.fail_unrepeatable(queue)
        else:
            accumulator.fail(batch, error)

    def _pause_ms(self, error: KafkaError, failures: int) -> float:
        if self.transactions is not None:
            return self.transactions.pause_ms(error, failures)
        return self._cluster.backoff.pause_ms(failures)

    def _hold(self, queue: PartitionQueue, error: KafkaError) -> None:
        """Note why a queue cannot be sent now."""
        queue.last_error = error
        if queue.next_batch is not None:
            self._note_failure(queue.next_batch, error)

    def _note_failure(self, batch: ProducerBatch, error: KafkaError) -> None:
        """Have the user told why the batch waits, until it is acknowledged or fails."""
        if not batch.is_late:
            batch.is_late = True
            batch.on_done.append(partial(self._cluster.retries.done, batch))
        self._cluster.retries.failed(batch, error)

    def _lacks_predecessor(self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError) -> bool:
        """Whether the broker rejects the batch because an earlier one is missing, or it has forgotten the producer id.

        Either way the batch may go again: behind the missing one, or with a new producer id (KIP-360).
        """
        if error.code not in _SEQUENCE_ERRORS:
            return False
        if error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and queue.lacks_before(batch):
            return True
        # With a new producer id it must neither be written twice, nor behind a later one.
        if batch.maybe_written or batch.number < queue.acknowledged_number or self.transactions is not None:
            return False
        _log.warning("the broker has lost earlier records of this producer, or forgotten it: %s", error.message)
        queue.lose_sequence(batch)
        return True


def _results(response: ProduceResponse, names: Mapping[bytes, str]) -> dict[tuple[str, int], PartitionProduceResponse]:
    return {
        (topic.name or names.get(topic.topic_id, ""), partition.index): partition
        for topic in response.responses
        for partition in topic.partition_responses
    }


def _error(batch: ProducerBatch, result: PartitionProduceResponse) -> KafkaError:
    code = ErrorCode.of(result.error_code)
    text = result.error_message or code.text
    if result.record_errors:
        first = result.record_errors[0]
        why = first.batch_index_error_message or "no reason given"
        text += f" (record {first.batch_index} of the batch{'' if why in text else f': {why}'})"
    return KafkaError(code, f"{batch.partition}: {text}")


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
        if queue.needs_producer_id and (self._request is None or self._request.done()):
            self._request = self._cluster.spawn(self._give(), "producer id")
        return not queue.needs_producer_id

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
                        for queue in self._waiting_queues():
                            for batch in queue.batches():
                                self._accumulator.fail(batch, error)
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

    def _waiting_queues(self) -> list[PartitionQueue]:
        """Return the queues that can take a producer id now: nothing is in flight under the old one."""
        return [queue for queue in self._accumulator.queues.values() if queue.needs_producer_id and not queue.in_flight]
