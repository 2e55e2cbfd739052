"""One running share consumer: its connections, its membership, and its sessions with leaders.

Membership is that of the consumer protocol (`consumer/consumer_membership.py`); its heartbeats are ShareGroupHeartbeat
(key 76). Several members may have one partition, because each record has a lock of its own. So nothing is handed over:
a member fetches from the partitions that it was told last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ...protocol.errors import KafkaError
from ...protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ..consumer.consumer_membership import ConsumerMembership
from ..consumer.consumer_protocol import MemberHeartbeats, Place
from ..consumer.explanation import ConsumerCounts
from ..consumer.membership import MemberState
from ..consumer.options import GroupOptions, Subscription
from ..consumer.polls import Polls
from ..consumer.positions import Signals
from ..core.clock import monotonic_ms, wait_for
from ..core.cluster import Cluster
from ..core.coordinator import Coordinator
from ..core.lifetime import broken_task, end_tasks
from ..core.options import ClusterOptions
from ..core.serialization import Deserializers, MissingSchema, SchemaMissing
from ..errors import ClientStopped, DeserializationFailed, InvalidAcknowledgement, NotAssigned, results_of
from ..record import ConsumerRecord, ShareRecord, TopicPartition
from .deliveries import Acknowledgement, Deliveries, ShareFetchOptions
from .leaders import AcknowledgementListener, ShareLeaders

_log = logging.getLogger(__name__)

# A poll looks again after this, if nothing wakes it: a partition that had an error may be asked for again.
_LOOK_AGAIN_MS = 500


@dataclass(frozen=True, slots=True)
class ShareOptions:
    """The checked options of a share consumer."""

    cluster: ClusterOptions
    fetch: ShareFetchOptions
    group: GroupOptions
    is_explicit: bool
    acknowledgement_listener: AcknowledgementListener | None
    deserializers: Deserializers


class Session:
    """One running share consumer. Make it with `open`; end it with `leave`, then `close`."""

    def __init__(self, cluster: Cluster, options: ShareOptions, topics: Collection[str]) -> None:
        self.cluster = cluster
        self.deliveries = Deliveries()
        self._options = options
        self._topics = topics
        # Whether `consume` runs: workers say what becomes of each record, in the place of polls.
        self.is_by_record = False
        self._signals, self._polls = Signals(), _SharePolls(self)
        # Set while a waiting poll should look for records, errors or the assignment.
        self._wake = self._signals.poll
        # Set at the begin of a stop: no more records are returned.
        self.is_stopping = False
        # Why the task of the membership has broken.
        self._broken: KafkaError | None = None
        self._membership = ShareMembership(
            cluster,
            Coordinator(cluster, options.group.group_id),
            options.group,
            _OwnsNothing(),
            lambda: Subscription(set(topics)),
            self._signals,
            self._polls,
            ConsumerCounts(),
        )
        self.leaders = ShareLeaders(
            cluster,
            options.group.group_id,
            self._membership.member_id,
            options.fetch,
            self.deliveries,
            self._wake.set,
            options.acknowledgement_listener,
        )
        self._member: asyncio.Task[Any] | None = None
        self._schema = MissingSchema(cluster.spawn, self._wake)
        cluster.on_update(lambda _view: self._wake.set())

    @classmethod
    async def open(cls, options: ShareOptions, topics: Collection[str]) -> Session:
        """Reach the cluster, and join the group in the background. Raises NoBrokerReachable."""
        session = cls(await Cluster.open(options.cluster, topics), options, topics)
        session.subscribe()
        return session

    def subscribe(self) -> None:
        """Join the group, or tell it that the topics are others."""
        self.cluster.watch(self._topics)
        self._membership.request_rejoin()
        if self._topics and (self._member is None or self._member.done()):
            self._membership.join_again()
            self._member = self.cluster.spawn(self._membership.run(), "share membership")
            self._member.add_done_callback(self._member_ended)

    def _member_ended(self, task: asyncio.Task[Any]) -> None:
        if not self.is_stopping and (error := broken_task(task, "the share consumer's membership")) is not None:
            self._broken = error
            self._wake.set()

    # -- Polls

    async def poll(self, limit: int, timeout_ms: float | None, room: int | None = None) -> list[ShareRecord[Any, Any]]:
        """Return up to `limit` records, none after `timeout_ms`. Raises what `ShareConsumer.getmany` raises.

        With `room` the leaders are asked for no more than so many, whole batches or not.
        """
        if not self._topics:
            raise NotAssigned("there is nothing to read: subscribe() to topics")
        self._polls.begin()
        try:
            self._begin_poll()
            return await self._wait_for(limit, timeout_ms, room)
        finally:
            self._polls.end()

    @property
    def is_explicit(self) -> bool:
        """Whether the user says what becomes of each record."""
        return self._options.is_explicit or self.is_by_record

    def _begin_poll(self) -> None:
        if self.is_by_record:
            pass
        elif not self._options.is_explicit:
            self.deliveries.accept_held(monotonic_ms())
        elif (record := self.deliveries.open_record()) is not None:
            where = f"{record.topic}-{record.partition} at offset {record.offset}"
            raise InvalidAcknowledgement(f"{where}: accept, release, reject or renew it before the next poll")
        self.leaders.tell_if_due()

    async def _wait_for(self, limit: int, timeout_ms: float | None, room: int | None) -> list[ShareRecord[Any, Any]]:
        ends_ms = None if timeout_ms is None else monotonic_ms() + timeout_ms
        while True:
            self._wake.clear()
            if self.is_stopping:
                raise ClientStopped("the share consumer was stopped")
            if records := self.deliveries.take(limit, monotonic_ms()):
                try:
                    return self._deserialized(records)
                except SchemaMissing as missing:
                    self._schema.ask(missing)
            self._raise_errors()
            self.leaders.ask(self._membership.assigned, room)
            left_ms = _LOOK_AGAIN_MS if ends_ms is None else ends_ms - monotonic_ms()
            if left_ms <= 0:
                await asyncio.sleep(0)  # a loop around getmany(timeout_ms=0) must let other tasks run
                return []
            await wait_for(self._wake, min(left_ms, _LOOK_AGAIN_MS))

    def _raise_errors(self) -> None:
        error = self._membership.take_error() or self._broken
        if error is None:
            error, self.leaders.error = self.leaders.error, None
        if error is not None:
            raise error

    def _deserialized(self, records: list[ShareRecord]) -> list[ShareRecord[Any, Any]]:
        """Return records as the user takes them. One that fails is released, and those behind it come next time.

        Raises DeserializationFailed. After anything else, such as SchemaMissing, all come again.
        """
        try:
            made = self._options.deserializers.many(cast("list[ConsumerRecord]", records))
        except DeserializationFailed:
            self.deliveries.put_back(records[1:])
            self.deliveries.settle(records[0], Acknowledgement.RELEASE, monotonic_ms())
            raise
        except BaseException:
            self.deliveries.put_back(records)
            raise
        self.deliveries.put_back(records[len(made) :])
        return cast("list[ShareRecord[Any, Any]]", made)

    async def renew(self, records: Sequence[ShareRecord[Any, Any]]) -> None:
        """Lock records anew. Raises KafkaError, ItemsFailed."""
        results_of(await self.leaders.renew([self.deliveries.held(each) for each in records]))

    # -- The end

    async def leave(self, *, accept: bool = False) -> None:
        """Send the acknowledgements, and leave the group; with `accept` all returned records are accepted."""
        self.is_stopping = True
        self._wake.set()
        if accept and not self.is_by_record:
            self.deliveries.accept_held(monotonic_ms())
        for partition, error in (await self.leaders.close()).items():
            if error is not None:
                _log.warning("%s-%d: the last records are delivered again: %s", *partition, error)
        if self._member is not None:
            await end_tasks((self._member,))
            await self._membership.leave("the share consumer was closed")

    async def close(self) -> None:
        """Stop the tasks and close the connections."""
        self.is_stopping = True
        self._wake.set()
        await self.cluster.close()


# -- Membership


class ShareMembership(ConsumerMembership):
    """One member of one share group. It reads what it was told last, and gives nothing up."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._heartbeats = _ShareHeartbeats(self._coordinator, self._options)
        # It makes its own id, and keeps it.
        self.member_id = self._heartbeats.member_id

    @property
    def assigned(self) -> frozenset[Place]:
        """The partitions to fetch from."""
        return self._target

    def join_again(self) -> None:
        """Begin anew after an error that has ended the membership: `run()` it as another task."""
        self.state, self.error = MemberState.UNJOINED, None

    async def _reconcile(self) -> None:
        if self._began_ms is not None:  # another assignment has come
            self._began_ms = None
            if not {topic_id for topic_id, _ in self._target} <= self._cluster.view.topic_names.keys():
                self._cluster.refresh_soon()
            self._signals.poll.set()

    async def _lose(self) -> None:
        _log.warning("share group %r has gone on without this member", self._options.group_id)
        self.state = MemberState.UNJOINED


class _ShareHeartbeats(MemberHeartbeats):
    """ShareGroupHeartbeat: it names topics, and no partitions."""

    _response = ShareGroupHeartbeatResponse

    def _identity(self, epoch: int) -> Any:
        return ShareGroupHeartbeatRequest(group_id=self._coordinator.key, member_id=self.member_id, member_epoch=epoch)

    def _request(self, topics: frozenset[str], pattern: str | None, owned: frozenset[Place]) -> Any:
        request = self._identity(self.epoch)
        if self._is_whole:
            request.rack_id = self._options.client_rack
        if self._is_whole or topics != self._said_topics:
            request.subscribed_topic_names = sorted(topics)
        return request


class _SharePolls(Polls):
    """The polls of a share consumer. Workers do not stall: each record has a time of its own (held_records.py)."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def stalled_ms(self, now_ms: float) -> float:
        return 0.0 if self._session.is_by_record else super().stalled_ms(now_ms)


class _OwnsNothing:
    """The partitions of a share group are in no member's hands: an `Assignee` with nothing to do."""

    def partitions(self) -> frozenset[TopicPartition]:
        return frozenset()

    def hold(self, partitions: Collection[TopicPartition]) -> None: ...

    async def revoke(self, partitions: Collection[TopicPartition]) -> None: ...

    async def lose(self) -> None: ...

    async def assign(self, partitions: Sequence[TopicPartition]) -> None: ...
