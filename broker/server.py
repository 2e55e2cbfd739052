"""Broker: starts in order, serves, stops in order.

Start: lock the data directory, read the metadata, open the logs (checking their tails unless the last stop was
clean), load the groups, listen. When `start` returns a client can connect. Stop goes the other way; it is idempotent
and never takes longer than `STOP_DEADLINE_S` for clients that do not read their answers.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ..protocol.errors import DecodeError, KafkaError
from ..storage.errors import StorageError
from ..storage.files import DISK, Disk
from .background.cleaner import Cleaner
from .background.producer_expiry import ProducerExpiry
from .background.retention import Housekeeping
from .background.scrubber import Scrubber
from .clock import Clock
from .configs.broker_config import BrokerConfig
from .configs.definition import ConfigError
from .configs.durability import at_risk
from .configs.dynamic_configs import DynamicConfigs
from .configs.reconfiguration import Reconfiguration, restore
from .coordination.coordinator_log import CoordinatorLog
from .coordination.features import Features
from .coordination.groups.coordinator import GroupCoordinator
from .coordination.transactions.coordinator import TransactionCoordinator
from .coordination.transactions.markers import MarkerWriter
from .coordination.transactions.verification import Verification
from .log_dirs.data_dir import StartError
from .log_dirs.log_dirs import LogDirs, refuse_orphans
from .network.acceptor import Acceptor
from .network.dispatcher import Dispatcher
from .purgatory import Purgatory
from .services import Services
from .threads import in_thread
from .timers import Timers
from .topics.conversion import Conversions
from .topics.fetch_sessions import FetchSessions
from .topics.flusher import Flusher
from .topics.internal_topics import InternalTopics, restore_compaction
from .topics.metadata_journal import Metadata, UnknownMetadata
from .topics.partition import Partition
from .topics.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from .topics.topics import Topics

# Answers under way get this long to be written when the broker stops.
STOP_DEADLINE_S = 3.0
# What is not on disk yet gets this long to get there. Both together stay under the 10 s that an operator is promised.
CLOSE_DEADLINE_S = 5.0
# Where thousands of partitions were written to, one fsync after the other would take longer than that.
CLOSING_THREADS = 16
# A checkpoint is some fsyncs: asked for more often than this, it would be all that the disk does.
MIN_CHECKPOINT_INTERVAL_MS = 100

_log = logging.getLogger(__name__)


class Broker:
    """One Kafka broker.

    `async with Broker(config) as broker:` or `await start()` / `await stop()`; several run in one loop.
    """

    def __init__(self, config: BrokerConfig | None = None, *, clock: Clock | None = None, disk: Disk = DISK) -> None:
        # Its own, as it changes while the broker runs.
        self.config = replace(config or BrokerConfig(), dynamic=DynamicConfigs())
        self.clock = clock if clock is not None else Clock()
        self.disk = disk
        self.timers = Timers(self.clock)
        self.purgatory = Purgatory(self.timers)
        self.conversions = Conversions()
        self.fetch_sessions = FetchSessions(self.config.max_incremental_fetch_session_cache_slots, self.clock)
        self.flusher = Flusher(self.timers)
        self.node_id = self.config.node_id
        self.metadata: Metadata
        self.topics: Topics
        self.groups: GroupCoordinator
        self.housekeeping: Housekeeping
        self.cleaner: Cleaner
        self.scrubber: Scrubber
        self.producer_expiry: ProducerExpiry
        self.services: Services
        self.transactions: TransactionCoordinator
        # Set while it runs: from the lock on the directory to its release.
        self._data_dir: LogDirs | None = None
        # Invariant: without it nothing of what the start found in the directory may be said to be whole.
        self._loaded = False
        self._stopping: asyncio.Future[None] | None = None
        self._acceptor: Acceptor | None = None
        # Work in threads that a stop waits for: checkpoints, files of deleted topics.
        self._at_work: set[asyncio.Future[None]] = set()

    async def __aenter__(self) -> Broker:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def address(self) -> str:
        """HOST:PORT of the first listener, with the port that was really taken."""
        return self.addresses[0]

    @property
    def addresses(self) -> list[str]:
        """HOST:PORT of every listener, in order."""
        return self._acceptor.addresses if self._acceptor is not None else []

    @property
    def cluster_id(self) -> str:
        return self.metadata.cluster_id

    def _let_go(self, partition: Partition) -> None:
        """One of the broker's own partitions is offline: nobody is coordinated by what it holds."""
        if partition.topic == OFFSETS_TOPIC:
            self.groups.unload(partition.index)
        elif partition.topic == TRANSACTIONS_TOPIC:
            self.transactions.shards.unload(partition.index)

    def _in_background(self, work: Callable[[], None], failed: str) -> None:
        """Runs `work` in a thread; a failure is a line in the log that begins with `failed`."""
        running = asyncio.get_running_loop().run_in_executor(None, work)
        self._at_work.add(running)

        def done(_: asyncio.Future[None]) -> None:
            self._at_work.discard(running)
            error = None if running.cancelled() else running.exception()
            if error is not None:
                _log.error("%s: %s", failed, error)
            if isinstance(error, StorageError):
                self.topics.disk_failures.file_failed(error)

        running.add_done_callback(done)

    # Start.

    async def start(self) -> None:
        """See the module's text. StartError says in one line why it cannot; nothing is left open then."""
        if self._data_dir is not None:
            raise StartError("this broker is running already")
        self.fetch_sessions.clear()
        self._data_dir = LogDirs.open(self.config, self.disk)
        try:
            self._load(self._data_dir)
            self._acceptor = Acceptor(self.config, Dispatcher(self.services), self.clock, self.timers)
            await self._acceptor.start()
        except BaseException:
            await self.stop()
            raise

    def _load(self, data_dir: LogDirs) -> None:
        """Reads what the directory holds. StartError where it cannot be used."""
        try:
            self.metadata = self._open_metadata(data_dir)
            restore(self.config, self.metadata)
            restore_compaction(self.metadata)
            self.topics = Topics(
                self.config, data_dir, self.metadata, self.clock, self.purgatory, self.flusher, self.disk
            )
            leftovers = self.topics.open_all()
            internal_topics = InternalTopics(self.config, self.topics)
            offsets_log = self._coordinator_log(OFFSETS_TOPIC, internal_topics)
            self.groups = GroupCoordinator(self.config, offsets_log, self.timers, self.clock, self.topics)
            self.groups.start()
            markers = MarkerWriter(self.topics, self.flusher, self.groups.end_transaction)
            self.transactions = TransactionCoordinator(
                self.config,
                self._coordinator_log(TRANSACTIONS_TOPIC, internal_topics),
                self.timers,
                self.clock,
                self.topics,
                self.groups.shards.partition_of,
                self.metadata.new_producer_id,
                markers.write,
            )
            features = Features(self.metadata, self.transactions.set_version)
            self.transactions.start()
            self.housekeeping = Housekeeping(self, self._in_background)
            self.housekeeping.start()
            self.cleaner = Cleaner(self, self._in_background)
            self.cleaner.start()
            self.scrubber = Scrubber(self)
            self.scrubber.start()
            self.producer_expiry = ProducerExpiry(self)
            self.producer_expiry.start()
            self.services = Services(
                config=self.config,
                reconfiguration=Reconfiguration(self.config, self.metadata, self.topics.reconfiguration),
                clock=self.clock,
                disk=self.disk,
                purgatory=self.purgatory,
                log_dirs=data_dir,
                metadata=self.metadata,
                topics=self.topics,
                internal_topics=internal_topics,
                flusher=self.flusher,
                conversions=self.conversions,
                fetch_sessions=self.fetch_sessions,
                groups=self.groups,
                transactions=self.transactions,
                verification=Verification(self.config, self.transactions, offsets_log),
                markers=markers,
                features=features,
                housekeeping=self.housekeeping,
                cleaner=self.cleaner,
            )
        except (UnknownMetadata, ConfigError, KafkaError, DecodeError, OSError) as error:
            raise StartError(f"data directory {data_dir.metadata.path} cannot be used: {error}") from error
        self._loaded = True
        loop = asyncio.get_running_loop()
        # At a turn of its own: a coordinator may be in the middle of the append that failed.
        self.topics.disk_failures.on_offline = partial(loop.call_soon, self._let_go)
        self.housekeeping.remove_leftovers(leftovers)
        _log.info("%s", at_risk(self.config, [each.record.configs for each in self.topics.all()]))
        self._arm_checkpoint()
        self.flusher.on_progress = self._write_checkpoint

    def _open_metadata(self, dirs: LogDirs) -> Metadata:
        data_dir = dirs.metadata
        metadata = Metadata(data_dir.path, self.disk)
        if not metadata.cluster_id:
            # A first start, or a journal of which nothing is left.
            refuse_orphans(self.config.data_dir, self.config.data_dirs)
            metadata.set_cluster_id(data_dir.meta.cluster_id)
        if metadata.cluster_id != data_dir.meta.cluster_id:
            whose = f"its metadata are of cluster {metadata.cluster_id}, meta.properties of {data_dir.meta.cluster_id}"
            raise StartError(f"data directory {data_dir.path} cannot be used: {whose}")
        if not dirs.is_clean and metadata.topics:
            metadata.raise_leader_epoch()
        return metadata

    def _coordinator_log(self, topic: str, internal_topics: InternalTopics) -> CoordinatorLog:
        count = internal_topics.partition_count(topic)
        return CoordinatorLog(topic, self.topics, self.flusher, self.clock, count, internal_topics.create)

    # While it runs.

    def _arm_checkpoint(self) -> None:
        interval_ms = self.config.log_flush_offset_checkpoint_interval_ms
        self.timers.after(max(interval_ms, MIN_CHECKPOINT_INTERVAL_MS), self._checkpoint)

    def _checkpoint(self) -> None:
        self._write_checkpoint()
        self._arm_checkpoint()

    def _write_checkpoint(self) -> None:
        self._in_background(self.topics.take_checkpoint().write, "a checkpoint could not be written")

    # Stop.

    async def stop(self) -> None:
        """Stops cleanly; does nothing the second time. Who is cancelled meanwhile does not keep it from its end."""
        if self._stopping is None:
            if self._data_dir is None:
                return
            self._stopping = asyncio.ensure_future(self._stop(self._data_dir))
        await asyncio.shield(self._stopping)

    async def _stop(self, data_dir: LogDirs) -> None:
        try:
            await self._stop_serving()
            await self._close_data()
        finally:
            data_dir.close()
            self._data_dir = self._stopping = None
            self._loaded = False

    async def _stop_serving(self) -> None:
        # 1. No new connections and no new requests; what was read is answered.
        acceptor = self._acceptor
        if acceptor is not None:
            acceptor.stop()
        # 2. Those that wait are answered with what there is.
        self.purgatory.expire_all()
        if self._loaded:
            self.topics.abandon_creations()
            self.transactions.stop()
            self.groups.stop()
        # 3. Answers are written, by a deadline.
        if acceptor is not None:
            await acceptor.close(STOP_DEADLINE_S)
        self._acceptor = None
        self.timers.close()

    async def _close_data(self) -> None:
        """What is on its way to disk gets there; logs and metadata are closed.

        A directory's clean-stop marker is written only if all in it went well and in time.
        """
        if not self._loaded:
            return
        stopping = (self.flusher.stop(), self.cleaner.stop(), self.scrubber.stop())
        work = [*self._at_work, *map(asyncio.ensure_future, stopping)]
        closing = asyncio.ensure_future(self._close_logs(work))
        done, _ = await asyncio.wait([closing], timeout=CLOSE_DEADLINE_S)
        if not done:
            _log.error("not all is on disk after %g s: the next start will check the logs' tails", CLOSE_DEADLINE_S)
            closing.cancel()
        elif (error := closing.exception()) is not None:
            _log.error("not all logs could be closed (%s): the next start will check their tails", error)
        self.metadata.close()

    async def _close_logs(self, at_work: list[asyncio.Future[None]]) -> None:
        await asyncio.wait(at_work)
        closers = [in_thread(each, "odradek-close") for each in self.topics.closers(CLOSING_THREADS)]
        results = await asyncio.gather(*closers, return_exceptions=True)
        self.topics.take_checkpoint().write()
        self.topics.mark_clean()
        for error in results:
            if error is not None:
                raise error


async def serve(config: BrokerConfig, announce: Callable[[str], None]) -> None:
    """Runs a broker until SIGTERM or SIGINT.

    `announce` gets its HOST:PORT once a client can connect. StartError as `start`.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with Broker(config) as broker:
        _log.info("node %d of cluster %s, data in %s", broker.node_id, broker.cluster_id, config.data_dir.absolute())
        announce(broker.address)
        await stop.wait()
        _log.info("stopping")
