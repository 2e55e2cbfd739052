"""The sessions of a share consumer with the leaders: they acquire records and send acknowledgements.

A leader gets one request at a time, because requests of a session go one after another. A fetch is sent only when the
user waits for records: the lock of a record that is fetched ahead would run out while the user is busy with others.
Acknowledgements go with the next fetch of their leader, or in a request of their own if that would be late or if the
user commits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from ...protocol.messages.share_fetch import PartitionData, ShareFetchResponse
from ..consumer.consumer_protocol import Place
from ..consumer.fetched_batch import CompletedFetch
from ..core.clock import monotonic_ms
from ..core.cluster import Cluster
from ..core.connection import FETCH
from ..core.lifetime import broken_task
from ..core.metadata import NO_LEADER
from ..errors import CorruptRecords, UnsupportedVersion, error_of, raise_error
from ..record import ShareRecord, TopicPartition
from .deliveries import (
    Acknowledgement,
    Deliveries,
    Held,
    Settled,
    ShareFetchOptions,
    ShareSession,
    Source,
    acquired,
    outcomes_of,
    places_of,
)

_log = logging.getLogger(__name__)

# Told of each partition: the offsets that were settled, and why the leader did not take that, None if it did. Of each
# gap of several offsets it is told alone, by a range.
AcknowledgementListener = Callable[[TopicPartition, Sequence[int], KafkaError | None], object]
# Partition -> None, or why its leader did not take the acknowledgements.
Results = dict[TopicPartition, KafkaError | None]

_FIRST_RENEWAL = 2  # ShareAcknowledge 2 renews locks
# How long acknowledgements wait for a fetch that takes them along.
_TELL_AFTER_MS = 1_000
# Decoded records at a time.
_DECODED_RECORDS = 500


@dataclass(slots=True, eq=False)
class _Leader:
    session: ShareSession
    # Held by the request in flight.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Whether a fetch is in flight or waits for the lock.
    asked: bool = False
    # What the leader says of what the last fetch told it, until a commit asks; None while the answer is on its way.
    carried: Results | None = field(default_factory=dict[TopicPartition, KafkaError | None])
    # Whether an acknowledgement that nobody waits for waits for the lock.
    tells_soon: bool = False
    failures: int = 0


@dataclass(eq=False, repr=False)
class ShareLeaders:
    """The sessions with all leaders."""

    _cluster: Cluster
    _group_id: str
    _member_id: str
    _options: ShareFetchOptions
    _deliveries: Deliveries
    # Called when a fetch has ended: there are records, an error, or neither.
    _wake: Callable[[], None]
    _listener: AcknowledgementListener | None
    _leaders: dict[int, _Leader] = field(default_factory=dict[int, _Leader])
    # How long the leaders lock records for this group; None before the first answer.
    lock_timeout_ms: int | None = None
    # For the next poll: why a partition cannot be read.
    error: KafkaError | None = None
    # Partitions that had a retriable error, and until when they are left alone.
    _muted: dict[Place, float] = field(default_factory=dict[Place, float])

    # -- Fetches

    def ask(self, assigned: Iterable[Place], limit: int | None = None) -> None:
        """Have each leader asked for records that has no fetch in flight; for `limit` of all together, if any."""
        by_leader: dict[int, set[Place]] = {}
        now_ms = monotonic_ms()
        for place in assigned:
            if self._muted.get(place, 0.0) > now_ms:
                continue
            partition = self._partition(place)
            node_id = NO_LEADER if partition is None else self._cluster.leader(partition)
            if node_id != NO_LEADER:
                by_leader.setdefault(node_id, set()).add(place)
            elif partition is None:
                self._cluster.refresh_soon()
            else:
                self._cluster.refresh_leader(partition)
        each_limit = None if limit is None else -(-limit // max(len(by_leader), 1))
        for node_id, places in sorted(by_leader.items()):
            leader = self._leader(node_id)
            if not leader.asked:
                leader.asked = True
                self._spawn(self._fetch(node_id, leader, frozenset(places), each_limit), "share fetch")

    def _spawn(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        """Run `work` as a task. If it breaks, the next poll raises why."""

        def ended(task: asyncio.Task[Any]) -> None:
            if not task.cancelled() and (error := broken_task(task, f"the share consumer's {name}")) is not None:
                self.error = self.error or error
                self._wake()

        self._cluster.spawn(work, name).add_done_callback(ended)

    def _partition(self, place: Place) -> TopicPartition | None:
        name = self._cluster.view.topic_names.get(place[0])
        return None if name is None else TopicPartition(name, place[1])

    def _leader(self, node_id: int) -> _Leader:
        if node_id not in self._leaders:
            self._leaders[node_id] = _Leader(ShareSession(self._group_id, self._member_id, self._options))
        return self._leaders[node_id]

    async def _fetch(self, node_id: int, leader: _Leader, places: frozenset[Place], limit: int | None) -> None:
        try:
            async with leader.lock:
                taken = self._deliveries.take_settled(node_id)
                leader.carried = None if taken else {}
                if not places.issuperset(outcomes_of(taken, leader.session.number)):
                    # A fetch would bring partitions back into the session that others fetch from now.
                    leader.carried = await self._tell(node_id, leader, taken)
                    self._report(leader.carried, taken)
                    taken = {}
                await self._fetch_once(node_id, leader, places, taken, limit)
        finally:
            leader.asked = False
            self._wake()

    async def _fetch_once(
        self,
        node_id: int,
        leader: _Leader,
        places: frozenset[Place],
        taken: Mapping[Source, Settled],
        limit: int | None,
    ) -> None:
        session = leader.session
        results = self._stale(session, taken)
        told = places_of(taken, session.number, current=True) if session.is_open else {}
        outcomes = outcomes_of(taken, session.number) if session.is_open else {}
        request = session.fetch(places, outcomes, limit)
        try:
            response = await self._cluster.request(node_id, request, ShareFetchResponse, FETCH)
            raise_error(response.error_code, response.error_message, "a share fetch failed")
        except KafkaError as error:
            self._give_up(node_id, leader)
            results |= dict.fromkeys(told.values(), error)
            leader.carried = (leader.carried or {}) | results
            self._report(results, taken)
            await self._pause(leader, error)
            return
        results |= _unanswered(told.values())
        leader.failures = 0
        self._cluster.retries.done(leader)
        session.fetched(places)
        self.lock_timeout_ms = response.acquisition_lock_timeout_ms
        for topic in response.responses:
            for each in topic.partitions:
                place = topic.topic_id, each.partition_index
                if (settled := told.get(place)) is not None:
                    results[settled] = error_of(
                        each.acknowledge_error_code, each.acknowledge_error_message, str(settled)
                    )
                if (partition := self._partition(place)) is not None:
                    self._take_in(Source(node_id, session.number, place[0]), partition, each)
        leader.carried = (leader.carried or {}) | results
        self._report(results, taken)

    async def _pause(self, leader: _Leader, error: KafkaError) -> None:
        """Keep an error for the next poll, or wait before the leader is asked again."""
        if not error.retriable and error.code not in _SESSION_ERRORS:
            self.error = error
            return
        leader.failures += 1
        self._cluster.retries.failed(leader, error)
        self._cluster.refresh_soon()
        await asyncio.sleep(self._cluster.backoff.pause_ms(leader.failures) / 1000)

    def _give_up(self, node_id: int, leader: _Leader) -> None:
        """Begin a new session with the next fetch: what was acquired in this one is the group's again."""
        leader.session.reset()
        self._deliveries.lose(node_id)

    # -- Records

    def _take_in(self, source: Source, partition: TopicPartition, data: PartitionData) -> None:
        """Keep the acquired records of one partition for the next polls, or its error."""
        place = source.topic_id, partition.partition
        if (error := error_of(data.error_code, data.error_message, str(partition))) is not None:
            if error.retriable:
                self._muted[place] = monotonic_ms() + self._cluster.options.retry_backoff_ms
                self._cluster.refresh_leader(partition)
            else:
                self.error = error
            return
        self._muted.pop(place, None)
        ranges = [(each.first_offset, each.last_offset, each.delivery_count) for each in data.acquired_records]
        if not ranges:
            return
        records, end, behind = self._decoded(partition, data, ranges[0][0])
        found, gaps = acquired(records, ranges)
        now_ms = monotonic_ms()
        settle = self._deliveries.settle_spans
        missing = [(max(first, end), last) for first, last in gaps if last >= end]
        settle(partition, missing, behind, source, now_ms)
        gaps = [(first, min(last, end - 1)) for first, last in gaps if first < end]
        settle(partition, gaps, Acknowledgement.GAP, source, now_ms)
        # The locks have begun a moment ago: a leader that waits for records locks them when they are there.
        self._deliveries.add(found, source, now_ms + (self.lock_timeout_ms or 0))

    def _decoded(
        self, partition: TopicPartition, data: PartitionData, first: int
    ) -> tuple[list[ShareRecord], int, Acknowledgement]:
        """Return the records that came, the offset where they end, and what becomes of acquired ones behind it."""
        found: list[ShareRecord] = []
        try:
            fetch = CompletedFetch(
                partition, memoryview(data.records or b""), first, check_crcs=self._options.check_crcs
            )
            while some := fetch.take(_DECODED_RECORDS):
                found += (cast("ShareRecord", ShareRecord(*record)) for record in some)
        except CorruptRecords as error:
            self.error = error
            # Nobody can read what is corrupt: it is rejected, as Kafka's consumer does.
            return found, found[-1].offset + 1 if found else first, Acknowledgement.REJECT
        # What was cut off comes again: as a gap it would be gone for the group.
        return found, fetch.next_offset, Acknowledgement.RELEASE

    # -- Acknowledgements

    def tell_if_due(self) -> None:
        """Send the acknowledgements that have waited long enough for a fetch."""
        since_ms = self._deliveries.settled_since_ms
        if since_ms is not None and monotonic_ms() - since_ms >= _TELL_AFTER_MS:
            self.tell_soon()

    def tell_soon(self) -> None:
        """Send the acknowledgements, and do not wait for the answers."""
        for node_id in self._deliveries.nodes():
            leader = self._leader(node_id)
            if not leader.tells_soon:
                leader.tells_soon = True
                self._spawn(self._tell_only(node_id), "acknowledge")

    async def tell_all(self) -> Results:
        """Send the acknowledgements. Return what the leaders say of each partition, also to a fetch."""
        carrying = {node_id for node_id, each in self._leaders.items() if each.carried != {}}
        return await self._all(self._tell_and_ask(node_id) for node_id in sorted(self._deliveries.nodes() | carrying))

    async def _all(self, works: Iterable[Coroutine[Any, Any, Results]]) -> Results:
        """Return what all leaders say. Who waits may be cancelled: a request that is sent is answered all the same.

        Otherwise its session would not know its epoch any more, and lose all that was acquired in it.
        """
        tasks = [self._cluster.spawn(each, "acknowledge") for each in works]
        found = await asyncio.gather(*map(asyncio.shield, tasks))
        return {partition: error for results in found for partition, error in results.items()}

    async def _tell_only(self, node_id: int) -> None:
        """Send one leader its acknowledgements."""
        leader = self._leader(node_id)
        async with leader.lock:
            await self._tell_settled(node_id, leader)

    async def _tell_and_ask(self, node_id: int) -> Results:
        """Send one leader its acknowledgements. Return what it says of them, and said to the last fetch."""
        leader = self._leader(node_id)
        async with leader.lock:
            results = await self._tell_settled(node_id, leader)
            carried, leader.carried = leader.carried or {}, {}
        return results | {partition: error for partition, error in carried.items() if not results.get(partition)}

    async def _tell_settled(self, node_id: int, leader: _Leader) -> Results:
        leader.tells_soon = False
        taken = self._deliveries.take_settled(node_id)
        results = await self._tell(node_id, leader, taken) if taken else {}
        self._report(results, taken)
        return results

    async def _tell(
        self, node_id: int, leader: _Leader, taken: Mapping[Source, Settled], *, close: bool = False
    ) -> Results:
        session = leader.session
        results = self._stale(session, taken)
        outcomes = outcomes_of(taken, session.number) if session.is_open else {}
        if not session.is_open or not (outcomes or close):
            return results
        told = places_of(taken, session.number, current=True)
        try:
            response = await self._request_acknowledge(node_id, session.acknowledge(outcomes, close=close))
        except UnsupportedVersion as error:
            return results | dict.fromkeys(told.values(), error)  # nothing was sent
        except KafkaError as error:
            self._give_up(node_id, leader)
            return results | dict.fromkeys(told.values(), error)
        session.advance()
        results |= _unanswered(told.values())
        for topic in response.responses:
            for each in topic.partitions:
                if (partition := told.get((topic.topic_id, each.partition_index))) is not None:
                    results[partition] = error_of(each.error_code, each.error_message, str(partition))
        return results

    async def _request_acknowledge(self, node_id: int, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
        connection = await self._cluster.connection(node_id, FETCH)
        version = connection.version_for(ShareAcknowledgeRequest)
        if request.is_renew_ack and version < _FIRST_RENEWAL:
            raise UnsupportedVersion("ShareAcknowledge", range(_FIRST_RENEWAL, _FIRST_RENEWAL + 1), (version, version))
        response = await connection.request(request, ShareAcknowledgeResponse, version=version)
        raise_error(response.error_code, response.error_message, "an acknowledgement failed")
        if response.acquisition_lock_timeout_ms:
            self.lock_timeout_ms = response.acquisition_lock_timeout_ms
        return response

    def _stale(self, session: ShareSession, taken: Mapping[Source, Settled]) -> Results:
        """Return the errors of acknowledgements from earlier sessions: their records are the group's again."""
        number = session.number if session.is_open else -1
        text = "the session with the leader has ended: the records are delivered again"
        return {
            partition: KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND, f"{partition}: {text}")
            for partition in places_of(taken, number, current=False).values()
        }

    def _report(self, results: Results, taken: Mapping[Source, Settled]) -> None:
        """Tell the listener, or the log, what the leaders said."""
        for settled in taken.values():
            for partition, spans in settled.items():
                error = results.get(partition)
                in_order = sorted(spans)
                single = [first for first, last in in_order if first == last]
                told: list[Sequence[int]] = [range(first, last + 1) for first, last in in_order if first < last]
                for offsets in [single, *told] if single else told:
                    self._tell_listener(partition, offsets, error)

    def _tell_listener(self, partition: TopicPartition, offsets: Sequence[int], error: KafkaError | None) -> None:
        if self._listener is not None:
            try:
                self._listener(partition, offsets, error)
            except Exception:  # noqa: BLE001 - it is the user's code, and the others must be told
                _log.exception("acknowledgement_listener raised; the acknowledgement stays as it is")
        elif error is not None:
            _log.warning("%d records of %s are delivered again: %s", len(offsets), partition, error)

    async def renew(self, held: Iterable[Held]) -> Results:
        """Lock records for the whole time again. Return what the leaders say."""
        by_leader: dict[int, list[Held]] = {}
        for each in held:
            by_leader.setdefault(each.source.node_id, []).append(each)
        return await self._all(self._renew(node_id, each) for node_id, each in by_leader.items())

    async def _renew(self, node_id: int, held: Iterable[Held]) -> Results:
        leader = self._leader(node_id)
        async with leader.lock:
            wanted: dict[Source, Settled] = {}
            # One that was settled meanwhile would have the leader reject the others of its partition.
            held = [each for each in held if self._deliveries.has(each)]
            for each in held:
                partition, offset = each.place
                wanted.setdefault(each.source, {}).setdefault(partition, {})[offset, offset] = Acknowledgement.RENEW
            ends_ms = monotonic_ms() + (self.lock_timeout_ms or 0)
            results = await self._tell(node_id, leader, wanted)
        for each in held:
            if results.get(each.place[0]) is None and each.source.session == leader.session.number:
                each.renewed, each.lock_ends_ms = True, ends_ms
        return results

    # -- The end

    async def close(self) -> Results:
        """Send the acknowledgements, and end the sessions: the leaders take the other records back."""
        found = await asyncio.gather(*(self._close(node_id, each) for node_id, each in self._leaders.items()))
        return {partition: error for results in found for partition, error in results.items()}

    async def _close(self, node_id: int, leader: _Leader) -> Results:
        async with leader.lock:
            taken = self._deliveries.take_settled(node_id)
            results = await self._tell(node_id, leader, taken, close=True)
            self._give_up(node_id, leader)
        self._report(results, taken)
        return results


# After these a new session is begun at once.
_SESSION_ERRORS = {
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ErrorCode.SHARE_SESSION_LIMIT_REACHED,
}


def _unanswered(partitions: Iterable[TopicPartition]) -> Results:
    """Return the errors of acknowledgements that an answer leaves out: nobody knows whether they were taken."""
    text = "the leader's answer does not say that it took the acknowledgement"
    return {each: KafkaError(ErrorCode.INVALID_RECORD_STATE, f"{each}: {text}") for each in partitions}
