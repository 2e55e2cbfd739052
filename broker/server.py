"""The broker: starts in order, serves requests, stops in order.

Start: lock the data directories, read the metadata journal, open the logs (recover their tails unless the last stop was
clean), load the coordinators, listen. When `start` returns a client can connect. In a cluster the broker listens once
it is registered. Stop goes the other way. A client that does not read its responses cannot delay it for longer than
`STOP_DEADLINE_S`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from .. import how_to_install
from ..protocol.errors import DecodeError, KafkaError
from ..protocol.schema import Message
from ..storage.files import Disk
from ..web.startable import Startable, StoppedEarly
from .background.collector import Collector
from .broker_thread import BrokerThread
from .clock import Clock
from .configs.broker_config import BROKER_CONFIGS, BrokerConfig
from .configs.definition import ConfigError, DynamicConfigs
from .configs.durability import describe_durability
from .configs.reconfiguration import restore
from .log_dirs.data_dir import StartError
from .log_dirs.ephemeral import UnsyncedDisk, ephemeral_configs, remove_directories
from .log_dirs.log_dirs import LogDirs, refuse_orphans
from .log_dirs.timed_disk import TimedDisk
from .network.acceptor import Acceptor, cannot_listen
from .network.allocator import keep_freed_memory
from .network.connection import Dispatch
from .network.connection_memory import ConnectionMemory
from .network.dispatcher import Dispatcher, Guard, NewContext
from .network.guards import AccessGuard, QuotaGuard
from .network.request import RequestContext
from .network.routes import load_coordinators
from .network.watchdog import Watchdog
from .quotas.connection_rates import ConnectionRates
from .security.pem import StoreError
from .services import Assembly, Services
from .threads import DiskThreads, NewPool, ThreadPool, Workers
from .timers import Timers
from .topics.disk_reads import ColdReads
from .topics.internal_topics import restore_cleanup_policies
from .topics.metadata_journal import Metadata, UnknownMetadata
from .topics.partition_state import PartitionState
from .topics.topics import Topics
from .turns import keeper

if TYPE_CHECKING:
    # A broker that is alone imports nothing that only brokers of a cluster need.
    from ..zookeeper.session import OpenSession
    from .cluster.member import Member
    from .http.endpoint import HttpEndpoint

# How long the broker waits for clients to read their last responses when it stops.
STOP_DEADLINE_S = 3.0
# How long the broker waits for the disk when it stops. Both together stay under the 10 s that operators are promised.
CLOSE_DEADLINE_S = 5.0
# What a stop waits for may wait for one disk. After this time, directories in which nothing works are closed meanwhile.
HANG_S = 1.0
# Threads that read certificates and check tokens and passwords, and how many clients may wait for them.
SECURITY_THREADS = 2
SECURITY_QUEUE = 1000
# With one thread, the fsyncs of thousands of partitions would take longer than that.
CLOSING_THREADS = 16

_log = logging.getLogger(__name__)

R = TypeVar("R")
# Stands between the connections and the dispatcher. Only a program that holds the broker can put one there: a test kit.
Door = Callable[[Dispatch], Dispatch]


class _Running(NamedTuple):
    """The parts of a broker that exist while it runs."""

    services: Services
    dispatch: Dispatcher
    acceptor: Acceptor
    # None where http.listener is empty.
    http: HttpEndpoint | None


class Broker(Startable):
    """One Kafka broker.

    `async with Broker(config) as broker:` or `await start()` / `await stop()`. Several can run in one event loop. A
    client that blocks this loop gets no answer, because the broker answers on it.

    `with Broker(config) as broker:` runs the broker in a thread of its own, for blocking clients. There a group does
    not wait for more members, unless the config was given that delay (`group.initial.rebalance.delay.ms`). Other
    threads may use `address`, `addresses`, `node_id` and `cluster_id`.
    """

    def __init__(
        self,
        config: BrokerConfig | None = None,
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        clustered: bool = False,
        door: Door | None = None,
        open_session: OpenSession | None = None,
        new_pool: NewPool = ThreadPool,
    ) -> None:
        """`clustered`: a controller says what this broker leads and follows. `door` wraps the dispatcher.

        `open_session` takes the place of the client of ZooKeeper, `new_pool` that of threads.
        """
        # A copy, because dynamic configs change it while the broker runs.
        self.config = replace(config or BrokerConfig(), dynamic=DynamicConfigs())
        self.clock = clock if clock is not None else Clock()
        self.timers = Timers(self.clock)
        # Started by `serve`: a process has one loop to watch.
        self.watchdog = Watchdog()
        # Watches the loop of the program while the broker runs on it, by `async with`.
        self._program_watchdog: Watchdog | None = None
        self._disk = disk if disk is not None else TimedDisk()
        self._clustered = clustered
        self._door = door
        self._open_session = open_session
        # Whether the data directories go with the broker.
        self._ephemeral_dir: Path | None = None
        self._threads = DiskThreads(self.timers, self.clock, new_pool)
        # Read certificates that have changed.
        self._security_workers = Workers("odradek-security", SECURITY_THREADS, SECURITY_QUEUE, new_pool)
        self._running: _Running | None = None
        self._stopping: asyncio.Future[None] | None = None
        self._thread: BrokerThread | None = None

    @classmethod
    def ephemeral(cls, configs: Mapping[str, str] | None = None, *, strict: bool = True) -> Broker:
        """Return a broker for a test: a free port, a directory that goes with it, no fsync, no waiting groups.

        `configs` are Kafka's names and texts, and go before these: a directory that they name stays. ConfigError where
        one cannot be used, and where `strict` also for a name that Kafka does not have.
        """
        ephemeral = ephemeral_configs()
        config, _ = BrokerConfig.parse({**ephemeral, **(configs or {})}, strict=strict)
        broker = cls(config, disk=UnsyncedDisk())
        broker._ephemeral_dir = Path(ephemeral["log.dirs"])
        return broker

    def __enter__(self) -> Broker:
        if self._running is not None or self._thread is not None:
            raise StartError("this broker is running already")
        self.config = _with_quick_groups(self.config)
        self._thread = BrokerThread(self.start, self.stop)
        try:
            self._thread.start()
        except BaseException:
            self._thread = None
            raise
        return self

    def __exit__(self, *_: object) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()

    def call(self, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Run `work` on the loop of a broker that `with` runs in a thread, and return its result."""
        if self._thread is None:
            raise StartError("this broker does not run in a thread")
        return self._thread.call(work)

    async def __aenter__(self) -> Broker:
        await self.start()
        self._program_watchdog = Watchdog.of_a_program()
        self._program_watchdog.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        watchdog, self._program_watchdog = self._program_watchdog, None
        if watchdog is not None:
            watchdog.stop()
        await self.stop()

    @property
    def address(self) -> str:
        """HOST:PORT of the first listener, with the port that was really taken."""
        return self.addresses[0]

    @property
    def addresses(self) -> list[str]:
        """HOST:PORT of every listener, in order. Empty while the broker does not run."""
        return self._running.acceptor.addresses if self._running is not None else []

    @property
    def http_address(self) -> str | None:
        """HOST:PORT of the HTTP endpoint, with the port that was really taken; None: there is none."""
        return self.http.address if self.http is not None else None

    @property
    def http(self) -> HttpEndpoint | None:
        """The HTTP endpoint, if there is one and the broker runs."""
        return self._running.http if self._running is not None else None

    @property
    def node_id(self) -> int:
        """The number that names this broker to clients (node.id)."""
        return self.config.node_id

    @property
    def cluster_id(self) -> str:
        """The id of the cluster. The broker must run."""
        return self.services.metadata.cluster_id

    @property
    def topics(self) -> Topics:
        """The topics. The broker must run."""
        return self.services.topics

    @property
    def services(self) -> Services:
        """Return the services for request handlers. The broker must run."""
        return self._parts.services

    @property
    def acceptor(self) -> Acceptor:
        """The listening sockets and their connections. The broker must run."""
        return self._parts.acceptor

    @property
    def _parts(self) -> _Running:
        assert self._running is not None, "the broker does not run"
        return self._running

    # -- Start

    async def start(self) -> None:
        """Start, as the module describes. StartError says in one line what prevents it; nothing is left open then."""
        if self._running is not None or self._starting is not None:
            raise StartError("this broker is running already")
        try:
            await super().start()
        except StoppedEarly as error:
            raise StartError("this broker was stopped before it had started") from error

    async def _open(self) -> None:
        keeper().clock = self.clock.monotonic_ns
        member = await self._join()
        try:
            services = self._open_services(member)
        except BaseException:
            self.timers.close()
            self._threads.close()
            if member is not None:
                await member.stop()
            raise
        read_piece = ColdReads(services.threads, services.topics).read
        responses = ConnectionMemory(self.config.queued_max_response_bytes, self.clock, self.timers)
        dispatch = Dispatcher(services, self.watchdog, responses, *_guard(services))
        services.quotas.when_changed = dispatch.renew_guards
        services.security.when_deleted = lambda deleted: self.acceptor.end_sessions(deleted)
        acceptor = Acceptor(
            self.config,
            dispatch,
            dispatch if self._door is None else self._door(dispatch),
            read_piece,
            self.clock,
            self.timers,
            responses,
            self._security_workers,
            services.security,
            ConnectionRates(self.config, services.quotas, self.clock),
        )
        http = None
        if self.config.http_listener:
            # Only a broker that has one loads an HTTP parser.
            from .http.pages import broker_endpoint

            http = broker_endpoint(services, acceptor)
        self._running = _Running(services, dispatch, acceptor, http)
        try:
            if http is not None:
                await _listen_for_http(http, self.config)
            if member is not None:
                assert services.replicas is not None
                await member.leave_isrs(services.replicas)
            await acceptor.bind()
            services.reconfiguration.reconfigure_listeners = acceptor.reconfigure
            if member is not None:
                await self._register(member, services)
            await acceptor.listen()
            if member is not None:
                await member.serve()
        except BaseException:
            await self._close()
            raise

    async def _join(self) -> Member | None:
        """Join the cluster of zookeeper.connect, which may give this broker its number; None: it is alone."""
        if self.config.zookeeper_connect is None:
            return None
        from .security.outgoing import check_is_super_user

        try:
            check_is_super_user(self.config)
        except StoreError as error:
            raise StartError(f"the cluster cannot be joined: {error}") from error
        try:
            from .cluster.member import Member
        except ModuleNotFoundError as error:
            if error.name != "kazoo":
                raise
            raise StartError(f"zookeeper.connect needs a client of ZooKeeper: {how_to_install('cluster')}") from error
        member = await Member.join(self.config, self.clock, self._disk, self._open_session)
        number = member.broker_id
        self.config = replace(self.config, node_id=number, broker_id=number, dynamic=DynamicConfigs())
        return member

    async def _register(self, member: Member, services: Services) -> None:
        from .cluster.member import BrokerParts
        from .cluster.security import ClusterSecurity
        from .topics.cluster_topics import ClusterTopics

        topics, replicas, security = services.topics, services.replicas, services.security
        assert isinstance(topics, ClusterTopics) and replicas is not None and isinstance(security, ClusterSecurity)
        parts = BrokerParts(self.config, replicas, services.metadata, topics, services.reconfiguration, security)
        await member.register(parts, self.addresses)

    def _open_services(self, member: Member | None) -> Services:
        log_dirs = LogDirs.open(self.config, self._disk, member.cluster_id if member is not None else "")
        try:
            return self._load(log_dirs, member)
        except BaseException:
            log_dirs.close()
            raise

    def _load(self, log_dirs: LogDirs, member: Member | None) -> Services:
        """Read what the data directories hold, and start everything but the network. StartError if that fails."""
        try:
            metadata = _open_metadata(self.config, log_dirs, self._disk)
            restore(self.config, metadata)
            restore_cleanup_policies(metadata)
            assembly = Assembly(
                *(self.config, self.clock, self.timers, self._threads, self._disk, log_dirs, metadata),
                *(member, self._clustered, self._ask_self, self._write_checkpoint, self._went_offline),
            )
            leftovers = assembly.topics.open_all()
            if member is None:
                log_dirs.note_boot()
            services = assembly.services()
            self._start_services(services, leftovers)
        except (UnknownMetadata, ConfigError, KafkaError, DecodeError, OSError) as error:
            raise StartError(f"data directory {log_dirs.metadata.path} cannot be used: {error}") from error
        except StoreError as error:
            raise StartError(f"listener {self.config.inter_broker_listener}: {error}") from error
        _log.info("%s", describe_durability(self.config, [each.record.configs for each in services.topics.all()]))
        return services

    async def _ask_self(self, request: Message, version: int) -> Message:
        return await self._parts.dispatch.ask_self(request, version)

    def _write_checkpoint(self) -> None:
        if self._running is not None:
            self._running.services.background.checkpoints.write_in_background()

    def _went_offline(self, partition: PartitionState) -> None:
        """Note it in a turn of its own: a coordinator may be in the middle of the append that failed."""
        if self._running is not None:
            asyncio.get_running_loop().call_soon(_note_offline, self._running.services, partition)

    def _start_services(self, services: Services, leftovers: list[Path]) -> None:
        services.coordinators.start()
        services.background.start()
        if services.replicas is not None:
            services.replicas.start()
        services.background.file_removal.remove_leftovers(leftovers)
        # After a crash flush.messages and flush.ms count for what recovery found, too.
        for partition in services.topics.partitions():
            partition.flush_if_due()

    # -- Stop

    async def stop(self) -> None:
        """Stop cleanly, if the broker runs or starts. Cancelling the caller does not interrupt the stop."""
        await super().stop()

    async def _close(self) -> None:
        if self._stopping is None:
            if self._running is None:
                return
            self._stopping = asyncio.ensure_future(self._stop(self._running))
        await asyncio.shield(self._stopping)

    async def _stop(self, running: _Running) -> None:
        services = running.services
        try:
            if services.cluster is not None:
                await services.cluster.leave()
            await self._stop_serving(services, running.acceptor)
            if running.http is not None:
                await running.http.stop()
            await _close_data(services, keeps_data=self._ephemeral_dir not in self.config.data_dirs)
        finally:
            # What has failed since the timers ended would be tried again in a directory that is another's by then.
            self.timers.close()
            self._threads.close()
            self._security_workers.close()
            services.log_dirs.close()
            self._disk.report_waits()
            self._running = self._stopping = None
            if self._ephemeral_dir is not None:
                remove_directories([self._ephemeral_dir])

    async def _stop_serving(self, services: Services, acceptor: Acceptor) -> None:
        # 1. No new connections and no new requests. Requests that were received get their responses.
        acceptor.stop()
        # 2. Requests that wait get a response with what there is.
        services.purgatory.expire_all()
        services.topics.abandon_creations()
        services.coordinators.stop()
        # 3. Responses are written, by a deadline. Members of share groups give back what they hold.
        await acceptor.close(STOP_DEADLINE_S)
        await services.coordinators.close_shares(STOP_DEADLINE_S)
        # 4. Nothing is fetched from other brokers any more, and high watermarks are written.
        if services.replicas is not None:
            await services.replicas.stop()
        if services.cluster is not None:
            await services.cluster.stop()
        self.timers.close()


# What a broker in a thread has instead of Kafka's waits of seconds: they would only make each test with a group longer.
# The configs of a row go together: a heartbeat interval and its least value.
_QUICK_GROUPS = (
    {"group.initial.rebalance.delay.ms": 0},
    {"group.consumer.heartbeat.interval.ms": 500, "group.consumer.min.heartbeat.interval.ms": 500},
    {"group.share.heartbeat.interval.ms": 500, "group.share.min.heartbeat.interval.ms": 500},
)


def _with_quick_groups(config: BrokerConfig) -> BrokerConfig:
    """Return the config of a broker in a thread. What the program has set stays."""
    quick: dict[str, int] = {}
    for row in _QUICK_GROUPS:
        fields = {name: name.replace(".", "_") for name in row}
        if all(
            name not in config.given and getattr(config, field) == BROKER_CONFIGS[name].default
            for name, field in fields.items()
        ):
            quick |= {fields[name]: value for name, value in row.items()}
    return replace(config, **quick, dynamic=DynamicConfigs()) if quick else config


def _guard(services: Services) -> tuple[Guard, NewContext]:
    """Return what counts requests for the quotas of their clients and asks the authorizer, if there is one.

    With it comes what makes the context of a request.
    """
    count = QuotaGuard(services.quotas)
    if services.authorizer is None:
        return count, RequestContext
    is_open = services.config.super_users or services.config.allow_everyone_if_no_acl_found
    if not is_open and not services.security.acls:
        _log.warning("there are neither super.users nor ACLs: nobody can add an ACL")
    check = AccessGuard(services, services.authorizer)
    return lambda route, handle: count(route, check(route, handle)), check.new_caller


def _open_metadata(config: BrokerConfig, dirs: LogDirs, disk: Disk) -> Metadata:
    data_dir = dirs.metadata
    metadata = Metadata(data_dir.path, disk)
    if not metadata.cluster_id:
        # The first start, or a journal of which nothing is left.
        refuse_orphans(config.data_dir, config.data_dirs)
        metadata.set_cluster_id(data_dir.meta.cluster_id)
    if metadata.cluster_id != data_dir.meta.cluster_id:
        whose = f"its metadata are of cluster {metadata.cluster_id}, meta.properties of {data_dir.meta.cluster_id}"
        raise StartError(f"data directory {data_dir.path} cannot be used: {whose}")
    if not dirs.is_clean and metadata.topics:
        metadata.raise_leader_epoch()
    return metadata


async def _listen_for_http(http: HttpEndpoint, config: BrokerConfig) -> None:
    try:
        await http.start()
    except OSError as error:
        raise cannot_listen(f"http.listener={config.http_listener}", "http.listener", error) from error


def _note_offline(services: Services, partition: PartitionState) -> None:
    """Unload what a coordinator has of a partition that went offline; in a cluster another replica is to lead."""
    if services.cluster is not None:
        services.cluster.note_offline()
    services.coordinators.unload(partition.topic, partition.index)


async def _close_data(services: Services, *, keeps_data: bool) -> None:
    """Complete what is on its way to disk, then close the logs and the metadata journal.

    A data directory gets its clean-stop marker only if everything in it was closed well and in time. A disk that hangs
    or is full costs no other directory its own.
    """
    work = [*services.background.stop(), asyncio.ensure_future(services.flusher.stop())]
    paths = services.log_dirs.paths_with_metadata
    closing = {asyncio.ensure_future(_close_directory(services, path, work)): path for path in paths}
    await asyncio.wait(closing, timeout=CLOSE_DEADLINE_S)
    for each, path in closing.items():
        if not each.done():
            each.cancel()
            if keeps_data:
                text = "%s: not all is on disk after %g s: the next start will check its logs' tails"
                _log.error(text, path, CLOSE_DEADLINE_S)
        elif (error := each.exception()) is not None:
            _log.error("%s: not all could be closed (%s): the next start will check its logs' tails", path, error)
    services.metadata.close()


async def _close_directory(services: Services, path: Path, work: list[asyncio.Future[None]]) -> None:
    """Close the logs of a data directory once nothing works on them any more; mark it clean. Raises StorageError."""
    _, held = await asyncio.wait(work, timeout=HANG_S)
    if held:
        await services.threads.wait_idle(path)
    topics, alone = services.topics, partial(services.threads.alone, name="odradek-close")
    closers = [alone(each) for each in topics.closers(path, CLOSING_THREADS)]
    results = await asyncio.gather(*closers, return_exceptions=True)
    # Each in a thread of its own: after the deadline, a disk that answers again gets no marker.
    for step in topics.last_steps(path):
        await alone(step)
    for error in results:
        if error is not None:
            raise error


async def _starts_before(stop: asyncio.Future[None], broker: Broker) -> bool:
    """Start the broker; False where it is to stop before: in a cluster a start may wait for the controller."""
    starting = asyncio.ensure_future(broker.start())
    await asyncio.wait([starting, stop], return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        starting.result()
        return True
    starting.cancel()
    await asyncio.wait([starting])
    _log.info("stopped before the start was complete")
    return False


async def _until_stopped(stop: asyncio.Future[None], broker: Broker) -> None:
    """Wait for a signal. Raises StartError where the broker has lost its place in the cluster."""
    member = broker.services.cluster
    await asyncio.wait([stop] if member is None else [stop, member.expelled], return_when=asyncio.FIRST_COMPLETED)
    if member is not None and member.expelled.done():
        member.expelled.result()


async def serve(
    config: BrokerConfig,
    announce: Callable[[str], None],
    announce_stop: Callable[[], None] = lambda: None,
    broker: Broker | None = None,
) -> None:
    """Run a broker until SIGTERM or SIGINT, for a process that ends then: later ones do not change its status.

    Calls `announce` with its HOST:PORT once a client can connect, and `announce_stop` when the stop begins. Raises
    StartError as `start` does, and when another broker of the cluster has taken this one's number. `broker`: the one to
    run, with this config.
    """
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: None if stop.done() else stop.set_result(None))
    keep_freed_memory()
    broker, collector = broker or Broker(config), Collector()
    with collector.paused():
        if not await _starts_before(stop, broker):
            return
        collector.start(broker.topics)
    async with AsyncExitStack() as running:
        running.push_async_callback(broker.stop)
        _log.info("node %d of cluster %s, data in %s", broker.node_id, broker.cluster_id, config.data_dir.absolute())
        broker.watchdog.start()
        announce(broker.address)
        load_coordinators(loop)
        try:
            await _until_stopped(stop, broker)
        finally:
            broker.watchdog.stop()
            announce_stop()
            _log.info("stopping")
