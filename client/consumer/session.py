"""The parts of a consumer that exist from its start to its stop: connections, tasks and membership."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Any

from ...protocol.errors import ErrorCode, KafkaError
from ..core.cluster import Cluster
from ..core.committed_offsets import CommittedOffsets, Generation
from ..core.coordinator import Coordinator
from ..core.metadata import ClusterView
from ..core.options import ClusterOptions
from ..core.serialization import Deserializers
from ..core.task_ends import broken_task, end_tasks, shared
from ..errors import GroupRequired, ListenerFailed
from ..record import ConsumerGroupMetadata, TopicPartition
from .assignment import Assignment
from .explanation import ConsumerCounts, Explanation, explained
from .fetch_collector import FetchCollector
from .fetcher import Fetcher
from .membership import Membership
from .offset_commits import OffsetCommits, Offsets, OffsetStore, StoredOffsets
from .options import FetchOptions, GroupOptions
from .polls import Polls
from .position_checks import PositionChecks
from .position_finder import PartitionRetries, PositionFinder
from .positions import Positions, Signals

_log = logging.getLogger(__name__)

# Between the commits of `consume` and `streams` where auto-commit is off: Kafka's default.
_COMMIT_INTERVAL_MS = 5_000


class Session:
    """One running consumer. Make it with `open`, end it with `close`."""

    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        fetch_options: FetchOptions,
        deserializers: Deserializers,
        group_options: GroupOptions | None,
        store: OffsetStore | None = None,
        auto_commit_interval_ms: float | None = None,
    ) -> None:
        self.cluster = cluster
        self.positions = positions
        self.signals = Signals()
        self.counts = ConsumerCounts()
        self.polls = Polls()
        self._group_options = group_options
        self._coordinator = None if group_options is None else Coordinator(cluster, group_options.group_id)
        self._committed: Offsets | None = None if self._coordinator is None else CommittedOffsets(self._coordinator)
        if store is not None:
            self._committed = StoredOffsets(store)
        self.auto_commit_interval_ms = None if self._committed is None else auto_commit_interval_ms
        retries = PartitionRetries(cluster, self.signals)
        finder = self._finder = PositionFinder(
            cluster, positions, self._committed, fetch_options, retries, self.signals
        )
        checks = PositionChecks(cluster, finder, retries, self.signals)
        self.commits = OffsetCommits(cluster, self._committed, positions, self.auto_commit_interval_ms, self.counts)
        self.assignment = Assignment(cluster, positions, finder, self.commits, self.polls)
        self.collector = FetchCollector(positions, self.signals, deserializers)
        self._fetcher = Fetcher(cluster, positions, finder, checks, fetch_options, retries, self.signals, self.counts)
        # None while the consumer is in no group.
        self.membership: Membership | None = None
        self._member_task: asyncio.Task[Any] | None = None
        # For the next poll: an error that had to wait for the records before it, or of a topic.
        self.error: KafkaError | None = None
        # Why a task has ended that must go on, for each poll.
        self._broken: KafkaError | None = None
        self._watched: set[asyncio.Task[Any]] = set()
        # Topics that cannot be read, as a poll has raised.
        self._topic_errors: dict[str, ErrorCode] = {}
        # Those that do not exist yet, or have no leader.
        self._retried_topics: frozenset[str] = frozenset()
        # Set at the begin of a stop: no more records are returned.
        self.stopping = False

    @classmethod
    async def open(
        cls,
        options: ClusterOptions,
        topics: Collection[str],
        positions: Positions,
        fetch_options: FetchOptions,
        deserializers: Deserializers,
        group_options: GroupOptions | None,
        store: OffsetStore | None,
        auto_commit_interval_ms: float | None,
    ) -> Session:
        """Reach the cluster and start the tasks. Raises NoBrokerReachable."""
        cluster = await Cluster.open(options, topics)
        session = cls(cluster, positions, fetch_options, deserializers, group_options, store, auto_commit_interval_ms)
        session._start_tasks()
        return session

    def _start_tasks(self) -> None:
        self.watch_task(self.cluster.spawn(self._fetcher.run(), "fetcher"))
        interval_ms = self.auto_commit_interval_ms
        if interval_ms is not None:
            self.watch_task(self.cluster.spawn(self.commits.auto_commit(interval_ms), "auto-commit"))

    def commit_automatically(self) -> None:
        """Commit processed records from now on also if auto-commit is off: only tasks know what is done."""
        if not self.commits.automatic and self._committed is not None:
            self.commits.automatic = True
            self.watch_task(self.cluster.spawn(self.commits.auto_commit(_COMMIT_INTERVAL_MS), "auto-commit"))

    def watch_task(self, task: asyncio.Task[Any]) -> None:
        """Have each poll raise why a task has ended, if it breaks, or is cancelled by others than this session."""

        self._watched.add(task)

        def ended(task: asyncio.Task[Any]) -> None:
            if task not in self._watched:
                return
            self._watched.remove(task)
            if not self.stopping and (error := broken_task(task, f"the consumer's {task.get_name()}")) is not None:
                self._broken = self._broken or error
                self.signals.poll.set()

        task.add_done_callback(ended)

    def note_topic_errors(self, topics: Collection[str], view: ClusterView) -> None:
        """Have the next poll raise why one of these topics cannot be read, once for each new error.

        A topic that does not exist may be created yet: that is logged after a second.
        """
        found = {topic: view.errors[topic] for topic in topics if topic in view.errors}
        final = {topic: code for topic, code in found.items() if not code.retriable}
        for topic, code in final.items():
            if self._topic_errors.get(topic) is not code:
                self.error = KafkaError(code, f"topic {topic!r} cannot be read: {code.text}")
                self.signals.poll.set()
        self._topic_errors = final
        retried = {topic: code for topic, code in found.items() if code.retriable}
        for topic in self._retried_topics - retried.keys():
            self.cluster.retries.done(("topic", topic))
        for topic, code in retried.items():
            text = f"topic {topic!r} cannot be read yet: {code.text}"
            self.cluster.retries.failed(("topic", topic), KafkaError(code, text))
        self._retried_topics = frozenset(retried)

    async def leave_and_commit(self) -> None:
        """Leave the group, and commit processed records with auto-commit."""
        if self.membership is None:
            await self.commits.commit_processed()
        else:
            await self._leave_group(self.membership)

    async def close(self) -> None:
        """Stop the tasks and close the connections."""
        self.signals.poll.set()  # a waiting poll finds the consumer stopped
        try:
            await self.cluster.close()
        finally:
            self.positions.replace(())
            self.signals.positions_changed()  # calls that wait for a position find the consumer stopped

    # -- Partitions

    def join_group(self, topics: Callable[[], Iterable[str]]) -> None:
        """Join the group, or join it again because the subscribed topics have changed."""
        assert self._coordinator is not None and self._group_options is not None
        if self.membership is not None and self.membership.error is None:
            self.membership.request_rejoin()
            return
        self.polls.drop(self.positions.drop(self.positions.partitions()))
        self.membership = self.commits.membership = Membership(
            self.cluster,
            self._coordinator,
            self._group_options,
            self.assignment,
            topics,
            self.signals,
            self.polls,
            self.counts,
        )
        self._member_task = self.cluster.spawn(self.membership.run(), "membership")
        self.watch_task(self._member_task)

    async def _leave_group(self, membership: Membership) -> None:
        """Stop heartbeating, commit, and leave. If the caller is cancelled, the member leaves without it."""
        self.membership = None
        task, self._member_task = self._member_task, None
        assert task is not None
        self._watched.discard(task)
        failure: ListenerFailed | None = None
        try:
            await end_tasks((task,))
            await membership.give_up_all()
        except ListenerFailed as error:
            failure = error
        except KafkaError as error:
            _log.info("the group went on without this consumer while it stopped: %s", error)
        finally:
            self.commits.membership = None
            leaving = self.cluster.spawn(membership.leave("the consumer was closed"), "leave")
        await shared(leaving)
        if failure is not None:
            raise failure

    def take_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Take the partitions that the user assigned, and find their positions."""
        self.cluster.watch({partition.topic for partition in partitions})
        self.cluster.refresh_soon()
        new = self.positions.replace(partitions)
        self.watch_task(self.cluster.spawn(self._finder.find_for_polls(new), "begin"))

    def committed_offsets(self) -> Offsets:
        """Return the committed offsets of the group or the store. Raises GroupRequired."""
        if self._committed is None:
            raise GroupRequired("offsets are kept by groups: give the consumer a group_id, or an offset_store")
        return self._committed

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the consumer's place in its group. Raises GroupRequired."""
        if self._group_options is None:
            raise GroupRequired("the consumer is in no group: give it a group_id")
        group_id = self._group_options.group_id
        if self.membership is None:
            return ConsumerGroupMetadata(group_id)
        generation = self.membership.generation
        return ConsumerGroupMetadata(
            group_id, generation.generation_id, generation.member_id, generation.group_instance_id
        )

    # -- Seeing inside

    def explain(self) -> Explanation:
        """Return what the consumer has, how far behind it is, and what it waits for."""
        membership = self.membership
        generation = Generation() if membership is None else membership.generation
        return Explanation(
            None if self._group_options is None else self._group_options.group_id,
            generation.member_id,
            generation.generation_id,
            "" if membership is None else membership.state.name,
            "" if membership is None else membership.waits_for(),
            tuple(explained(state) for state in sorted(self.positions, key=lambda state: state.partition)),
        )

    # -- Polls

    def may_return_records(self) -> bool:
        """Whether a poll may return records now. Raises an error that waits for the next poll."""
        if self.stopping:
            self.signals.poll.clear()
            return False
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        if self._broken is not None:
            raise self._broken
        membership = self.membership
        if membership is None:
            return True
        if membership.error is not None:
            raise membership.error
        if membership.pauses_polls:
            self.signals.poll.clear()
            return False
        return True

    def positions_changed(self) -> None:
        """Wake everything that waits for a position or for records."""
        self.signals.fetch.set()
        self.signals.poll.set()
        self.signals.positions_changed()


# They close the sessions of lost consumers.
_closing: set[asyncio.Task[None]] = set()


def lose(loop: asyncio.AbstractEventLoop, session: Session) -> None:
    """Have the loop close the session of a consumer that nobody can stop any more, if the loop is there.

    A finalizer calls this, in any thread and at any moment.
    """

    def close() -> None:
        task = loop.create_task(_close_lost(session))
        _closing.add(task)
        task.add_done_callback(_closing.discard)

    with suppress(RuntimeError):  # the loop is closed: its connections are, too
        loop.call_soon_threadsafe(close)


async def _close_lost(session: Session) -> None:
    session.stopping = True
    try:
        async with asyncio.timeout(session.cluster.options.request_timeout_ms / 1000):
            await session.leave_and_commit()
    except (KafkaError, TimeoutError) as error:
        _log.warning("a consumer that was lost could not commit and leave its group: %s", error)
    finally:
        await session.close()
