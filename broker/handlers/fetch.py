"""Fetch, API key 1: batches from partitions, as the files hold them.

Versions 0 and 1 answer with messages of magic 0, 2 and 3 of magic 1, made of the batches that are stored
(conversion.py); 3 brought a limit over all partitions, 4 isolation levels and record batches (v2), 5 the log start
offset, 7 sessions, 9 leader epochs, 12 the last fetched epoch, 13 topic ids, 15 moved the replica's id into a tag.

The answer comes at once if there are `min_bytes`, or an error that ends the wait; otherwise the request is parked under
its partitions until there are, or `max_wait_ms` have passed. The first batch of the first partition that has any is
sent even where it is larger than every limit (KIP-74), and before version 3 that of every partition. No bytes of
batches are copied here: what is sent are ranges of files.

Where the disk must be asked what lies where, a thread asks it, and the request waits for that whatever `max_wait_ms`
is. One that was parked already is answered at once with what there is: the client's next one is looked up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ...protocol.primitives import ZERO_UUID
from ...storage.files import FileRange, NotCached
from ...storage.log_view import Location, LogView
from ..network.request import RequestContext
from ..topics.disk_reads import look_up
from ..topics.fetch_sessions import FetchSession, Key, Wanted
from ..topics.partition import READ_COMMITTED, Partition

if TYPE_CHECKING:
    from ...storage.segments.transaction_index import AbortedTransaction as Aborted
    from ..services import Services

FIRST_WITH_MAX_BYTES = 3
FIRST_WITH_BATCHES = 4
FIRST_WITH_IDS = 13
_NO_RECORDS = b""
_NO_EPOCH = EpochEndOffset()
# These do not end the wait: the partition may appear, and the client asks for new metadata anyway.
_PATIENT = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


def handle(
    services: Services, context: RequestContext, request: FetchRequest
) -> FetchResponse | asyncio.Future[FetchResponse]:
    """Answers at once, or parks the request."""
    version = context.api_version
    wanted, forgotten = _read(services, context, request)
    session: FetchSession | None = None
    if context.api_version >= 7:
        session = services.fetch_sessions.resolve(request, wanted, forgotten, context.api_version >= 13)
    if session is None and len(wanted) > 1:
        # A partition that comes twice is read once, as asked for last (a session sees to that itself).
        wanted = list({each.key: each for each in wanted}.values())
    fetch = _Fetch(services, request, session, wanted, _replica_id(request, version) >= 0, version)
    response = fetch.answer()
    if version < FIRST_WITH_BATCHES:
        return asyncio.ensure_future(fetch.message_sets(response, version))
    return response


def _replica_id(request: FetchRequest, version: int) -> int:
    """Negative for a consumer."""
    return request.replica_state.replica_id if version >= 15 else request.replica_id


def _read(services: Services, context: RequestContext, request: FetchRequest) -> tuple[list[Wanted], list[Key]]:
    """The request's partitions under both names: a topic that goes by id gets the name that it has here, if any."""
    by_id = context.api_version >= FIRST_WITH_IDS

    def name(topic_name: str, topic_id: bytes) -> str:
        if not by_id:
            return topic_name
        topic = services.topics.by_id(topic_id)
        return topic.name if topic is not None else ""

    wanted = [
        Wanted(
            name(topic.topic, topic.topic_id),
            topic.topic_id,
            each.partition,
            each.fetch_offset,
            each.partition_max_bytes,
            each.current_leader_epoch,
            each.last_fetched_epoch,
        )
        for topic in request.topics
        for each in topic.partitions
    ]
    forgotten = [
        (name(topic.topic, topic.topic_id), topic.topic_id, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    return wanted, forgotten


class _LookedUp(NamedTuple):
    """Where a partition's answer begins, if there is one, and the aborted transactions that reach into it."""

    location: Location | None
    aborted: list[Aborted]


class _Fetch:
    """One fetch request while it is being answered; asked again each time one of its partitions has news."""

    def __init__(
        self,
        services: Services,
        request: FetchRequest,
        session: FetchSession | None,
        wanted: list[Wanted],
        is_follower: bool,
        version: int,
    ) -> None:
        self._services = services
        self._request = request
        self._session = session
        self._is_follower = is_follower
        self._incremental = session is not None and request.session_epoch > 0
        self.wanted = list(session.wanted.values()) if session is not None else wanted
        self._by_id = version >= FIRST_WITH_IDS
        self._max_bytes = min(request.max_bytes, services.config.fetch_max_bytes)
        # More than fits is never there: nobody waits for it.
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        # What threads have looked up, and what they have yet to.
        self._looked_up: dict[Partition, _LookedUp | KafkaError] = {}
        self._cold: dict[Partition, Wanted] = {}
        # Clients that cannot say how much they take together ask in the same order for ever: none may starve.
        self._one_each = version < FIRST_WITH_MAX_BYTES

    def message_sets(
        self, response: FetchResponse | asyncio.Future[FetchResponse], version: int
    ) -> Coroutine[None, None, FetchResponse]:
        """The response in the format of clients before Kafka 0.11."""
        return self._services.conversions.message_sets(response, version, self.wanted, self._find, self._max_bytes)

    def answer(self) -> FetchResponse | asyncio.Future[FetchResponse]:
        """The response, now or later."""
        expired = not self.wanted or self._request.max_wait_ms <= 0
        response = self._try(expired)
        if self._cold:
            return asyncio.ensure_future(self._look_up(expired))
        return response or self._park(self._request.max_wait_ms)

    async def _look_up(self, expired: bool) -> FetchResponse:
        clock = self._services.clock
        deadline_ms = clock.monotonic_ms() + self._request.max_wait_ms
        # Each round looks up what no other has: as many as there are partitions at the most.
        while self._cold:
            cold = list(self._cold.items())
            found = await asyncio.gather(*(self._look_up_one(*each) for each in cold))
            self._looked_up.update((partition, one) for (partition, _), one in zip(cold, found, strict=True))
            response = self._try(expired or clock.monotonic_ms() >= deadline_ms)
            if response is not None:
                return response
        return await self._park(deadline_ms - clock.monotonic_ms())

    async def _look_up_one(self, partition: Partition, each: Wanted) -> _LookedUp | KafkaError:
        offset, isolation_level = each.fetch_offset, self._request.isolation_level
        up_to = partition.end_for(isolation_level)

        def look(view: LogView) -> _LookedUp:
            location = view.locate(offset, up_to)
            if location is None or isolation_level != READ_COMMITTED:
                return _LookedUp(location, [])
            records = location.range(each.max_bytes, minimum_one=True, disk=self._services.disk)
            return _LookedUp(location, view.aborted_transactions(offset, records, up_to))

        try:
            return await look_up(partition, look)
        except KafkaError as error:
            return error

    def _park(self, time_ms: int) -> asyncio.Future[FetchResponse]:
        # By the time that it is asked again there may be more.
        self._looked_up.clear()
        return self._services.purgatory.park(self.partitions(), time_ms, self.attempt)

    def partitions(self) -> list[Partition]:
        """Those that exist: under these the request waits."""
        found = (self._find(each) for each in self.wanted)
        return [each for each in found if isinstance(each, Partition)]

    def attempt(self, expired: bool) -> FetchResponse | None:
        """The response, or None while it is worth waiting. Asked with `expired` it always answers."""
        response = self._try(expired)
        return self._try(expired=True, with_cold=False) if self._cold else response

    def _try(self, expired: bool, with_cold: bool = True) -> FetchResponse | None:
        """As `attempt`; None, too, where something is cold that must be looked up first (`with_cold`)."""
        self._cold.clear()
        answers: list[tuple[Wanted, PartitionData]] = []
        got_bytes, answered, exists = 0, expired, False
        for each in self.wanted:
            room = self._max_bytes - got_bytes
            answer = self._read(each, room, minimum_one=got_bytes == 0 or (self._one_each and room > 0))
            answers.append((each, answer))
            if answer.error_code == 0:
                exists = True
                got_bytes += len(answer.records or b"")
                answered = answered or answer.diverging_epoch.epoch >= 0
            elif answer.error_code not in _PATIENT:
                answered = True
        # Where no partition exists nothing can come of waiting.
        if (self._cold and with_cold) or (exists and not answered and got_bytes < self._min_bytes):
            return None
        return self._respond(answers)

    def _find(self, each: Wanted) -> Partition | ErrorCode:
        topics = self._services.topics
        if each.topic_id == ZERO_UUID:
            topic = topics.get(each.topic)
        elif (topic := topics.by_id(each.topic_id)) is None:
            return self._gone(each)
        if topic is None and self._by_id:
            return ErrorCode.UNKNOWN_TOPIC_ID
        found = topic.partition(each.partition) if topic is not None else None
        return found or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _gone(self, each: Wanted) -> ErrorCode:
        """What a client is told who fetches by an id that nobody has (any more): whoever began while its topic was
        there hears what became of the name. A topic made anew has another id, and its records are not for the old one.
        """
        if not each.topic:
            return ErrorCode.UNKNOWN_TOPIC_ID
        topic = self._services.topics.get(each.topic)
        made_anew = topic is not None and topic.partition(each.partition) is not None
        return ErrorCode.INCONSISTENT_TOPIC_ID if made_anew else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _read(self, each: Wanted, room: int, minimum_one: bool) -> PartitionData:
        partition = self._find(each)
        if isinstance(partition, ErrorCode):
            # As Kafka: an empty list of aborted transactions here, null where the partition itself refuses.
            return _failed(each, partition, aborted_transactions=[] if partition in _PATIENT else None)
        if self._is_follower:
            # No other broker has a replica of ours.
            return _failed(each, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        isolation_level = self._request.isolation_level
        records: FileRange | None = None
        aborted: list[AbortedTransaction] | None = [] if isolation_level == READ_COMMITTED else None
        diverging: tuple[int, int] | None = None
        try:
            partition.check_epoch(each.current_leader_epoch)
            diverging = partition.diverging_epoch(each.fetch_offset, each.last_fetched_epoch)
            limit = min(each.max_bytes, room)
            if diverging is None and (limit > 0 or minimum_one):
                records, found = self._records(partition, each, max(limit, 0), minimum_one)
                if aborted is not None:
                    aborted = [AbortedTransaction(one.producer_id, one.first_offset) for one in found]
        except NotCached:
            self._cold[partition] = each
        except KafkaError as error:
            return _failed(each, error.code)
        return PartitionData(
            partition_index=each.partition,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            diverging_epoch=_NO_EPOCH if diverging is None else EpochEndOffset(*diverging),
            aborted_transactions=aborted,
            records=records if records is not None else _NO_RECORDS,
        )

    def _records(
        self, partition: Partition, each: Wanted, limit: int, minimum_one: bool
    ) -> tuple[FileRange | None, Sequence[Aborted]]:
        """The bytes that a partition has for the request, and which transactions in them were aborted."""
        offset, isolation_level = each.fetch_offset, self._request.isolation_level
        known = self._looked_up.get(partition)
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

    def _respond(self, answers: list[tuple[Wanted, PartitionData]]) -> FetchResponse:
        session = self._session
        response = FetchResponse(session_id=session.id if session is not None else 0)
        last: FetchableTopicResponse | None = None
        for each, answer in answers:
            if session is not None:
                news = each.note(answer)
                if self._incremental and not news:
                    continue
                if answer.records:
                    session.served(each.key)
            if last is None or last.topic != each.topic or last.topic_id != each.topic_id:
                last = FetchableTopicResponse(each.topic, each.topic_id, [])
                response.responses.append(last)
            last.partitions.append(answer)
        return response


def _failed(
    each: Wanted, code: ErrorCode, aborted_transactions: list[AbortedTransaction] | None = None
) -> PartitionData:
    return PartitionData(
        partition_index=each.partition,
        error_code=int(code),
        high_watermark=-1,
        aborted_transactions=aborted_transactions,
        records=_NO_RECORDS,
    )
