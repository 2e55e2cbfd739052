"""The high-level consumer of Kafka 0.8: `ConsumerConnector`. Its group rebalances through ZooKeeper.

    async with ConsumerConnector(zookeeper_connect="127.0.0.1:2181/odradek", group_id="old") as connector:
        streams = await connector.create_message_streams({"flights": 2})
        async for record in streams["flights"][0]: ...

It is for groups that are on their way to the coordinator; for anything new take `odradek.client.Consumer`. What the
member does in ZooKeeper is in membership.py. This module runs those steps; reading.py reads the partitions that they
give, and commits.

Promise: records are handed out only while this consumer owns their partition. It hands out none while it has not heard
from ZooKeeper for so long that its session may have ended.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import uuid
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar, Unpack

from ...protocol.errors import ErrorCode, KafkaError
from ...zookeeper.operations import Refused, SessionExpired, Steps, children, read_all
from ...zookeeper.session import Contact, Session, ZooKeeperUnreachable
from ..consumer import Consumer
from ..core.clock import wait_for, wall_clock_ms
from ..core.cluster import Cluster
from ..core.committed_offsets import CommittedOffsets
from ..core.coordinator import Coordinator
from ..core.lifetime import Lifetime, StartedClient, broken_task, end_tasks, without_cancelling
from ..core.options import check_options, security_options
from ..core.security import SecurityArguments
from ..errors import ClientError, ClientStopped, InvalidOption, NoBrokerReachable
from ..record import TopicPartition
from . import registry
from .membership import Action, Member, MemberSteps, Report, StartReading, StopReading, Wait, leave, live
from .offsets import KAFKA, ZOOKEEPER, DualStorage, KafkaStorage, OffsetStorage, ZooKeeperStorage
from .reading import MessageStream, MessageStreams, Reading
from .registry import Subscription

T = TypeVar("T")

# The part of the session time-out that is left for certain when a lost connection is noticed: ZooKeeper's clients give
# a connection up after two thirds without an answer.
_CERTAIN = 1 / 3

# The options that the consumer takes over which reads.
_OF_READING = (
    "client_id", "auto_offset_reset", "fetch_min_bytes", "fetch_max_wait_ms", "max_partition_fetch_bytes",
    "max_poll_records", "request_timeout_ms",
)  # fmt: skip

_log = logging.getLogger(__name__)


class RebalanceFailed(ClientError, code=ErrorCode.REBALANCE_IN_PROGRESS):
    """The consumer got no partitions in `rebalance_max_retries` attempts. It tries again by itself."""


class ConsumerConnector(StartedClient):
    """A member of a group in ZooKeeper. Use `async with`, or `start()` and `shutdown()`.

    The start opens the session, and reaches the registered brokers. It raises ZooKeeperUnreachable, NoBrokerReachable.
    """

    def __init__(
        self,
        *,
        zookeeper_connect: str = "127.0.0.1:2181",
        group_id: str,
        consumer_id: str | None = None,
        client_id: str = "odradek-connector",
        auto_offset_reset: str = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: float = 60_000,
        offsets_storage: str = ZOOKEEPER,
        dual_commit_enabled: bool = False,
        rebalance_max_retries: int = 4,
        rebalance_backoff_ms: float = 2_000,
        zookeeper_session_timeout_ms: float = 6_000,
        zookeeper_connection_timeout_ms: float = 6_000,
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 100,
        max_partition_fetch_bytes: int = 1_048_576,
        max_poll_records: int = 500,
        request_timeout_ms: float = 30_000,
        **security: Unpack[SecurityArguments],
    ) -> None:
        """Take the options of Kafka 0.8's consumer under the names of `Consumer`, with Kafka 0.8's defaults.

        The options of security are for the brokers; ZooKeeper is reached without. Raises InvalidOption.
        """
        given = check_options(locals())
        self._security = security_options("ConsumerConnector", security)
        if not registry.is_node_name(group_id):
            raise InvalidOption(f"group_id {group_id!r} cannot be the name of a znode")
        self._group = group_id
        # HOST:UUID, which no other consumer has.
        self._consumer_id = consumer_id or f"{socket.gethostname()}:{uuid.uuid4()}"
        self._zookeeper_connect = zookeeper_connect
        self._timeouts_ms = zookeeper_session_timeout_ms, zookeeper_connection_timeout_ms
        self._commit_interval_ms = auto_commit_interval_ms if enable_auto_commit else None
        self._storage_name, self._is_dual = offsets_storage, dual_commit_enabled
        self._retries = rebalance_max_retries, rebalance_backoff_ms
        self._consumer_options: dict[str, Any] = {
            **{name: given[name] for name in _OF_READING},
            "allow_auto_create_topics": False,
            **security,
        }
        # Checks the options; `start` makes the one that reads.
        Consumer(**self._consumer_options)
        self._session: Session | None = None
        self._lifetime = Lifetime("connector")
        # None before `start`.
        self._reading: Reading | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._member: Member | None = None
        # Set by watches, and when there is a new session.
        self._changed, self._renewed = asyncio.Event(), asyncio.Event()
        self._doubts: asyncio.TimerHandle | None = None
        # The result of the first rebalance.
        self._first: asyncio.Future[None] | None = None

    # -- Start and shutdown

    async def _start(self) -> None:
        session = Session(self._zookeeper_connect, *self._timeouts_ms, self._note_change, self._note_contact)
        await session.start()
        self._session = session
        try:
            brokers = await self._brokers()
            self._reading = Reading(brokers, self._consumer_options, self._commit_interval_ms)
            await self._reading.start(self._storage)
        except BaseException:
            await self._end()
            raise

    async def _brokers(self) -> list[str]:
        names = await self._run(children(registry.BROKER_IDS))
        found = await self._run(read_all(f"{registry.BROKER_IDS}/{name}" for name in names))
        protocol = self._security.security_protocol
        brokers = [address for znode in found if znode and (address := registry.decode_address(znode.data, protocol))]
        if not brokers:
            raise NoBrokerReachable(f"any broker: none is registered in ZooKeeper at {self._zookeeper_connect}")
        return brokers

    def _storage(self, cluster: Cluster) -> OffsetStorage:
        in_kafka = KafkaStorage(CommittedOffsets(Coordinator(cluster, self._group)))
        in_zookeeper = ZooKeeperStorage(self._group, registry.id_path(self._group, self._consumer_id), self._run)
        both = (in_kafka, in_zookeeper) if self._storage_name == KAFKA else (in_zookeeper, in_kafka)
        return DualStorage(*both) if self._is_dual else both[0]

    async def stop(self) -> None:
        """Commit (with auto-commit) what was consumed, give the partitions back, leave and close. Idempotent."""
        await self._lifetime.stop(self._end, self._leave)

    # The name of Kafka 0.8.
    shutdown = stop

    async def _leave(self) -> None:
        await end_tasks(self._tasks)
        self._tasks.clear()
        self._end_first(ClientStopped("the connector was shut down before its first rebalance was done"))
        try:
            if self._member is not None:
                async with asyncio.timeout(self._running().timeout_ms / 1000):
                    await self._run(leave(self._member))
        except (KafkaError, TimeoutError) as error:
            why = error if isinstance(error, KafkaError) else "ZooKeeper did not answer in time"
            _log.warning("consumer %s left without its last commit: %s", self._consumer_id, why)

    async def _end(self) -> None:
        session, self._session = self._running(), None
        if self._doubts is not None:
            self._doubts.cancel()
        try:
            if self._reading is not None:
                await self._reading.stop()
        finally:
            # Also where the caller is cancelled: the partitions of an open session belong to nobody else.
            await session.stop()

    @property
    def consumer_id(self) -> str:
        """The consumer's name in the registry."""
        return self._consumer_id

    def owned(self) -> frozenset[TopicPartition]:
        """Return the partitions that this consumer owns and reads now."""
        return frozenset() if self._reading is None else self._reading.streams.partitions()

    # -- Streams

    async def create_message_streams(self, topics: Mapping[str, int]) -> dict[str, list[MessageStream]]:
        """Subscribe to topics, and return so many streams for each. May be called once.

        Returns when the first rebalance is done. Raises RebalanceFailed if it failed.
        """
        if not topics or min(topics.values()) < 1:
            raise InvalidOption("give create_message_streams a topic, and a number of streams above 0 for each")
        return (await self._subscribe(Subscription(dict(topics)))).by_topic()

    async def create_message_streams_by_filter(
        self, *, whitelist: str | None = None, blacklist: str | None = None, count: int = 1
    ) -> list[MessageStream]:
        """Subscribe to the topics that a pattern matches, or does not match, also later ones. May be called once.

        The pattern matches whole names, and may be a list with commas. Internal topics are left out. Returns when the
        first rebalance is done. Raises RebalanceFailed if it failed.
        """
        if (whitelist is None) == (blacklist is None) or count < 1:
            raise InvalidOption("give a whitelist or a blacklist, and a number of streams above 0")
        text, kind = (whitelist, registry.WHITE_LIST) if blacklist is None else (blacklist, registry.BLACK_LIST)
        subscription = Subscription({text or "": count}, kind)
        if registry.decode_subscription(registry.encode_subscription(subscription, 0)) is None:
            raise InvalidOption(f"{text!r} is no regular expression")
        return (await self._subscribe(subscription)).all

    async def _subscribe(self, subscription: Subscription) -> MessageStreams:
        reading = self._present()
        if self._first is not None:
            raise InvalidOption("message streams can be created once: make another connector for other topics")
        reading.subscribe(subscription)
        self._first = asyncio.get_running_loop().create_future()
        self._tasks += [self._spawn(self._live(subscription), "membership"), self._spawn(reading.poll(), "poll")]
        if reading.commit_interval_ms is not None:
            work = reading.commit_again_and_again(reading.commit_interval_ms)
            self._tasks.append(self._spawn(work, "auto-commit"))
        await without_cancelling(self._first)
        return reading.streams

    async def commit_offsets(self) -> None:
        """Commit the offsets of all records that are consumed. Raises KafkaError: they are kept for the next commit."""
        await self._present().commit()

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=f"odradek {name}")

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (broken := broken_task(task, name)) is not None:
                self._fail(broken.__cause__ if isinstance(broken.__cause__, KafkaError) else broken)
                self._present().streams.close()

        task.add_done_callback(ended)
        return task

    def _fail(self, error: KafkaError) -> None:
        """Raise an error to the user: from the call that makes the streams, or from the streams."""
        if not self._end_first(error):
            self._present().streams.fail(error)

    def _end_first(self, error: KafkaError) -> bool:
        """Have the call that waits for the first rebalance raise an error. False: it has ended."""
        if self._first is None or self._first.done():
            return False
        self._first.set_exception(error)
        self._first.exception()  # retrieved: the call may have been cancelled
        return True

    def _running(self) -> Session:
        if self._session is None:
            raise ClientStopped("the connector is not running: use `async with`, or await start() first")
        return self._session

    def _present(self) -> Reading:
        self._running()
        assert self._reading is not None
        return self._reading

    # -- Membership

    async def _live(self, subscription: Subscription) -> None:
        """Be a member in one session after another."""
        session = self._running()
        while True:
            self._member = Member(
                self._group, self._consumer_id, session.session_id, subscription, wall_clock_ms(), *self._retries
            )
            try:
                await session.run(live(self._member), others=self._do)
            except SessionExpired:
                self._present().drop_part()
                while not self._renewed.is_set():
                    await self._renewed.wait()
                session.renew()

    async def _run(self, steps: Steps[T] | MemberSteps[T]) -> T:
        """Run steps to their end, and return what they return. Raises KafkaError."""
        try:
            return await self._running().run(steps, others=self._do)
        except SessionExpired as error:
            why = "the session with ZooKeeper has expired: other consumers of the group have the partitions now"
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, why) from error
        except Refused as error:
            raise ZooKeeperUnreachable(str(error)) from error

    async def _do(self, action: Action) -> Any:
        if isinstance(action, StopReading):
            return await self._present().end_part()
        if isinstance(action, StartReading):
            return await self._start_reading(action.streams)
        if isinstance(action, Wait):
            await wait_for(self._changed, action.timeout_ms)
            return self._changed.clear()
        return self._report(action)

    async def _start_reading(self, streams: Mapping[TopicPartition, int]) -> bool:
        if not await self._present().begin_part(streams):
            return False
        _log.info("consumer %s owns %d partitions of group %s", self._consumer_id, len(streams), self._group)
        if self._first is not None and not self._first.done():
            self._first.set_result(None)
        return True

    def _report(self, report: Report) -> None:
        _log.warning("%s", report.why)
        self._fail(RebalanceFailed(report.why))

    # -- Contact with ZooKeeper

    def _note_change(self, path: str) -> None:
        self._changed.set()

    def _note_contact(self, contact: Contact) -> None:
        if contact is Contact.RENEWED:
            self._renewed.set()
        elif contact is Contact.EXPIRED:
            self._renewed.clear()
        if self._doubts is not None:
            self._doubts.cancel()
            self._doubts = None
        if self._reading is None or self._session is None:
            return
        streams = self._reading.streams
        if contact is Contact.SUSPENDED:
            certain_s = self._session.timeout_ms * _CERTAIN / 1000
            self._doubts = asyncio.get_running_loop().call_later(certain_s, self._doubt)
        elif contact is not Contact.EXPIRED:
            streams.is_open = True
            streams.wake()
        else:
            # Before the steps know of it: not one record more.
            streams.end()
            self._changed.set()

    def _doubt(self) -> None:
        _log.warning("ZooKeeper is silent: others may own the partitions by now, so no records come until it answers")
        self._present().streams.is_open = False
