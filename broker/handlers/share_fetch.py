"""ShareFetch, API key 78: a member of a share group acquires records, and acknowledges earlier ones (KIP-932).

The request names what joins and leaves its session; all partitions of the session are fetched. Each partition's actor
says which records the member gets, and the response holds the batches of the log that they lie in, as ranges of files.
The response goes out once `min_bytes` are there, or an error that ends the wait; otherwise the request waits under its
partitions and their actors, for `max_wait_ms` at most. Acknowledgements of the same request are carried out meanwhile,
and the response has both.

A member that owes time to its quota acquires nothing. What it acquires it gets, and then it waits: records that were
held back would be locked all the same, for nothing.

Version 2 brought the limit on records that is never exceeded (KIP-1206), and renewals (KIP-1222), which fetch nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from ...storage.files import NotCached
from ..coordination.modern.state import Place
from ..network.guards import counted_turns
from ..network.request import RequestContext
from ..security.acls import Operation, ResourceType
from ..services import Services
from ..share_partitions.actor import SharePartitionActor
from ..share_partitions.log_batches import LogBatches, Wanted, read_cached, read_cold
from ..share_partitions.machine import SharePartition, Wish
from ..share_partitions.sessions import FINAL_EPOCH, MAX_PARTITIONS_OF_ONE, NEW_EPOCH, Seen, ShareSession
from ..topics.disk_reads import read_each
from ..topics.partition import Partition
from ..turns import LargeResponse, fill, keeper
from .share_acknowledge import NOT_LEADER, Member, begin, leader_of, member_of

# How records are counted: whole batches of the log, or never more than the limit.
BATCH_OPTIMIZED = 0
RECORD_LIMIT = 1
# Partitions that a woken request looks at in the turn of the wake: some 30 microseconds each.
PARTITIONS_AT_ONCE = 50
# So many partitions and actors that are gone, and still watched by a session, are not worth a look at everything.
MIN_GONE = 100
_NO_RECORDS = b""
# These errors do not end the wait: the partition may appear, and the client asks for new metadata anyway.
_PATIENT = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


def handle(services: Services, context: RequestContext, request: ShareFetchRequest) -> asyncio.Future[Any]:
    """Begin or go on with the session, and respond when there is something to say."""
    member = member_of(services, request)
    _check(request)
    try:
        session = _session(services, context, member, request)
    except KafkaError as error:
        if error.code is not ErrorCode.SHARE_SESSION_LIMIT_REACHED or request.max_wait_ms <= 0:
            raise
        # A member that finds no room asks again at once: it waits for its answer instead.
        answer = ShareFetchResponse(error_code=int(error.code), error_message=error.message)
        return services.purgatory.park((), request.max_wait_ms, lambda expired: answer if expired else None)
    fetch = _ShareFetch(services, context, request, member, session)
    return counted_turns(services.quotas, context, fetch.respond)


def _check(request: ShareFetchRequest) -> None:
    """Raise INVALID_REQUEST for a request that contradicts itself."""
    if request.share_acquire_mode not in (BATCH_OPTIMIZED, RECORD_LIMIT):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no acquire mode {request.share_acquire_mode}")
    if request.is_renew_ack:
        limits = ("max_bytes", "min_bytes", "max_records", "max_wait_ms")
        for name in limits:
            if getattr(request, name):
                why = f"a request that renews locks fetches nothing: {name} must be 0"
                raise KafkaError(ErrorCode.INVALID_REQUEST, why)


def _session(services: Services, context: RequestContext, member: Member, request: ShareFetchRequest) -> ShareSession:
    """Return the session of the request, brought up to date. Raises KafkaError."""
    sessions = services.share_leader.sessions
    for topics in (request.topics, request.forgotten_topics_data):
        # None of them is looked at: there may be ten times as many, which would hold the loop.
        if sum(len(topic.partitions) for topic in topics) > MAX_PARTITIONS_OF_ONE:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
    named = [(topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions]
    if request.share_session_epoch == NEW_EPOCH:
        if any(each.acknowledgement_batches for topic in request.topics for each in topic.partitions):
            why = "a request that begins a session acknowledges nothing"
            raise KafkaError(ErrorCode.INVALID_REQUEST, why)
        return sessions.begin(*member, named, context.connection)
    session = sessions.go_on(*member, request.share_session_epoch)
    if request.share_session_epoch != FINAL_EPOCH:
        forgotten = [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]
        sessions.update(session, named, forgotten)
    return session


class _Look(NamedTuple):
    """What a look at a partition has found that a member may acquire."""

    place: Place
    actor: SharePartitionActor
    offset: int
    batches: LogBatches


class _ShareFetch:
    """One request until it is answered."""

    def __init__(
        self,
        services: Services,
        context: RequestContext,
        request: ShareFetchRequest,
        member: Member,
        session: ShareSession,
    ) -> None:
        self._services = services
        self._context = context
        self._request = request
        self._member = member
        self._session = session
        self._settings = services.share_leader.settings_of(member.group_id)
        self._max_bytes = min(request.max_bytes, services.config.fetch_max_bytes)
        self._is_counted = services.quotas.limits_fetches
        if self._is_counted:
            self._max_bytes = services.quotas.most_fetched_bytes(*context.client, self._max_bytes)
        # More than fits is never there: nobody waits for it.
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._places = session.rotated()
        # Errors of the last look, and later the records, by partition.
        self._results: dict[Place, PartitionData] = {}
        # The partitions of the next look: all at first, and then those that were woken since the last one.
        self._wanted: dict[Place, None] = dict.fromkeys(self._places)
        self._seen_wakes = 0
        # What there is to acquire.
        self._looks: dict[Place, _Look] = {}
        # Whether the session has ended.
        self._is_over = False
        # What a wake may bring news of, and under how many of these the request is parked.
        self._watched: dict[Hashable, Place] = {}
        self._parked_under = 0
        # What the last look did not find in memory, and what threads have read since the last wake.
        self._cold: dict[Place, tuple[Partition, Wanted]] = {}
        self._disk_reads: dict[Place, tuple[int, LogBatches | KafkaError | None]] = {}

    async def respond(self) -> ShareFetchResponse | LargeResponse[ShareFetchResponse]:
        """Return the response."""
        request = self._request
        begun = await begin(self._services, self._context, self._member, request.topics, request.is_renew_ack)
        is_final = request.share_session_epoch == FINAL_EPOCH
        # What the member has still to wait for what it got before.
        delay_ms = self._services.quotas.delivered(*self._context.client, 0) if self._is_counted else 0
        if not is_final and request.max_records > 0 and self._max_bytes > 0 and not delay_ms:
            # While the acknowledgements are written: what the member releases is for others.
            await self._fetch()
        results = await begun.written()
        if is_final:
            await asyncio.shield(self._services.share_leader.sessions.end(self._session))
        if self._is_counted and not delay_ms:
            size = sum(len(data.records or b"") for data in self._results.values())
            delay_ms = self._services.quotas.delivered(*self._context.client, size)
        response = ShareFetchResponse(acquisition_lock_timeout_ms=self._settings.limits.lock_ms)
        self._context.throttle(response, delay_ms)
        steps = self._fill(response, results, has_news=not is_final and not request.is_renew_ack)
        return fill(response, steps, len(self._places))

    @property
    def _most_watched(self) -> int:
        """How much a session may watch: a partition and its actor each, and what has gone since it looked at all."""
        return 4 * len(self._places) + MIN_GONE

    # -- When to respond ---------------------------------------------------------------------------------

    async def _fetch(self) -> None:
        """Acquire records once there are enough, or `max_wait_ms` have passed."""
        clock, purgatory = self._services.clock, self._services.purgatory
        deadline_ms = clock.monotonic_ms() + self._request.max_wait_ms
        versions = self._services.topics.change_count, self._context.acl_changes, self._settings
        self._recall(versions)
        while True:
            await keeper().finish(self._look())
            if self._cold:
                # Each round reads what no other has read since the last wake.
                await self._read_cold()
                continue
            time_ms = deadline_ms - clock.monotonic_ms()
            if self._is_enough() or time_ms <= 0:
                # Nothing may come of it: as in Kafka, where all that was found belongs to aborted transactions.
                await keeper().finish(self._acquire())
                break
            self._disk_reads.clear()
            # A partition may get its records behind the look, between two turns.
            if self._note_changes():
                continue
            self._parked_under = len(self._watched)
            if await purgatory.park(self._watched, time_ms, self._look_again):
                break
        unsettled = dict.fromkeys([*self._wanted, *self._looks, *self._results])
        self._session.seen = Seen(versions, self._seen_wakes, self._watched, unsettled)

    def _recall(self, versions: object) -> None:
        """Want a look at what has changed since the session's last request; at all where that is not known."""
        seen, self._session.seen = self._session.seen, None
        self._seen_wakes = self._services.purgatory.wakes
        if seen is not None and seen.versions == versions and len(seen.watched) <= self._most_watched:
            self._seen_wakes, self._watched, self._wanted = seen.wakes, seen.watched, seen.unsettled
            self._note_changes()

    def _is_enough(self) -> bool:
        """Return whether there is enough to acquire, or waiting is useless."""
        found = sum(look.batches.size for look in self._looks.values())
        failed = self._results.values()
        is_over = self._is_over or len(failed) == len(self._places)
        return found >= max(self._min_bytes, 1) or is_over or any(each.error_code not in _PATIENT for each in failed)

    def _look_again(self, expired: bool) -> bool | None:
        """Look at what was woken, at once. Return whether that was answer enough; None: wait on."""
        self._note_changes()
        if expired or len(self._wanted) > PARTITIONS_AT_ONCE:
            return False
        for _ in self._look():
            pass
        if self._cold or len(self._watched) > self._parked_under:
            return False
        if not self._is_enough():
            self._disk_reads.clear()
            return None
        for _ in self._acquire():
            pass
        return True

    def _note_changes(self) -> bool:
        """Want another look at the partitions that were woken; return whether there are any."""
        purgatory = self._services.purgatory
        changed = purgatory.changed_since(self._seen_wakes)
        self._seen_wakes = purgatory.wakes
        woken = self._places if changed is None else [self._watched[key] for key in changed if key in self._watched]
        self._wanted.update(dict.fromkeys(woken))
        return bool(woken)

    async def _read_cold(self) -> None:
        """Have threads read what the last look did not find in memory."""
        threads, disk = self._services.threads, self._services.disk
        cold = dict(self._cold)
        found = await read_each(read_cold(partition, wanted, threads, disk) for partition, wanted in cold.values())
        for (place, (_, wanted)), batches in zip(cold.items(), found, strict=True):
            self._disk_reads[place] = wanted.offset, batches

    # -- Look at the partitions --------------------------------------------------------------------------

    def _look(self) -> Iterator[None]:
        """Look at the partitions that are wanted, with those that have something or may appear."""
        self._wanted.update(dict.fromkeys([*self._looks, *self._results]))
        places, self._wanted = [each for each in self._places if each in self._wanted], {}
        self._looks.clear()
        self._results.clear()
        self._cold.clear()
        ready: list[tuple[Place, SharePartitionActor, SharePartition]] = []
        for place in places:
            if not self._has_session():
                self._is_over = True
                return
            try:
                found = self._find(place)
                if found is not None:
                    ready.append((place, *found))
            except KafkaError as error:
                self._note_error(place, error)
                # One of a topic that is gone, or that another broker leads, has nothing to do any more.
                self._services.share_leader.partitions.find(self._member.group_id, place)
            yield
        yield from self._read(ready)
        self._wanted.update(dict.fromkeys(self._cold))

    def _has_session(self) -> bool:
        """Return whether the session goes on: after its end nobody gives back what is opened or acquired for it."""
        return self._services.share_leader.sessions.is_open(self._session)

    def _find(self, place: Place) -> tuple[SharePartitionActor, SharePartition] | None:
        """Return the actor of a partition; None where it gives no records now. Raises KafkaError."""
        services, group_id = self._services, self._member.group_id
        topic = services.topics.by_id(place[0])
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        if not self._context.may(Operation.READ, ResourceType.TOPIC, topic.name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = services.share_leader.partitions.partition(place)
        actor = services.share_leader.partitions.open(group_id, place, partition)
        if actor.failure is not None:
            services.share_leader.partitions.drop(actor)
            raise actor.failure
        self._watched[partition] = self._watched[actor] = place
        machine = actor.acquirable(self._settings)
        return None if machine is None else (actor, machine)

    def _read(self, ready: list[tuple[Place, SharePartitionActor, SharePartition]]) -> Iterator[None]:
        """Find the batches of the partitions that have any, each an equal part of `max_bytes`."""
        got_bytes = 0
        part = max(self._max_bytes // max(len(ready), 1), 1)
        for place, actor, machine in ready:
            try:
                look = self._read_one(place, actor, machine, part, minimum_one=not got_bytes)
            except KafkaError as error:
                self._note_error(place, error)
                if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                    # The log has lost its end: the state is loaded again, without what is lost.
                    self._services.share_leader.partitions.drop(actor)
                continue
            if look is not None:
                self._looks[place] = look
                got_bytes += look.batches.size
            elif actor.partition.end_for(self._settings.isolation_level) > machine.next_fetch_offset():
                # It has records, but its batch did not fit beside those of others: nothing will wake it.
                self._wanted[place] = None
            yield

    def _read_one(
        self, place: Place, actor: SharePartitionActor, machine: SharePartition, max_bytes: int, minimum_one: bool
    ) -> _Look | None:
        offset = machine.next_fetch_offset()
        reach = machine.reach(self._request.max_records, self._settings.limits)
        known = self._disk_reads.get(place)
        if known is not None and known[0] == offset:
            batches = known[1]
            if isinstance(batches, KafkaError):
                raise batches
        else:
            wanted = Wanted(offset, reach, max_bytes, minimum_one, self._settings.isolation_level)
            try:
                batches = read_cached(actor.partition, wanted)
            except NotCached:
                self._cold[place] = actor.partition, wanted
                return None
        return None if batches is None else _Look(place, actor, offset, batches)

    def _acquire(self) -> Iterator[None]:
        """Acquire what was found."""
        request, left = self._request, self._request.max_records
        for look in self._looks.values():
            if left <= 0 or not self._has_session():
                return
            if look.place not in self._session.partitions:
                # Nobody would give back what is acquired of it.
                continue
            wish = Wish(self._member.member_id, left, request.batch_size, request.share_acquire_mode == RECORD_LIMIT)
            try:
                acquired = look.actor.acquire(wish, look.offset, look.batches.spans, self._settings)
            except KafkaError as error:
                self._note_error(look.place, error)
                continue
            if acquired:
                records = look.batches.of(acquired[0].first, acquired[-1].last)
                look.actor.partition.bytes_out += records.size
                acquired_records = [AcquiredRecords(*each) for each in acquired]
                self._results[look.place] = PartitionData(
                    look.place[1], records=records, acquired_records=acquired_records
                )
                left -= sum(each.last - each.first + 1 for each in acquired)
            yield

    def _note_error(self, place: Place, error: KafkaError) -> None:
        data = PartitionData(place[1], int(error.code), error.message, records=_NO_RECORDS)
        self._results[place] = data

    # -- The response ------------------------------------------------------------------------------------

    def _fill(
        self, response: ShareFetchResponse, acknowledged: dict[Place, KafkaError | None], has_news: bool
    ) -> Iterator[None]:
        """Fill the response: what is new to the member, and how its acknowledgements ended. A partition a step."""
        session = self._session
        topics: dict[bytes, ShareFetchableTopicResponse] = {}
        for place in dict.fromkeys([*self._places, *acknowledged]):
            yield
            data = self._results.get(place)
            is_news = has_news and session.partitions.get(place, False)
            if data is None and not is_news and place not in acknowledged:
                continue
            if is_news:
                session.partitions[place] = False
            data = data or PartitionData(place[1], records=_NO_RECORDS)
            error = acknowledged.get(place)
            if error is not None:
                data.acknowledge_error_code, data.acknowledge_error_message = int(error.code), error.message
            if NOT_LEADER in (data.error_code, data.acknowledge_error_code):
                data.current_leader = leader_of(
                    self._services, self._context, place, response, LeaderIdAndEpoch, NodeEndpoint
                )
            if place[0] not in topics:
                topics[place[0]] = ShareFetchableTopicResponse(place[0], [])
                response.responses.append(topics[place[0]])
            topics[place[0]].partitions.append(data)
