"""The parts of a consumer that exist from its start to its stop: connections, tasks and membership.

What the user subscribes to becomes a membership, or an assignment without a group, in `Session.subscribe`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...protocol.errors import KafkaError
from ..core.cluster import Cluster
from ..core.committed_offsets import CommittedOffsets, Generation
from ..core.coordinator import Coordinator
from ..core.lifetime import broken_task, end_tasks, shared
from ..core.metadata import ClusterView
from ..core.options import ClusterOptions
from ..errors import GroupRequired, ListenerFailed
from ..record import ConsumerGroupMetadata
from .assignment import Assignment, TopicErrors
from .classic_membership import ClassicMembership
from .consumer_membership import ConsumerMembership
from .explanation import ConsumerCounts, Explanation, explained
from .fetcher import Fetcher
from .membership import Membership
from .offset_commits import OffsetCommits, Offsets, OffsetStore, StoredOffsets
from .options import FetchOptions, GroupOptions, Subscription
from .polls import Polls
from .position_checks import PositionChecks
from .position_finder import PartitionRetries, PositionFinder
from .positions import PartitionState, Positions, Signals

_log = logging.getLogger(__name__)

# Between the commits of `consume` and `streams` where auto-commit is off: Kafka's default.
_COMMIT_INTERVAL_MS = 5_000


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """The checked options of a consumer, as far as they concern its session."""

    cluster: ClusterOptions
    fetch: FetchOptions
    # None without a group.
    group: GroupOptions | None
    offset_store: OffsetStore | None
    # None without auto-commit.
    auto_commit_interval_ms: float | None


class Session:
    """One running consumer. Make it with `open`, end it with `close`."""

    def __init__(self, cluster: Cluster, options: SessionOptions, positions: Positions) -> None:
        self.cluster = cluster
        self.positions = positions
        self.signals = Signals()
        self.counts = ConsumerCounts()
        self.polls = Polls()
        self._group = options.group
        self._group_id = None if options.group is None else options.group.group_id
        self._coordinator = None if options.group is None else Coordinator(cluster, options.group.group_id)
        self._committed: Offsets | None = None
        if self._coordinator is not None:
            self._committed = CommittedOffsets(self._coordinator, self._reader)
        if options.offset_store is not None:
            self._committed = StoredOffsets(options.offset_store)
        retries = PartitionRetries(cluster, self.signals)
        self._finder = PositionFinder(cluster, self._committed, options.fetch, retries, self.signals)
        checks = PositionChecks(cluster, self._finder, retries, self.signals)
        self._fetcher = Fetcher(
            cluster, positions, self._finder, checks, options.fetch, retries, self.signals, self.counts
        )
        self.commits = OffsetCommits(cluster, self._committed, positions, self.polls, self.counts)
        # None without auto-commit.
        self._interval_ms = options.auto_commit_interval_ms
        self._auto_commit: asyncio.Task[Any] | None = None
        self._assignment = Assignment(cluster, positions, self._finder, self.commits, self.polls)
        self.subscription = Subscription()
        # None while the consumer is in no group.
        self.membership: Membership | None = None
        self._member_task: asyncio.Task[Any]
        # For the next poll: an error that had to wait for the records before it, or of a topic.
        self.error: KafkaError | None = None
        # Why a task has ended that must go on, for each poll.
        self._broken: KafkaError | None = None
        self._watched: set[asyncio.Task[Any]] = set()
        self._topic_errors = TopicErrors(cluster)
        # Set at the begin of a stop: no more records are returned.
        self.stopping = False
        # Set at the end of a stop: who waits is told.
        self.closed = False

    @classmethod
    async def open(cls, options: SessionOptions, subscription: Subscription, positions: Positions) -> Session:
        """Reach the cluster, and read what is subscribed. Raises NoBrokerReachable."""
        cluster = await Cluster.open(options.cluster, subscription.read_topics())
        session = cls(cluster, options, positions)
        session.watch_task(cluster.spawn(session._fetcher.run(), "fetcher"))
        session.commit_by_record(False)
        session.subscribe(subscription)
        session._metadata_changed(cluster.view)
        cluster.on_update(session._metadata_changed)
        return session

    def commit_by_record(self, on: bool) -> None:
        """Commit processed records also if auto-commit is off, while only tasks know what is done."""
        self.commits.automatic = self._committed is not None and (on or self._interval_ms is not None)
        if self.commits.automatic and self._auto_commit is None:
            interval_ms = _COMMIT_INTERVAL_MS if self._interval_ms is None else self._interval_ms
            self._auto_commit = self.cluster.spawn(self.commits.auto_commit(interval_ms), "auto-commit")
            self.watch_task(self._auto_commit)

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

    async def leave(self) -> None:
        """Return no more records; leave the group, and commit processed records with auto-commit."""
        self.stopping = True
        self.signals.poll.set()
        await self.leave_and_commit()

    async def leave_and_commit(self) -> None:
        """Leave the group, and commit processed records with auto-commit."""
        if self.membership is None:
            await self.commits.commit_processed()
        else:
            await self._leave_group(self.membership)

    async def close(self) -> None:
        """Stop the tasks and close the connections."""
        self.closed = True
        self.signals.poll.set()
        try:
            await self.cluster.close()
        finally:
            self.positions.replace(())
            self.signals.positions_changed()  # calls that wait for a position find the consumer stopped

    # -- What is read

    def subscribe(self, subscription: Subscription) -> None:
        """Read this instead of what was read before."""
        self.cluster.forget(self.subscription.read_topics() - subscription.read_topics())
        self.subscription = subscription
        self._topic_errors.raised.clear()  # who subscribes anew has heard of none
        self._assignment.listener = subscription.listener
        self.cluster.watch_all(subscription.pattern is not None)
        self.cluster.watch(subscription.read_topics())
        if subscription.is_made and (self._group is None or not subscription.topics):
            self.cluster.refresh_soon()  # the member of a group asks for its topics itself
        self._read_topics()

    def _read_topics(self) -> None:
        """Join the group, or assign the partitions that are to be read without one."""
        wanted = self.subscription
        if wanted.partitions is not None:
            self._find_positions(self.positions.replace(wanted.partitions))
        elif self._group is None or not (wanted.is_made or self.membership):
            self._follow_topics()
        else:
            self._join_group()

    def _follow_topics(self) -> None:
        """Take the partitions that the topics have now. A pattern has them after the next refresh."""
        if self.subscription.partitions is None:
            self._find_positions(self._assignment.follow_topics(sorted(self.subscription.topics), self.cluster.view))

    def _find_positions(self, states: Collection[PartitionState]) -> None:
        if states:
            self.watch_task(self.cluster.spawn(self._finder.find_for_polls(states), "begin"))

    def _metadata_changed(self, view: ClusterView) -> None:
        wanted = self.subscription
        if (matched := wanted.matched(view)) != wanted.topics:
            wanted.topics = matched
            self.cluster.watch(matched)
            if self._group is None or self.membership is not None:  # who leaves the group must not join it again
                self._read_topics()
        error = self._topic_errors.found(wanted.read_topics(), view)
        if error is not None:  # for the next poll
            self.error = error
            self.signals.poll.set()
        if self._group is None:
            self._follow_topics()

    # -- The group

    def _join_group(self) -> None:
        """Join the group, or join it again because the subscribed topics have changed."""
        assert self._coordinator is not None and self._group is not None
        if self.membership is not None and self.membership.error is None:
            self.membership.request_rejoin()
            return
        self._assignment.drop(self.positions.partitions())
        parts = self.cluster, self._coordinator, self._group, self._assignment, lambda: self.subscription
        classic = partial(ClassicMembership, *parts, self.signals, self.polls, self.counts)
        if self._group.group_protocol == "classic":
            membership = classic()
        else:
            membership = ConsumerMembership(*parts, self.signals, self.polls, self.counts)
        self.membership = self.commits.membership = membership
        self._member_task = self.cluster.spawn(self._be_member(membership, classic), "membership")
        self.watch_task(self._member_task)

    async def _be_member(self, membership: Membership, classic: Callable[[], Membership]) -> None:
        """Be a member of the group. If the group refuses the consumer protocol and the choice is free, by the other."""
        await membership.run()
        is_refused = isinstance(membership, ConsumerMembership) and membership.is_refused
        if is_refused and self._group is not None and self._group.group_protocol == "auto":
            _log.info("group %r takes no member of the consumer protocol: %s", self._group_id, membership.error)
            self.membership = self.commits.membership = membership = classic()
            await membership.run()

    async def _leave_group(self, membership: Membership) -> None:
        """Stop heartbeating, commit, and leave. If the caller is cancelled, the member leaves without it."""
        self.membership = None
        self._watched.discard(self._member_task)
        failure: ListenerFailed | None = None
        try:
            await end_tasks((self._member_task,))
            await membership.give_up_all()
        except ListenerFailed as error:
            failure = error
        except KafkaError as error:
            _log.info("the group went on without this consumer while it stopped: %s", error)
        finally:
            if self.commits.membership is membership:  # the user may have subscribed meanwhile
                self.commits.membership = None
            leaving = self.cluster.spawn(membership.leave("the consumer was closed"), "leave")
        await shared(leaving)
        if failure is not None:
            raise failure

    def _reader(self) -> Generation:
        # Only the consumer protocol checks who reads committed offsets: a member that was fenced gets none.
        return self._generation if isinstance(self.membership, ConsumerMembership) else Generation()

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the consumer's place in its group. Raises GroupRequired, CommitFailed."""
        if self._group_id is None:
            raise GroupRequired("the consumer is in no group: give it a group_id")
        self.polls.check_lost()
        at = self._generation
        return ConsumerGroupMetadata(self._group_id, at.generation_id, at.member_id, at.group_instance_id)

    @property
    def _generation(self) -> Generation:
        return Generation() if self.membership is None else self.membership.generation

    # -- Polls

    def may_return_records(self) -> bool:
        """Whether a poll may return records now. Raises an error that waits for the next poll."""
        membership = self.membership
        if not self.stopping:
            error = self.error or self._broken or (None if membership is None else membership.take_error())
            self.error = None
            if error is not None:
                raise error
            if membership is None or not membership.pauses_polls:
                return True
        self.signals.poll.clear()
        return False

    def explain(self) -> Explanation:
        """Return what the consumer has, how far behind it is, and what it waits for."""
        membership = self.membership
        return Explanation(
            self._group_id,
            self._generation.member_id,
            self._generation.generation_id,
            "" if membership is None else membership.state.name,
            "" if membership is None else membership.waits_for(),
            tuple(explained(state) for state in sorted(self.positions, key=lambda state: state.partition)),
        )
