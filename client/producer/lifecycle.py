"""The options of a producer, its start and its stop: the part of `Producer` that sending rests on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from types import TracebackType
from typing import Generic, Self, Unpack

from ..core.arguments import KnowsOtherNames
from ..core.clock import monotonic_ms
from ..core.cluster import Cluster
from ..core.lifetime import Lifetime
from ..core.metadata import TopicInfo
from ..core.options import ClusterOptions, check_options, check_stop_timeout, part_of, security_options
from ..core.security import SecurityArguments
from ..core.serialization import Serializer, serializer
from ..core.task_ends import broken_task
from ..errors import ClientStopped, DeliveryStopped, KafkaError
from ..record import K, V
from .accumulator import RecordAccumulator
from .idle_topics import IdleTopics
from .listeners import Interceptors, Listeners, ProducerInterceptor, ProducerListener
from .options import ProducerOptions
from .partitioner import Partitioner
from .partitioners import DEFAULT, OwnPartitioner, choice_for
from .preparation import Preparation
from .producer_metrics import ProducerCounts
from .room import Room
from .sender import Sender, SenderOptions
from .transactions.transactions import Transactions

_log = logging.getLogger(__name__)


class Lifecycle(KnowsOtherNames, Generic[K, V]):
    """Starts and stops a producer."""

    # These exist from start() to stop().
    _cluster: Cluster | None = None
    # The same while the producer stops, and takes no more records.
    _ending: Cluster | None = None
    _sender: Sender | None = None
    _loop: asyncio.AbstractEventLoop
    _transactions: Transactions | None = None
    # Why the sender's task ended, if it did.
    _sender_error: KafkaError | None = None

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = "127.0.0.1:9092",
        *,
        client_id: str = "odradek-producer",
        acks: int | str = "all",
        linger_ms: float = 5,
        batch_size: int = 131_072,
        compression_type: str = "none",
        enable_idempotence: bool = True,
        max_request_size: int = 1_048_576,
        max_in_flight_requests_per_connection: int = 5,
        buffer_memory: int = 33_554_432,
        delivery_timeout_ms: float = 120_000,
        max_block_ms: float = 60_000,
        request_timeout_ms: float = 30_000,
        retry_backoff_ms: float = 100,
        retry_backoff_max_ms: float = 1_000,
        metadata_max_age_ms: float = 300_000,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        partitioner: str | OwnPartitioner = DEFAULT,
        interceptors: Sequence[ProducerInterceptor] = (),
        listeners: Sequence[ProducerListener] = (),
        **security: Unpack[SecurityArguments],
    ) -> None:
        given = check_options(locals())
        self._lifetime = Lifetime("producer")
        self._options = part_of(given, ProducerOptions)
        self._cluster_options = part_of(
            given,
            ClusterOptions,
            default_api_timeout_ms=max_block_ms,
            # A refresh must not make a deleted topic again: only a record for it, or a call that names it.
            allow_auto_create_topics=False,
            security=security_options("Producer", security),
        )
        self._take_hooks(
            Interceptors(interceptors), Listeners(listeners), (key_serializer, value_serializer), partitioner
        )

    def _take_hooks(
        self,
        interceptors: Interceptors,
        listeners: Listeners,
        serializers: tuple[Serializer | None, Serializer | None],
        partitioner: str | OwnPartitioner,
    ) -> None:
        options = self._options
        self._accumulator = _accumulator(options)
        self._room = Room(self._accumulator, options.max_block_ms, self._make_room)
        self._partitioner = Partitioner(options.batch_size)
        self._interceptors, self._listeners = interceptors, listeners
        # Attributes, because each record asks.
        self._has_interceptors, self._has_listeners = bool(interceptors), bool(listeners)
        self._counts = ProducerCounts()
        self._accumulator.on_failure.append(self._counts.failed)
        if listeners:
            self._accumulator.on_failure.append(listeners.failed)
        self._preparation = preparation = Preparation(
            interceptors,
            serializer(serializers[0], "key"),
            serializer(serializers[1], "value"),
            choice_for(partitioner, self._partitioner),
            options.max_request_size,
        )
        self._prepare = preparation.prepare_intercepted if interceptors else preparation.prepare
        # Whether `send_many` need not look at anything but bytes.
        serializes = preparation.serialize_key is not None or preparation.serialize_value is not None
        self._is_plain = not (serializes or interceptors or listeners) and partitioner == DEFAULT

    # -- Start and stop

    async def start(self) -> None:
        """Reach the cluster; with a `transactional_id`, take it over from any earlier producer.

        Raises NoBrokerReachable if no bootstrap server responds, ProducerUnusable if the id cannot be used.
        """
        await self._lifetime.start(self._start)

    async def _start(self) -> None:
        self._cluster = cluster = await Cluster.open(self._cluster_options)
        IdleTopics(cluster, self._accumulator, monotonic_ms)
        self._loop = asyncio.get_running_loop()
        options = self._options
        sender_options = SenderOptions(
            options.wire_acks,
            options.max_request_size,
            options.max_in_flight_requests_per_connection,
            options.request_timeout_ms,
        )
        self._sender = Sender(cluster, self._accumulator, sender_options, monotonic_ms, self._listeners, self._counts)
        cluster.spawn(self._sender.run(), "sender").add_done_callback(self._sender_ended)
        if options.transactional_id is not None:
            try:
                await self._start_transactions(cluster, self._sender, options.transactional_id)
            except BaseException:
                await self._end()
                raise

    async def _start_transactions(self, cluster: Cluster, sender: Sender, transactional_id: str) -> None:
        options = self._options
        self._transactions = sender.transactions = Transactions(
            cluster, transactional_id, options.transaction_timeout_ms, options.max_block_ms, sender.flush, sender.wake
        )
        self._accumulator.on_failure.append(self._transactions.batch_failed)
        await self._transactions.initialize()

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Send the queued records and close. An open transaction is aborted.

        Records that are not acknowledged after `timeout_ms` (delivery_timeout_ms if none) fail. The end of a
        transaction is waited for at most `max_block_ms`; after that its coordinator aborts it, unless it has the
        request to commit, when transaction_timeout_ms is over or another producer takes the id over.
        """
        check_stop_timeout(timeout_ms)
        limit_ms = self._options.delivery_timeout_ms if timeout_ms is None else timeout_ms
        await self._lifetime.stop(self._end, self._finish, limit_ms)

    async def _end(self) -> None:
        cluster = self._ending or self._cluster
        self._ending = self._cluster = None
        try:
            if cluster is not None:
                await cluster.close()
        finally:
            self._fail_what_waits()

    def _fail_what_waits(self) -> None:
        """Fail the records and calls that wait: nothing will answer them any more."""
        self._sender = None
        transactions, self._transactions = self._transactions, None
        if transactions is not None:
            transactions.close()
        text = "the producer was stopped before the broker acknowledged this record"
        self._accumulator.fail_all(DeliveryStopped(text))
        if transactions is not None:
            self._accumulator.on_failure.remove(transactions.batch_failed)

    async def _finish(self) -> None:
        """Take no more records; end an open transaction, or send what is queued."""
        self._ending, self._cluster = self._cluster, None
        if self._transactions is not None:
            try:
                await self._transactions.stop()
            except KafkaError as error:  # the calls that wait for the transaction's end raise it, too
                _log.warning("the producer is stopped before its transaction has ended: %s", error.message)
        elif self._sender is not None:
            await self._sender.flush()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _sender_ended(self, task: asyncio.Task[None]) -> None:
        """Fail all records if the sender broke or was cancelled: nothing would send them any more."""
        if self._cluster is not None and (failure := broken_task(task, "the producer's sender")) is not None:
            self._sender_error = failure
            stopped = isinstance(failure, ClientStopped)
            self._accumulator.fail_all(DeliveryStopped(failure.message) if stopped else failure)

    async def _topic(self, name: str) -> TopicInfo:
        """Return a topic, which the broker may create now. Raises UnknownTopic after `max_block_ms`, ClientStopped."""
        return await self._running_here().topic(name, create=True)

    def _running_here(self) -> Cluster:
        """Return the cluster. Raises ClientStopped, WrongEventLoop."""
        self._lifetime.check_loop()
        return self._running()

    def _running(self) -> Cluster:
        if self._sender_error is not None:
            raise self._sender_error
        if self._cluster is None:
            raise ClientStopped("the producer is not running: use `async with Producer(...)`, or await start() first")
        return self._cluster

    def _make_room(self) -> None:
        """Have the sender send without lingering. Raises ClientStopped."""
        self._running()
        assert self._sender is not None
        self._sender.wake()

    @property
    def is_connected(self) -> bool:
        """Whether a connection to any broker is open now; lost ones are opened again when they are needed."""
        return self._cluster is not None and self._cluster.is_connected


def _accumulator(options: ProducerOptions) -> RecordAccumulator:
    return RecordAccumulator(
        batch_size=min(options.batch_size, options.max_request_size),
        linger_ms=options.linger_ms,
        buffer_memory=options.buffer_memory,
        delivery_timeout_ms=options.delivery_timeout_ms,
        compression=options.compression,
        idempotent=options.enable_idempotence,
        transactional=options.transactional_id is not None,
    )
