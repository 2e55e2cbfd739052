"""What a consumer subscribes to, and its start and stop: the part of `Consumer` that polls and positions rest on."""

from __future__ import annotations

import asyncio
import logging
import re
import weakref
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from ..assignors import Assignor, RangeAssignor
from ..core.arguments import check_apart, check_list, check_partitions
from ..core.lifetime import Lifetime
from ..core.metadata import ClusterView
from ..core.option_values import check_numbers, check_stop_timeout, check_switches
from ..core.options import ClusterOptions
from ..core.other_names import KnowsOtherNames
from ..core.security_options import SecurityArguments, security_options
from ..core.serialization import Deserializer, Deserializers
from ..errors import ClientStopped, InvalidOption, NotAssigned
from ..record import ConsumerRecord, TopicPartition
from .assignment import RebalanceListener
from .offset_commits import OffsetStore
from .options import assignors_of, fetch_options, group_options
from .positions import PartitionState, Positions
from .session import Session, lose
from .workers import Workers

_log = logging.getLogger(__name__)


class Run:
    """Records that `async for` returns one by one."""

    __slots__ = ("index", "records", "state", "version")

    def __init__(self, state: PartitionState, records: list[ConsumerRecord[Any, Any]]) -> None:
        self.state = state
        self.version = state.version
        self.records = records
        self.index = 0


class Subscriber(KnowsOtherNames):
    """Starts and stops a consumer, and takes its topics or partitions."""

    _assigned_by_user: tuple[TopicPartition, ...] = ()
    _listener: RebalanceListener | None = None
    _pattern: re.Pattern[str] | None = None
    # None before start() and after stop().
    _session: Session | None = None
    _finalizer: weakref.finalize[..., Subscriber]
    _run: Run | None = None
    # While `consume` runs.
    _workers: Workers | None = None
    # Whether a session has ended: then `async for` ends, and does not raise.
    _stopped = False

    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Sequence[str] = "127.0.0.1:9092",
        client_id: str = "odradek-consumer",
        group_id: str | None = None,
        group_instance_id: str | None = None,
        client_rack: str | None = None,
        auto_offset_reset: str = "latest",
        offset_store: OffsetStore | None = None,
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: float = 5_000,
        isolation_level: str = "read_uncommitted",
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 52_428_800,
        max_partition_fetch_bytes: int = 1_048_576,
        max_poll_records: int = 500,
        max_poll_interval_ms: int = 300_000,
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: float = 3_000,
        partition_assignment_strategy: Sequence[type[Assignor]] = (RangeAssignor,),
        check_crcs: bool = True,
        allow_auto_create_topics: bool = True,
        request_timeout_ms: float = 30_000,
        default_api_timeout_ms: float = 60_000,
        retry_backoff_ms: float = 100,
        retry_backoff_max_ms: float = 1_000,
        metadata_max_age_ms: float = 300_000,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        **security: Unpack[SecurityArguments],
    ) -> None:
        check_apart("Consumer", topics)
        check_numbers(max_poll_records=max_poll_records, auto_commit_interval_ms=auto_commit_interval_ms)
        check_switches(enable_auto_commit=enable_auto_commit)
        self._cluster_options = ClusterOptions(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            retry_backoff_max_ms=retry_backoff_max_ms,
            metadata_max_age_ms=metadata_max_age_ms,
            default_api_timeout_ms=default_api_timeout_ms,
            allow_auto_create_topics=allow_auto_create_topics,
            security=security_options("Consumer", security),
        )
        self._fetch_options = fetch_options(
            min_bytes=fetch_min_bytes,
            max_wait_ms=fetch_max_wait_ms,
            max_bytes=fetch_max_bytes,
            max_partition_bytes=max_partition_fetch_bytes,
            isolation_level=isolation_level,
            check_crcs=check_crcs,
            auto_offset_reset=auto_offset_reset,
            rack=client_rack,
        )
        if request_timeout_ms <= fetch_max_wait_ms:
            raise InvalidOption("request_timeout_ms must be above fetch_max_wait_ms")
        self._group_options = group_options(
            group_id=group_id,
            group_instance_id=group_instance_id,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            max_poll_interval_ms=max_poll_interval_ms,
            client_rack=client_rack,
            assignors=assignors_of(partition_assignment_strategy),
        )
        self._deserializers = Deserializers(key_deserializer, value_deserializer)
        self._offset_store = offset_store
        self._lifetime = Lifetime("consumer")
        self._auto_commit_interval_ms = auto_commit_interval_ms if enable_auto_commit else None
        self._max_poll_records = max_poll_records
        self._topics: set[str] = set(topics)
        # Whether the user has said what to read. `assign` of nothing says so, too: more may follow.
        self._is_subscribed = bool(topics)
        self._positions = Positions()

    # -- Start and stop

    async def start(self) -> None:
        """Reach the cluster; joining a group continues in the background.

        Raises NoBrokerReachable if no bootstrap server responds.
        """
        await self._lifetime.start(self._start)

    async def _start(self) -> None:
        topics = self._topics | {partition.topic for partition in self._assigned_by_user}
        self._session = session = await Session.open(
            self._cluster_options,
            topics,
            self._positions,
            self._fetch_options,
            self._deserializers,
            self._group_options,
            self._offset_store,
            self._auto_commit_interval_ms,
        )
        session.assignment.listener = self._listener
        session.note_topic_errors(topics, session.cluster.view)
        # Nothing that runs holds this object: then one that the program has lost is collected, and leaves its group.
        held = weakref.ref(self)
        session.cluster.on_update(lambda view: _changed(held(), view))
        self._finalizer = weakref.finalize(self, lose, asyncio.get_running_loop(), session)
        self._finalizer.atexit = False
        if self._assigned_by_user:
            session.take_partitions(self._assigned_by_user)
        elif self._pattern is not None:
            self._take_pattern(session)
        elif self._topics:
            self._take_topics(session)

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Commit (with auto-commit) the processed records, leave the group and close.

        The returned records count as processed if the task that polls calls this, or has ended. Otherwise it may still
        work on them: then they do not, and its `async for` ends. `consume` finishes what it has polled before.
        A handler that asks for the stop does not wait for it.

        After `timeout_ms` (request_timeout_ms if none) it closes without the commit or the LeaveGroup that is not done:
        the records are read again, and the group waits for the session time-out.
        """
        check_stop_timeout(timeout_ms)
        if self._session is not None:
            self._session.polls.mark_processed_by(asyncio.current_task())
        await self._close(timeout_ms)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error in the user's code, the records that it worked on are not processed.
        await (self.stop() if kind is None else self._close())

    async def _close(self, timeout_ms: float | None = None) -> None:
        workers = self._workers
        if workers is not None and workers.are_around:
            # A handler asks: `consume` does it, once the handlers have ended.
            workers.then = lambda: self._close(timeout_ms)
            return workers.halt.set()
        limit_ms = self._cluster_options.request_timeout_ms if timeout_ms is None else timeout_ms
        if not await self._lifetime.stop(self._end, self._finish, limit_ms):
            _log.warning("the consumer was stopped before it could commit and leave its group: its time is over")

    async def _finish(self) -> None:
        session = self._session
        assert session is not None
        try:
            await self.drain()
        finally:
            session.stopping, self._run = True, None
            session.signals.poll.set()
        await session.leave_and_commit()

    async def drain(self) -> None:
        """Have the tasks that handle records finish what they have."""

    async def _end(self) -> None:
        session, self._session, self._stopped = self._session, None, True
        if session is not None:
            self._finalizer.detach()
            await session.close()

    @property
    def is_connected(self) -> bool:
        """Whether a connection to any broker is open now; lost ones are opened again by themselves."""
        return self._session is not None and self._session.cluster.is_connected

    def _running(self) -> Session:
        self._lifetime.check_loop()
        if self._session is None:
            raise ClientStopped("the consumer is not running: use `async with Consumer(...)`, or await start() first")
        return self._session

    def _check_subscribed(self) -> None:
        """Raise NotAssigned if there is nothing that a poll could wait for."""
        if not self._is_subscribed:
            raise NotAssigned("there is nothing to read: subscribe() to topics, or assign() partitions")

    # -- Subscription

    def subscribe(
        self,
        *topics: str,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read these topics instead of earlier ones: shared with the group, or all partitions if there is no group.

        With a `pattern`, read every topic whose whole name it matches, also those that are made later (they are found
        within `metadata_max_age_ms`), but no internal ones.
        """
        check_apart("subscribe", topics)
        if self._assigned_by_user:
            raise NotAssigned("partitions were assigned by hand: unsubscribe() first")
        if topics and pattern is not None:
            raise InvalidOption("subscribe to topics or to a pattern, not to both")
        session = self._session
        self._pattern = None if pattern is None else re.compile(pattern)
        if session is not None:
            session.cluster.forget(self._topics.difference(topics))
        self._topics, self._is_subscribed = set(topics), bool(topics) or pattern is not None
        self._listener = listener
        if session is not None:
            session.assignment.listener = listener
            session.cluster.watch_all(self._pattern is not None)
            if self._pattern is not None:
                self._take_pattern(session)
            else:
                self._take_topics(session)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, from the group's committed offsets if there is a `group_id`."""
        check_list("assign", partitions)
        partitions = list(partitions)
        check_partitions("assign", partitions)
        if self._topics or self._pattern is not None:
            raise NotAssigned("topics are subscribed: unsubscribe() first")
        self._assigned_by_user = tuple(TopicPartition(*partition) for partition in partitions)
        self._is_subscribed = True
        if self._session is not None:
            self._session.take_partitions(self._assigned_by_user)

    async def unsubscribe(self) -> None:
        """Read nothing: leave the group, or drop the assigned partitions; also if the call is cancelled.

        After `default_api_timeout_ms` it goes on without the commit or the LeaveGroup that is not done.
        """
        session = self._session
        try:
            if session is not None:
                async with asyncio.timeout(self._cluster_options.default_api_timeout_ms / 1000):
                    await session.leave_and_commit()
        except TimeoutError:
            _log.warning("unsubscribe could not commit and leave the group: its time is over")
        finally:
            if session is not None:
                session.cluster.forget(self._topics)
                session.cluster.watch_all(False)
            self._pattern, self._is_subscribed = None, False
            self._topics, self._assigned_by_user, self._run = set(), (), None
            self._positions.replace(())

    def _take_topics(self, session: Session) -> None:
        session.cluster.watch(self._topics)
        if self._group_options is None:
            self._follow_topics(session.cluster.view)
            session.cluster.refresh_soon()
        else:
            session.join_group(self._subscribed())

    def _take_pattern(self, session: Session) -> None:
        """Join or read what matches now. The metadata of all topics comes soon, and again and again."""
        session.cluster.watch_all(True)
        session.cluster.refresh_soon()
        if self._group_options is not None:
            session.join_group(self._subscribed())

    def _subscribed(self) -> Callable[[], Iterable[str]]:
        """Return what tells the subscribed topics of a consumer that is there; it does not hold the consumer."""
        held = weakref.ref(self)
        return lambda: () if (consumer := held()) is None else consumer._topics

    def _match_pattern(self, session: Session, view: ClusterView) -> None:
        """Read the topics that match now; with a group, join again if these are others than before."""
        assert self._pattern is not None
        known = (info for info in view.topics.values() if not info.is_internal)
        matched = {info.name for info in known if self._pattern.fullmatch(info.name)}
        if matched != self._topics:
            self._topics = matched
            self._take_topics(session)

    def _metadata_changed(self, view: ClusterView) -> None:
        if self._session is not None and self._pattern is not None:
            self._match_pattern(self._session, view)
        if self._session is not None:
            read = self._topics | {partition.topic for partition in self._assigned_by_user}
            self._session.note_topic_errors(read, view)
        self._follow_topics(view)

    def _follow_topics(self, view: ClusterView) -> None:
        """Without a group, take the partitions that the topics have in a new view of the cluster."""
        if self._session is not None and self._group_options is None and self._topics:
            self._session.assignment.follow_topics(sorted(self._topics), view)

    def _return_run(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Have the records that `async for` took but did not return fetched again."""
        run = self._run
        if run is None or (partitions is not None and run.state.partition not in partitions):
            return
        self._run = None
        if run.index < len(run.records) and run.version == run.state.version:
            run.state.rewind()
            if self._session is not None:
                self._session.signals.fetch.set()


def _changed(consumer: Subscriber | None, view: ClusterView) -> None:
    if consumer is not None:
        consumer._metadata_changed(view)  # pyright: ignore[reportPrivateUsage] - of this module
