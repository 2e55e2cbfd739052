"""Fetch, API key 1: batches from partitions, as the files hold them.

Versions 0 and 1 answer with messages of magic 0, 2 and 3 of magic 1, converted from the stored batches (conversion.py).
3 brought a limit over all partitions, 4 isolation levels and record batches (v2), 5 the log start offset, 7 sessions,
9 leader epochs, 12 the last fetched epoch, 13 topic ids, 15 moved the replica's id into a tag.

One walk reads every partition of the request. The response goes out at once if the walk finds `min_bytes`, or an error
that ends the wait. Otherwise the request waits in the purgatory under its partitions, at most `max_wait_ms`, and each
wake walks again. The first batch of the first partition that has any is sent even where it exceeds every limit
(KIP-74), before version 3 that of every partition. The response holds ranges of files: no batch is copied here.

Where a partition's data are not in memory a thread finds them, and the request waits for that whatever `max_wait_ms`
is. A request from the purgatory does not: it is answered with what is in memory, and the client's next one is read
from disk.

A request of thousands of partitions walks over a part of them a turn of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ...protocol.primitives import ZERO_UUID
from ...storage.files import FileRange, NotCached
from ...storage.log_view import LogView
from ...storage.segments.location import Location
from ..configs.server_table import RACK_AWARE_SELECTOR
from ..network.request import RequestContext
from ..security.acls import CLUSTER_NAME, Operation, ResourceType
from ..topics.disk_reads import read_each, read_from_disk
from ..topics.fetch_sessions import FINAL_EPOCH, FetchedPartition, FetchSession, Key
from ..topics.partition import Partition
from ..topics.partition_state import NO_LEADER_EPOCH, READ_COMMITTED, READ_TO_END
from ..turns import LargeResponse, keeper
from .reachable_brokers import current_leader, tell_address

if TYPE_CHECKING:
    from ...storage.segments.transaction_index import AbortedTransaction as Aborted
    from ..services import Services

# The first version with a limit over all partitions, with record batches, with sessions, with topic ids.
FIRST_WITH_MAX_BYTES = 3
FIRST_WITH_RECORD_BATCHES = 4
FIRST_WITH_SESSIONS = 7
# From this version on a consumer may read from a follower, too (KIP-392).
FIRST_WITH_FOLLOWER_READS = 11
FIRST_WITH_IDS = 13
FIRST_WITH_LEADERS = 16
NO_REPLICA = -1
# Python 3.11 takes a tenth of a microsecond to look up a member of an enum: a percent of a small fetch.
_READ, _TOPIC = Operation.READ, ResourceType.TOPIC
_NO_RECORDS = b""
# The codec knows its own default without a comparison of fields.
_NO_EPOCH = PartitionData().diverging_epoch
# A request for more partitions is answered by a task, which reads them in slices.
AT_ONCE = 250
# And it looks at the clock after each so many: some 10 microseconds each.
_STEP = 50
# The client takes another broker for the leader, or an older leader.
_OTHER_LEADER = frozenset({int(ErrorCode.NOT_LEADER_OR_FOLLOWER), int(ErrorCode.FENCED_LEADER_EPOCH)})
# These errors do not end the wait: the partition may appear, and the client asks for new metadata anyway.
_PATIENT = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
# Errors of a partition that the broker does not look at.
_NOT_LOOKED_AT = frozenset({*_PATIENT, ErrorCode.TOPIC_AUTHORIZATION_FAILED})


def handle(
    services: Services, context: RequestContext, request: FetchRequest
) -> FetchResponse | asyncio.Future[FetchResponse] | asyncio.Future[_Response]:
    """Respond at once, or park the request."""
    version = context.api_version
    partitions: Collection[FetchedPartition]
    partitions, forgotten = _partitions(services, context, request)
    session: FetchSession | None = None
    has_session = request.session_id != 0 or request.session_epoch != FINAL_EPOCH
    if version >= FIRST_WITH_SESSIONS and has_session:
        session = services.fetch_sessions.resolve(request, partitions, forgotten, version >= FIRST_WITH_IDS)
    if session is not None:
        # A view: to copy 5,000 of them would take most of the time of a fetch that finds one change.
        partitions = session.partitions.values()
    elif len(partitions) > 1:
        # A partition that comes twice is read once, as it is named last (a session sees to that itself).
        partitions = list({each.key: each for each in partitions}.values())
    fetch = _Fetch(services, request, session, partitions, context)
    response = fetch.respond()
    if version < FIRST_WITH_RECORD_BATCHES:
        return asyncio.ensure_future(fetch.convert(response))
    return response


def _partitions(
    services: Services, context: RequestContext, request: FetchRequest
) -> tuple[list[FetchedPartition], list[Key]]:
    """Return the partitions that a request fetches and forgets. A topic that goes by id gets the name it has here."""
    by_id = context.api_version >= FIRST_WITH_IDS
    fetched: list[FetchedPartition] = []
    for topic in request.topics:
        topic_id = topic.topic_id
        name = _name_of(services, topic_id) if by_id else topic.topic
        for each in topic.partitions:
            fetched.append(
                FetchedPartition(
                    name,
                    topic_id,
                    each.partition,
                    each.fetch_offset,
                    each.partition_max_bytes,
                    each.current_leader_epoch,
                    each.last_fetched_epoch,
                    each.log_start_offset,
                )
            )
    forgotten: list[Key] = []
    for topic in request.forgotten_topics_data:
        name = _name_of(services, topic.topic_id) if by_id else topic.topic
        forgotten += [(name, topic.topic_id, partition) for partition in topic.partitions]
    return fetched, forgotten


def _name_of(services: Services, topic_id: bytes) -> str:
    topic = services.topics.by_id(topic_id)
    return topic.name if topic is not None else ""


_Response = FetchResponse | LargeResponse[FetchResponse]
# A partition of the request, where it was found, and its part of the response.
_Result = tuple[FetchedPartition, Partition | ErrorCode, PartitionData]


class _DiskRead(NamedTuple):
    """Where a partition's data begin, if there are any, and the aborted transactions that reach into them."""

    location: Location | None
    aborted: list[Aborted]


class _Walk:
    """What a walk over the partitions has found."""

    __slots__ = ("any_exists", "got_bytes", "is_complete", "results")

    def __init__(self) -> None:
        self.results: list[_Result] = []
        self.got_bytes = 0
        self.is_complete = False
        self.any_exists = False

    def is_over(self, min_bytes: int) -> bool:
        """Return whether there is nothing more to wait for. If no partition exists, waiting is useless."""
        return self.is_complete or not self.any_exists or self.got_bytes >= min_bytes


class _Fetch:
    """One fetch request until it is answered."""

    # The results of the last walk, in the order of the response.
    _results: list[_Result]
    # Whether the last walk was allowed to a follower.
    _may_follow: bool

    def __init__(
        self,
        services: Services,
        request: FetchRequest,
        session: FetchSession | None,
        partitions: Collection[FetchedPartition],
        context: RequestContext,
    ) -> None:
        self._services = services
        self._context = context
        self._request = request
        self._version = version = context.api_version
        self._session = session
        self._incremental = session is not None and request.session_epoch > 0
        self._partitions = partitions
        # Negative for a consumer.
        self._replica_id = replica_id = request.replica_state.replica_id if version >= 15 else request.replica_id
        # A follower reads what is not committed yet, and all of it, whatever transactions it belongs to.
        self._isolation_level = READ_TO_END if replica_id >= 0 else request.isolation_level
        # Whether a leader may send this consumer to a follower (KIP-392).
        selector = services.config.replica_selector_class
        self._wants_rack = selector == RACK_AWARE_SELECTOR and bool(request.rack_id) and replica_id < 0
        # Whether partitions that have nothing new for the client are not even looked at, instead of 10 us each. In a
        # cluster a partition may be replaced, and what a follower asks for is noted for each.
        self._passes_settled = self._incremental and services.replicas is None and not self._wants_rack
        # The positions of a follower are noted once, not at each walk.
        self._is_noted = False
        max_bytes = min(request.max_bytes, services.config.fetch_max_bytes)
        # Whether what is sent is counted: followers have a throttle of their own.
        self._is_counted = services.quotas.limits_fetches and replica_id < 0
        if self._is_counted:
            max_bytes = services.quotas.most_fetched_bytes(*context.client, max_bytes)
        self._max_bytes = max_bytes
        # More than fits is never there: nobody waits for it.
        self._min_bytes = min(request.min_bytes, max_bytes)
        # Clients that cannot limit the total fetch their partitions in the same order for ever: none may starve.
        self._one_each = version < FIRST_WITH_MAX_BYTES
        # Partitions whose data the last walk did not find in memory.
        self._cold: dict[Partition, FetchedPartition] = {}
        # The reads of threads since the request came, or their errors.
        self._disk_reads: dict[Partition, _DiskRead | KafkaError] = {}

    # -- When to respond -------------------------------------------------------------------------------

    def respond(self) -> FetchResponse | asyncio.Future[FetchResponse] | asyncio.Future[_Response]:
        """Return the response, now or later."""
        news, max_wait_ms = self._news(), self._request.max_wait_ms
        if len(news) <= AT_ONCE:
            is_complete = self._walk(news)
            if not self._cold:
                if is_complete or max_wait_ms <= 0:
                    return self._response()
                return self._services.purgatory.park(self._found(), max_wait_ms, self._attempt)
        return asyncio.ensure_future(self._respond_later(news))

    def _attempt(self, expired: bool) -> FetchResponse | None:
        """Return the response, or None while it is worth waiting."""
        return self._response() if self._walk(self._news()) or expired or self._cold else None

    async def _respond_later(self, news: list[FetchedPartition]) -> _Response:
        """Return the response of a request that one turn cannot answer: it is wide, or its data are on disk only.

        Read from disk, walk, then wait for a wake or the deadline, and so on.
        """
        clock, purgatory = self._services.clock, self._services.purgatory
        deadline_ms = clock.monotonic_ms() + self._request.max_wait_ms
        is_woken = expired = False
        while True:
            # Each round reads partitions that no other has read: there are at most as many rounds as partitions.
            if self._cold and not is_woken:
                await self._read_cold()
                news = self._news()
            seen_wakes = purgatory.wakes
            is_complete = await self._walk_in_turns(news)
            if self._cold and not is_woken:
                continue
            time_ms = deadline_ms - clock.monotonic_ms()
            if is_complete or self._cold or expired or time_ms <= 0:
                response = self._response()
                return LargeResponse(response, iter(())) if len(self._results) > AT_ONCE else response
            found = self._found()
            # A partition may get its data behind the walk, between two turns.
            changed = purgatory.changed_since(seen_wakes)
            if changed is not None and set(found).isdisjoint(changed):
                # When it is woken there may be more.
                self._disk_reads.clear()
                expired, is_woken = await purgatory.park(found, time_ms, bool), True
            news = self._news()

    async def convert(
        self, response: FetchResponse | asyncio.Future[FetchResponse] | asyncio.Future[_Response]
    ) -> _Response:
        """Return the response in the format of clients before Kafka 0.11."""
        made = await response if isinstance(response, asyncio.Future) else response
        results = [(each, found, data) for each, found, data in self._results if isinstance(found, Partition)]
        await self._services.conversions.convert_fetched(results, self._version, self._max_bytes)
        return made

    def _found(self) -> list[Partition]:
        """Return every partition that may have news: those of the last walk, and those that it passed over."""
        walked = [found for _, found, _ in self._results if isinstance(found, Partition)]
        if self._session is None or not self._passes_settled:
            return walked
        return list(dict.fromkeys([*walked, *self._session.settled]))

    async def _read_cold(self) -> None:
        """Have threads read what the last walk did not find in memory."""
        cold = dict(self._cold)
        found = await read_each(self._read_from_disk(*each) for each in cold.items())
        self._disk_reads.update(zip(cold, found, strict=True))

    async def _read_from_disk(self, partition: Partition, each: FetchedPartition) -> _DiskRead:
        offset, isolation_level = each.fetch_offset, self._isolation_level
        up_to = partition.end_for(isolation_level)

        def read(view: LogView) -> _DiskRead:
            location = view.locate(offset, up_to)
            if location is None or isolation_level != READ_COMMITTED:
                return _DiskRead(location, [])
            records = location.range(each.max_bytes, minimum_one=True, disk=self._services.disk)
            return _DiskRead(location, view.aborted_transactions(offset, records, up_to))

        return await read_from_disk(partition, read, self._services.threads)

    # -- The walk over the partitions ------------------------------------------------------------------

    def _walk(self, news: list[FetchedPartition]) -> bool:
        """Read the partitions of `_news`; return whether there is nothing more to wait for."""
        walk = self._begin(news)
        self._walk_over(news, walk)
        if self._replica_id >= 0:
            self._note_follower()
        return walk.is_over(self._min_bytes)

    async def _walk_in_turns(self, news: list[FetchedPartition]) -> bool:
        """Do the same, a part of the partitions a turn of the event loop."""
        walk = self._begin(news)
        for start in range(0, len(news), _STEP):
            self._walk_over(news[start : start + _STEP], walk)
            await keeper().pause()
        if self._replica_id >= 0:
            self._note_follower()
        return walk.is_over(self._min_bytes)

    def _news(self) -> list[FetchedPartition]:
        """Return the partitions that may have something new for the client."""
        session, purgatory = self._session, self._services.purgatory
        if session is None or not self._passes_settled:
            return list(self._partitions)
        changed = purgatory.changed_since(session.seen_wakes)
        session.seen_wakes = purgatory.wakes
        if session.seen_acl_changes != self._context.acl_changes:
            # What the client could read may be denied now, also where nothing is new.
            session.seen_acl_changes = self._context.acl_changes
            changed = None
        return session.news(changed)

    def _begin(self, news: list[FetchedPartition]) -> _Walk:
        walk = _Walk()
        if self._replica_id >= 0:
            # A follower needs the right of a broker, for all partitions alike.
            self._may_follow = self._context.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
        # Partitions that are passed over exist.
        walk.any_exists = len(news) < len(self._partitions)
        self._cold.clear()
        self._results = walk.results
        return walk

    def _walk_over(self, partitions: list[FetchedPartition], walk: _Walk) -> None:
        results, got_bytes = walk.results, walk.got_bytes
        for each in partitions:
            found = self._find(each)
            room = self._max_bytes - got_bytes
            data = self._read(each, found, room, minimum_one=got_bytes == 0 or (self._one_each and room > 0))
            results.append((each, found, data))
            if self._session is not None and self._passes_settled:
                self._session.settle(each, found if isinstance(found, Partition) else None, data)
            if data.error_code == 0:
                walk.any_exists = True
                if isinstance(data.records, FileRange):
                    got_bytes += data.records.size
                moved = data.diverging_epoch.epoch >= 0 or data.preferred_read_replica >= 0
                walk.is_complete = walk.is_complete or moved
            elif data.error_code not in _PATIENT:
                walk.is_complete = True
        walk.got_bytes = got_bytes

    def _find(self, each: FetchedPartition) -> Partition | ErrorCode:
        topics = self._services.topics
        by_name = each.topic_id == ZERO_UUID
        topic = topics.get(each.topic) if by_name else topics.by_id(each.topic_id)
        if topic is None:
            return self._error_of_unknown_name(each) if by_name else self._error_of_unknown_id(each)
        if not (self._context.may(_READ, _TOPIC, topic.name) if self._replica_id < 0 else self._may_follow):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return topic.partition(each.partition) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _error_of_unknown_name(self, each: FetchedPartition) -> ErrorCode:
        """Return the error for a name that no topic has. A client that may not see it does not learn that."""
        if self._version >= FIRST_WITH_IDS:
            return ErrorCode.UNKNOWN_TOPIC_ID
        may = self._context.may(_READ, _TOPIC, each.topic) if self._replica_id < 0 else self._may_follow
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if may else ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def _error_of_unknown_id(self, each: FetchedPartition) -> ErrorCode:
        """Return the error for a topic id that no topic has.

        A session that began while the topic existed knows its name, and learns what became of it. A topic that was
        created again has another id; its records are not for a reader of the old one.
        """
        if not each.topic:
            return ErrorCode.UNKNOWN_TOPIC_ID
        topic = self._services.topics.get(each.topic)
        exists_again = topic is not None and topic.partition(each.partition) is not None
        return ErrorCode.INCONSISTENT_TOPIC_ID if exists_again else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _read(
        self, each: FetchedPartition, partition: Partition | ErrorCode, room: int, minimum_one: bool
    ) -> PartitionData:
        if isinstance(partition, ErrorCode):
            # As in Kafka: an empty list of aborted transactions here, null where the partition itself has the error.
            return _error_data(each, partition, aborted_transactions=[] if partition in _NOT_LOOKED_AT else None)
        isolation_level = self._isolation_level
        records: FileRange | None = None
        aborted: list[AbortedTransaction] | None = [] if isolation_level == READ_COMMITTED else None
        diverging: tuple[int, int] | None = None
        reader: int | None = None
        try:
            # Of a Fetch alone Kafka takes every number below 0 for "knows none".
            partition.check_epoch(max(each.current_leader_epoch, NO_LEADER_EPOCH))
            if self._replica_id >= 0:
                self._check_follower(partition, each)
            elif partition.not_leading is not None and self._version < FIRST_WITH_FOLLOWER_READS:
                partition.check_leading()
            if each.last_fetched_epoch >= 0:
                diverging = partition.diverging_epoch(each.fetch_offset, each.last_fetched_epoch)
                aborted = None if diverging is not None else aborted
            limit = min(each.max_bytes, room)
            reader = self._preferred_reader(partition, each) if self._wants_rack else None
            if reader is not None or (self._replica_id >= 0 and self._is_throttled(partition)):
                limit, minimum_one = 0, False
            if diverging is None and (limit > 0 or minimum_one):
                records, found = self._records(partition, each, max(limit, 0), minimum_one)
                if aborted is not None:
                    aborted = [AbortedTransaction(one.producer_id, one.first_offset) for one in found]
            elif diverging is None and reader is None:
                # There is no room for records, but a client that is lost must not wait for room to learn it.
                partition.log.check_offset(each.fetch_offset)
        except NotCached:
            self._cold[partition] = each
        except KafkaError as error:
            return _error_data(each, error.code)
        # Most by position: each argument with a name is an entry of a dict.
        return PartitionData(
            each.partition,
            0,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log.log_start_offset,
            _NO_EPOCH if diverging is None else EpochEndOffset(*diverging),
            aborted_transactions=aborted,
            preferred_read_replica=reader if reader is not None else NO_REPLICA,
            records=records if records is not None else _NO_RECORDS,
        )

    def _preferred_reader(self, partition: Partition, each: FetchedPartition) -> int | None:
        """Return the follower in the consumer's rack, if this broker leads and is in another one."""
        if partition.replication is None:
            return None
        return partition.replication.reader_in_rack(self._request.rack_id, each.fetch_offset)

    def _is_throttled(self, partition: Partition) -> bool:
        """Return whether this follower gets no records of a partition now."""
        return partition.replication is not None and partition.replication.is_throttled(self._replica_id)

    def _check_follower(self, partition: Partition, each: FetchedPartition) -> None:
        """Raise NOT_LEADER_OR_FOLLOWER, also for a broker that is not among the replicas.

        As in Kafka it is UNKNOWN_LEADER_EPOCH for one that names the epoch: it may only be ahead, and asks again.
        """
        partition.check_leading()
        if partition.replication is None or not partition.replication.is_followed_by(self._replica_id):
            knows = each.current_leader_epoch >= 0
            code = ErrorCode.UNKNOWN_LEADER_EPOCH if knows else ErrorCode.NOT_LEADER_OR_FOLLOWER
            raise KafkaError(code, f"broker {self._replica_id} is not among the replicas")

    def _note_follower(self) -> None:
        """Tell the partitions what the follower has: everything below the offsets that it fetches."""
        if self._is_noted:
            return
        self._is_noted = True
        broker_epoch = self._request.replica_state.replica_epoch
        for each, found, data in self._results:
            if not isinstance(found, Partition) or data.error_code or data.diverging_epoch.epoch >= 0:
                continue
            if found.replication is not None:
                found.replication.note_fetch(self._replica_id, each.fetch_offset, broker_epoch, each.follower_log_start)
                # The follower learns from this response already what its own fetch has committed.
                data.high_watermark = found.high_watermark

    def _records(
        self, partition: Partition, each: FetchedPartition, limit: int, minimum_one: bool
    ) -> tuple[FileRange | None, Sequence[Aborted]]:
        """Return the bytes of a partition for the request, and the aborted transactions in them. Raises NotCached."""
        offset, isolation_level = each.fetch_offset, self._isolation_level
        known = self._disk_reads.get(partition)
        if isinstance(known, KafkaError):
            raise known
        if known is not None and known.location is None:
            return None, ()
        located = known.location if known is not None else None
        records = partition.read(offset, limit, isolation_level, minimum_one, cached=True, located=located)
        if records is None or isolation_level != READ_COMMITTED:
            return records, ()
        found = known.aborted if known is not None else partition.aborted_transactions(offset, records, cached=True)
        return records, found

    # -- The response ----------------------------------------------------------------------------------

    def _response(self) -> FetchResponse:
        """Return the response with what the last walk found; in a session only with what is new to the client."""
        if self._is_counted and (delay_ms := self._quota_delay_ms()):
            return self._held_back(delay_ms)
        session = self._session
        response = FetchResponse(0, 0, session.id if session is not None else 0)
        last: FetchableTopicResponse | None = None
        for each, found, data in self._results:
            if isinstance(data.records, FileRange) and isinstance(found, Partition):
                if self._replica_id < 0:
                    found.bytes_out += data.records.size
                elif found.replication is not None:
                    found.replication.note_sent(data.records.size)
            if session is not None:
                is_news = each.note(data)
                if self._incremental:
                    if not is_news:
                        continue
                    if data.records:
                        session.move_to_end(each.key)
            if last is None or last.topic != each.topic or last.topic_id != each.topic_id:
                last = FetchableTopicResponse(each.topic, each.topic_id, [])
                response.responses.append(last)
            last.partitions.append(data)
            if data.error_code and data.error_code in _OTHER_LEADER and isinstance(found, Partition):
                self._tell_leader(found, data, response)
        return response

    def _quota_delay_ms(self) -> int:
        """Return how long the client waits before it may get what the last walk found."""
        size = sum(data.records.size for _, _, data in self._results if isinstance(data.records, FileRange))
        return self._services.quotas.fetches(*self._context.client, size)

    def _held_back(self, delay_ms: int) -> FetchResponse:
        """Return the response of a client that is over its quota: nothing, and when to ask again."""
        self._results = []
        response = FetchResponse()
        if self._session is not None and self._incremental:
            response.session_id = self._session.id
        elif self._session is not None:
            # The client takes a full response without its partitions for none.
            self._services.fetch_sessions.drop(self._session.id)
        self._context.throttle(response, delay_ms)
        return response

    def _tell_leader(self, partition: Partition, data: PartitionData, response: FetchResponse) -> None:
        if self._version >= FIRST_WITH_LEADERS:
            leader, epoch = current_leader(self._services, partition.topic, partition.index)
            data.current_leader = LeaderIdAndEpoch(leader, epoch)
            if self._replica_id < 0:
                tell_address(self._services, self._context, leader, response.node_endpoints, NodeEndpoint)


def _error_data(
    each: FetchedPartition, code: ErrorCode, aborted_transactions: list[AbortedTransaction] | None = None
) -> PartitionData:
    return PartitionData(
        partition_index=each.partition,
        error_code=int(code),
        high_watermark=-1,
        aborted_transactions=aborted_transactions,
        records=_NO_RECORDS,
    )
