"""What a producer has from its start to its stop: the cluster, the sender, and its transactions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from ..core.clock import monotonic_ms
from ..core.cluster import Cluster
from ..core.lifetime import Lifetime, broken_task
from ..core.metadata import TopicInfo
from ..core.options import ClusterOptions
from ..errors import ClientStopped, DeliveryStopped, InvalidTransactionState, KafkaError
from .accumulator import RecordAccumulator
from .listeners import Listeners, ProducerCounts
from .options import ProducerOptions
from .sender import Sender
from .transactions import Transactions

_log = logging.getLogger(__name__)

# Kafka's default of metadata.max.idle.ms.
MAX_IDLE_MS = 300_000


class ProducerSession:
    """Starts and stops the parts of a producer that reach the cluster."""

    def __init__(
        self,
        options: ProducerOptions,
        cluster_options: ClusterOptions,
        listeners: Listeners,
    ) -> None:
        self.options = options
        self._cluster_options = cluster_options
        self.accumulator = RecordAccumulator(options)
        self.listeners = listeners
        self.counts = ProducerCounts()
        self.accumulator.on_failure.append(self.counts.failed)
        if listeners:
            self.accumulator.on_failure.append(listeners.failed)
        self.lifetime = Lifetime("producer")
        # These exist from start() to stop().
        self.cluster: Cluster | None = None
        self.sender: Sender | None = None
        self.transactions: Transactions | None = None
        self.loop: asyncio.AbstractEventLoop
        # The cluster while the producer stops, and takes no more records.
        self._ending: Cluster | None = None
        # Why the sender's task ended since the last start, if it did.
        self._sender_error: KafkaError | None = None

    # -- Start and stop

    async def start(self) -> None:
        """Reach the cluster; with a `transactional_id`, take it over from any earlier producer."""
        await self.lifetime.start(self._start)

    async def _start(self) -> None:
        self.cluster = cluster = await Cluster.open(self._cluster_options)
        self._sender_error = None
        IdleTopics(cluster, self.accumulator)
        self.loop = asyncio.get_running_loop()
        options = self.options
        self.sender = Sender(cluster, self.accumulator, options, self.listeners, self.counts)
        cluster.spawn(self.sender.run(), "sender").add_done_callback(self._sender_ended)
        if options.transactional_id is not None:
            try:
                await self._start_transactions(cluster, self.sender, options.transactional_id)
            except BaseException:
                await self._end()
                raise

    async def _start_transactions(self, cluster: Cluster, sender: Sender, transactional_id: str) -> None:
        options = self.options
        self.transactions = sender.transactions = Transactions(
            cluster, transactional_id, options.transaction_timeout_ms, options.max_block_ms, sender.flush, sender.wake
        )
        self.accumulator.on_failure.append(self.transactions.batch_failed)
        await self.transactions.initialize()

    async def stop(self, limit_ms: float) -> None:
        """Send what is queued, and close after `limit_ms` at the latest."""
        await self.lifetime.stop(self._end, self._finish, limit_ms)

    async def _end(self) -> None:
        cluster = self._ending or self.cluster
        self._ending = self.cluster = None
        try:
            if cluster is not None:
                await cluster.close()
        finally:
            self._fail_what_waits()

    def _fail_what_waits(self) -> None:
        """Fail the records and calls that wait: nothing will answer them any more."""
        self.sender = None
        transactions, self.transactions = self.transactions, None
        if transactions is not None:
            transactions.close()
        text = "the producer was stopped before the broker acknowledged this record"
        self.accumulator.fail_all(DeliveryStopped(text))
        if transactions is not None:
            self.accumulator.on_failure.remove(transactions.batch_failed)

    async def _finish(self) -> None:
        """Take no more records; end an open transaction, or send what is queued."""
        self._ending, self.cluster = self.cluster, None
        if self.transactions is not None:
            try:
                await self.transactions.stop()
            except KafkaError as error:  # the calls that wait for the transaction's end raise it, too
                _log.warning("the producer is stopped before its transaction has ended: %s", error.message)
        elif self.sender is not None:
            await self.sender.flush()

    def _sender_ended(self, task: asyncio.Task[None]) -> None:
        """Fail all records if the sender broke or was cancelled: nothing would send them any more."""
        if self.cluster is not None and (failure := broken_task(task, "the producer's sender")) is not None:
            self._sender_error = failure
            stopped = isinstance(failure, ClientStopped)
            self.accumulator.fail_all(DeliveryStopped(failure.message) if stopped else failure)

    # -- What there is between

    def running_here(self) -> Cluster:
        """Return the cluster. Raises ClientStopped, WrongEventLoop."""
        self.lifetime.check_loop()
        return self.running()

    def running(self) -> Cluster:
        """Return the cluster. Raises ClientStopped, and what ended the sender."""
        if self._sender_error is not None:
            raise self._sender_error
        if self.cluster is None:
            raise ClientStopped("the producer is not running: use `with` or `async with`, or call start() first")
        return self.cluster

    def wake(self) -> None:
        """Have the sender look for what is due. Raises ClientStopped."""
        self.running_sender().wake()

    def running_sender(self) -> Sender:
        """Return the sender. Raises ClientStopped."""
        self.running()
        assert self.sender is not None
        return self.sender

    def running_transactions(self) -> Transactions:
        """Return the transactions. Raises ClientStopped, WrongEventLoop, InvalidTransactionState if there are none."""
        self.running_here()
        if self.transactions is None:
            raise InvalidTransactionState("this producer has no transactional_id: give it one to use transactions")
        return self.transactions

    def check_takes_records(self) -> None:
        """Raise ClientStopped, or InvalidTransactionState if records need a transaction and there is none."""
        self.running()
        if self.transactions is not None:
            self.transactions.machine.check_open()

    def deadline_s(self) -> float:
        """Return when a call that begins now has waited for `max_block_ms`, by the event loop's clock."""
        return asyncio.get_running_loop().time() + self.options.max_block_ms / 1000

    async def topic(self, name: str, until_s: float | None = None) -> TopicInfo:
        """Return a topic, which the broker may create now.

        Raises UnknownTopic at `until_s`, or after `max_block_ms`; ClientStopped.
        """
        cluster = self.running_here()
        # Whole, for the text of the error.
        left_ms = None if until_s is None else max(round((until_s - self.loop.time()) * 1000), 0)
        return await cluster.topic(name, timeout_ms=left_ms, create=True)

    def known_topic(self, name: str) -> TopicInfo | None:
        """Return what is known of a topic, None if it has no known partitions. Raises ClientStopped."""
        info = self.running().view.topics.get(name)
        return info if info is not None and info.partitions else None


class IdleTopics:
    """Tells a cluster which topics its producer has stopped to write to: their metadata is asked for no longer.

    A topic is idle if nothing is queued for it, and it was deleted, or was not used for 5 minutes, as in Kafka's
    producer. The next record for it looks it up again. Only a record, or a call that names the topic, has a broker
    create it: a producer that has nothing to write makes no deleted topic again.
    """

    def __init__(self, cluster: Cluster, accumulator: RecordAccumulator) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        # When each watched topic was last used, as far as is known: looked up, or written to.
        self._used_ms: dict[str, float] = {}
        cluster.unused = self._unused

    def _unused(self, watched: Collection[str]) -> Collection[str]:
        now_ms = monotonic_ms()
        used_ms = {topic: self._used_ms.get(topic, now_ms) for topic in watched}
        busy: set[str] = set()
        for (topic, _), queue in self._accumulator.queues.items():
            if topic in used_ms:
                used_ms[topic] = max(used_ms[topic], queue.used_ms)
                if queue.in_flight or queue.has_unsent:
                    busy.add(topic)
        gone = self._cluster.view.errors
        idle = {
            topic
            for topic, at_ms in used_ms.items()
            if topic not in busy and (topic in gone or now_ms - at_ms >= MAX_IDLE_MS)
        }
        self._used_ms = {topic: at_ms for topic, at_ms in used_ms.items() if topic not in idle}
        return idle
