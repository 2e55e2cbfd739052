"""One running share consumer: its connections, its membership, and its sessions with leaders.

Membership is ShareGroupHeartbeat (key 76), by which the coordinator names partitions to fetch from.

    UNJOINED --poll--> STABLE --fenced, or no poll for max_poll_interval_ms--> UNJOINED
    any --leave(), or an error that is not retriable--> ENDED

Several members may have one partition, because each record has a lock of its own. So nothing is handed over: a member
fetches from the partitions that it was told last.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ..core.clock import monotonic_ms, wait_for
from ..core.cluster import Cluster
from ..core.coordinator import Coordinator
from ..core.lifetime import broken_task, end_tasks
from ..core.options import ClusterOptions
from ..core.serialization import Deserializers, SchemaMissing
from ..errors import (
    ClientStopped,
    ConcurrentPoll,
    DeserializationFailed,
    InvalidAcknowledgement,
    NotAssigned,
    results_of,
)
from ..record import ConsumerRecord, ShareRecord
from .deliveries import Acknowledgement, Deliveries, Place, ShareFetchOptions
from .leaders import AcknowledgementListener, ShareLeaders

_log = logging.getLogger(__name__)

# A poll looks again after this, if nothing wakes it: a partition that had an error may be asked for again.
_LOOK_AGAIN_MS = 500

_JOIN_EPOCH = 0
_LEAVE_EPOCH = -1
# The group has ended this member, or has forgotten itself: join again.
_FENCED = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND}
# A member without partitions asks for some this often at first: the coordinator makes partitions ready only when the
# first member is there, and its interval is 5 s.
_SOON_MS = 500
_SOON_BEATS = 20


@dataclass(frozen=True, slots=True)
class ShareOptions:
    """The checked options of a share consumer."""

    cluster: ClusterOptions
    fetch: ShareFetchOptions
    group_id: str
    client_rack: str | None
    max_poll_interval_ms: int
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
        # Set while a waiting poll should look for records, errors or the assignment.
        self._wake = asyncio.Event()
        self._is_polling = False
        # Set at the begin of a stop: no more records are returned.
        self.is_stopping = False
        # Why the task of the membership has broken.
        self._broken: KafkaError | None = None
        coordinator = Coordinator(cluster, options.group_id)
        self._membership = ShareMembership(
            cluster, coordinator, lambda: topics, self._wake.set, options.client_rack, options.max_poll_interval_ms
        )
        self.leaders = ShareLeaders(
            cluster,
            options.group_id,
            self._membership.member_id,
            options.fetch,
            self.deliveries,
            self._wake.set,
            options.acknowledgement_listener,
        )
        self._member: asyncio.Task[Any] | None = None
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
        self._membership.heartbeat_soon()
        if self._topics and (self._member is None or self._member.done()):
            self._membership.error = None
            self._member = self.cluster.spawn(self._membership.run(), "share membership")
            self._member.add_done_callback(self._member_ended)

    def _member_ended(self, task: asyncio.Task[Any]) -> None:
        if not self.is_stopping and (error := broken_task(task, "the share consumer's membership")) is not None:
            self._broken = error
            self._wake.set()

    # -- Polls

    async def poll(self, limit: int, timeout_ms: float | None) -> list[ShareRecord[Any, Any]]:
        """Return up to `limit` records, none after `timeout_ms`. Raises what `ShareConsumer.getmany` raises."""
        if not self._topics:
            raise NotAssigned("there is nothing to read: subscribe() to topics")
        if self._is_polling:
            raise ConcurrentPoll("another task waits for records of this share consumer: only one may poll at a time")
        self._is_polling = True
        try:
            self._begin_poll()
            return await self._wait_for(limit, timeout_ms)
        finally:
            self._is_polling = False

    def _begin_poll(self) -> None:
        self._membership.polled()
        if not self._options.is_explicit:
            self.deliveries.accept_held(monotonic_ms())
        elif (record := self.deliveries.open_record()) is not None:
            where = f"{record.topic}-{record.partition} at offset {record.offset}"
            raise InvalidAcknowledgement(f"{where}: accept, release, reject or renew it before the next poll")
        self.leaders.tell_if_due()

    async def _wait_for(self, limit: int, timeout_ms: float | None) -> list[ShareRecord[Any, Any]]:
        ends_ms = None if timeout_ms is None else monotonic_ms() + timeout_ms
        while True:
            self._wake.clear()
            if self.is_stopping:
                raise ClientStopped("the share consumer was stopped")
            if records := self.deliveries.take(limit, monotonic_ms()):
                try:
                    return self._deserialized(records)
                except SchemaMissing as missing:
                    await missing.load()
                    continue
            self._raise_errors()
            self.leaders.ask(self._membership.assigned)
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
        results_of(await self.leaders.renew(records))

    # -- The end

    async def leave(self, *, accept: bool = False) -> None:
        """Tell the leaders what became of records, and leave the group; with `accept` all are processed."""
        self.is_stopping = True
        self._wake.set()
        if accept:
            self.deliveries.accept_held(monotonic_ms())
        for partition, error in (await self.leaders.close()).items():
            if error is not None:
                _log.warning("%s-%d: the last records are delivered again: %s", *partition, error)
        if self._member is not None:
            await end_tasks((self._member,))
            await self._membership.leave()

    async def close(self) -> None:
        """Stop the tasks and close the connections."""
        self.is_stopping = True
        self._wake.set()
        await self.cluster.close()


# -- Membership


class ShareMembership:
    """One member of one share group. Run `run()` as a task, and call `leave()` at the end."""

    def __init__(
        self,
        cluster: Cluster,
        coordinator: Coordinator,
        topics: Callable[[], Collection[str]],
        changed: Callable[[], None],
        client_rack: str | None,
        max_poll_interval_ms: float,
    ) -> None:
        self._cluster = cluster
        self._coordinator = coordinator
        self._topics = topics
        # Called when the assignment or the error is another.
        self._changed = changed
        self._client_rack = client_rack
        self._max_poll_interval_ms = max_poll_interval_ms
        # The member makes its own id, and keeps it.
        self.member_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self.epoch = _JOIN_EPOCH
        # The partitions to fetch from.
        self.assigned: frozenset[Place] = frozenset()
        # Why the membership has ended; polls raise it.
        self.error: KafkaError | None = None
        # What hinders the membership and does not end it: one poll raises it.
        self._hindrance: KafkaError | None = None
        self._interval_ms = float(_SOON_MS)
        self._beats = 0
        # What the coordinator knows; None after an answer that is missing.
        self._said: frozenset[str] | None = None
        # Whether an answer is missing: the coordinator may have taken a member that does not know it.
        self._is_unsure = False
        self._failures = 0
        self._wake = asyncio.Event()
        # Set by each poll; a member whose user has stalled waits for it.
        self._polled = asyncio.Event()
        self._polled_ms = monotonic_ms()

    def polled(self) -> None:
        """Note that the user polls."""
        self._polled_ms = monotonic_ms()
        self._polled.set()

    def heartbeat_soon(self) -> None:
        """Heartbeat at once: the subscription has changed."""
        self._wake.set()

    def take_error(self) -> KafkaError | None:
        """Return what a poll must raise: why the membership has ended, or once what hinders it."""
        hindrance, self._hindrance = self._hindrance, None
        return self.error or hindrance

    async def run(self) -> None:
        """Join and heartbeat, until cancelled or an error that may not pass."""
        while True:
            try:
                await self._step()
            except KafkaError as error:
                if error.code in _FENCED and self.epoch != _JOIN_EPOCH:
                    _log.warning("share group %r has gone on without this member: %s", self._coordinator.key, error)
                    self._forget()
                elif not error.retriable and error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    self.error = error
                    self._changed()
                    return
                else:
                    if not error.retriable:  # as Java's, the member goes on until it may describe its topics
                        self._hindrance = error
                        self._changed()
                    self._said = None
                    self._failures += 1
                    self._cluster.retries.failed(self, error)
                    await asyncio.sleep(self._cluster.backoff.pause_ms(self._failures) / 1000)

    async def _step(self) -> None:
        """Heartbeat, and wait until the next one is due."""
        self._wake.clear()
        await self._beat()
        self._failures = 0
        self._cluster.retries.done(self)
        soon = not self.assigned and self._beats < _SOON_BEATS
        left_ms = self._polled_ms + self._max_poll_interval_ms - monotonic_ms()
        pause_ms = min(self._interval_ms, _SOON_MS) if soon else self._interval_ms
        if not await wait_for(self._wake, max(min(pause_ms, left_ms), 0)) and self._is_stalled():
            await self._leave_stalled()

    def _is_stalled(self) -> bool:
        return monotonic_ms() - self._polled_ms >= self._max_poll_interval_ms

    async def _leave_stalled(self) -> None:
        """Leave until the user polls again: others may need the partitions that only this member fetches from."""
        _log.warning(
            "share group %r: the consumer leaves, because its user has not polled for %g ms (max_poll_interval_ms). "
            "It joins again at the next poll.",
            self._coordinator.key,
            self._max_poll_interval_ms,
        )
        self._polled.clear()
        await self.leave()
        await self._polled.wait()

    async def _beat(self) -> None:
        topics = frozenset(self._topics())
        request = ShareGroupHeartbeatRequest(
            group_id=self._coordinator.key, member_id=self.member_id, member_epoch=self.epoch, rack_id=self._client_rack
        )
        if self.epoch == _JOIN_EPOCH or topics != self._said:
            request.subscribed_topic_names = sorted(topics)
        self._beats += 1
        connection = await self._coordinator.connection()
        self._is_unsure = True
        response = await self._coordinator.request_over(connection, request, ShareGroupHeartbeatResponse)
        self._is_unsure = False
        self._coordinator.raise_error(response.error_code, "a heartbeat", response.error_message)
        self._hindrance = None
        self._said, self.epoch = topics, response.member_epoch
        self._interval_ms = max(response.heartbeat_interval_ms, 1)
        if response.assignment is not None:
            found = response.assignment.topic_partitions
            self.assigned = frozenset((topic.topic_id, number) for topic in found for number in topic.partitions)
            if not {topic_id for topic_id, _ in self.assigned} <= self._cluster.view.topic_names.keys():
                self._cluster.refresh_soon()
            self._changed()

    def _forget(self) -> None:
        self.epoch, self._said, self._beats, self.assigned = _JOIN_EPOCH, None, 0, frozenset()
        self._changed()

    async def leave(self) -> None:
        """Leave the group, and ignore an error: its session time-out does the same later."""
        joined = self._is_unsure or self.epoch != _JOIN_EPOCH
        # Until this ends: a stop may cancel it, and leaves then.
        self._is_unsure = joined
        self._forget()
        if joined:
            request = ShareGroupHeartbeatRequest(
                group_id=self._coordinator.key, member_id=self.member_id, member_epoch=_LEAVE_EPOCH
            )

            async def ask() -> None:
                response = await self._coordinator.request(request, ShareGroupHeartbeatResponse)
                self._coordinator.raise_error(response.error_code, "leaving", response.error_message)

            await self._coordinator.leave(ask)
            self._is_unsure = False
