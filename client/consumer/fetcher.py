"""The consumer's task that fetches ahead: one Fetch in flight to each leader while the user processes records.

A pass looks at all partitions, has missing positions found, and sends a Fetch to every leader that has none in flight
and whose partitions all have less than `max_partition_fetch_bytes` in memory. A Fetch names all partitions of a leader,
because one that left out a full partition would wait for records of the others while the full one runs dry. It leaves
out a full one whose records stay where they are: a slow stream, or a record that cannot be deserialized, holds nobody
else up. So a partition holds at most twice `max_partition_fetch_bytes` (and one oversized batch, KIP-74), and all
together hold `fetch_max_bytes` and the responses in flight, besides those whose records stay, as in a pause.

A pass follows a change (`Signals.fetch`) or the end of a pause. An error of one partition is kept there, and raised
when the partition has its turn.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, PartitionData
from ...protocol.primitives import ZERO_UUID
from ..core.clock import monotonic_ms, wait_for
from ..core.cluster import Cluster
from ..core.connection import FETCH
from ..core.metadata import NO_LEADER, ClusterView
from ..errors import CorruptRecords, OffsetOutOfRange
from ..record import TopicPartition
from .explanation import ConsumerCounts
from .fetch_session import SESSION_ERRORS, FetchSession, Key
from .fetched_batch import CompletedFetch
from .options import FetchOptions
from .position_checks import PositionChecks
from .position_finder import PartitionRetries, PositionFinder
from .positions import PartitionState, Positions, Signals

_LAST_NAMED_VERSION = 12  # Fetch 13 goes by topic id
_FIRST_SESSION_VERSION = 7
_OUT_OF_RANGE: int = ErrorCode.OFFSET_OUT_OF_RANGE
# Kafka's table calls it retriable, because a follower may fetch from another replica; Kafka's consumer raises it, too.
_CORRUPT: int = ErrorCode.CORRUPT_MESSAGE

# A leader may answer early, as when a partition is new in its session; so often in a row it does not.
_MOST_IN_VAIN = 10

# The partitions of one request with the versions that they had when it was sent.
Requested = dict[TopicPartition, tuple[PartitionState, int]]


@dataclass(eq=False, repr=False)
class Fetcher:
    """Keeps `PartitionState.fetched` filled. Run `run()` as a task."""

    _cluster: Cluster
    _positions: Positions
    _finder: PositionFinder
    _checks: PositionChecks
    _options: FetchOptions
    _retries: PartitionRetries
    _signals: Signals
    _counts: ConsumerCounts
    # Leaders that have a Fetch in flight or are being connected to.
    _busy: set[int] = field(default_factory=set[int])
    _sessions: dict[int, FetchSession] = field(default_factory=dict[int, FetchSession])

    def __post_init__(self) -> None:
        self._cluster.on_update(self._metadata_changed)

    async def run(self) -> None:
        """Fetch until cancelled."""
        while True:
            self._signals.fetch.clear()
            await wait_for(self._signals.fetch, self._fetch_missing())

    def _metadata_changed(self, _view: ClusterView) -> None:
        # At once: a commit that comes next must not be of a topic that is gone.
        for state in self._positions:
            self._checks.check_topic(state)
        self._signals.fetch.set()

    # -- Requests

    def _fetch_missing(self) -> float | None:
        """Send the requests that are needed. Return the milliseconds until the next pause ends, None without one."""
        now_ms = monotonic_ms()
        leaders: dict[int, list[PartitionState]] = {}
        unchecked: list[PartitionState] = []
        without_position: list[PartitionState] = []
        pauses = [state.muted_until_ms - now_ms for state in self._positions if state.muted_until_ms > now_ms]
        for state in self._positions:
            self._checks.check_topic(state)
            if state.muted_until_ms > now_ms or state.error is not None:
                continue  # an error waits for the next poll
            if state.find_again:
                state.find_again = False
                self._cluster.spawn(self._finder.find_for_polls([state]), "find a position again")
            elif state.reset is not None:
                without_position.append(state)
            elif self._checks.is_due(state):
                unchecked.append(state)
            elif state.is_fetchable and not (state.waits and self._is_full(state)):
                leader = self._source(state, now_ms)
                if leader == NO_LEADER:
                    self._cluster.refresh_leader(state.partition)
                    pauses.append(self._cluster.options.retry_backoff_ms)
                else:
                    leaders.setdefault(leader, []).append(state)
        self._checks.requests.begin(unchecked)
        self._finder.resets.begin(without_position)
        moving = sum(state.buffered_bytes for state in self._positions if not (state.waits or state.paused))
        if moving < self._options.fetch_max_bytes:
            for leader, states in leaders.items():
                if not any(map(self._is_full, states)) and leader not in self._busy:
                    self._busy.add(leader)
                    self._cluster.spawn(self._fetch(leader, states), "fetch")
        return min(pauses, default=None)

    def _is_full(self, state: PartitionState) -> bool:
        return state.buffered_bytes >= self._options.max_partition_fetch_bytes

    def _source(self, state: PartitionState, now_ms: float) -> int:
        """Return the broker to fetch from: the follower that the leader named, else the leader."""
        preferred = state.preferred_replica
        if preferred >= 0 and now_ms < state.preferred_until_ms and preferred in self._cluster.view.nodes:
            return preferred
        state.preferred_replica = -1
        return self._cluster.leader(state.partition)

    async def _fetch(self, leader: int, states: list[PartitionState]) -> None:
        """Send one Fetch to a leader, and take in its response."""
        requested = {state.partition: (state, state.version) for state in states}
        began_ms = monotonic_ms()
        try:
            view, response = await self._request(leader, requested)
        except KafkaError as error:
            if error.code in SESSION_ERRORS:
                return  # the next Fetch begins a new session
            for state, version in requested.values():
                if state.version == version:
                    state.preferred_replica = -1
                    self._retries.failed(state, error)
        else:
            brought, options = self._take_response(view, response, requested), self._options
            # With fetch_min_bytes=0 a leader need not wait for records.
            waited = not options.fetch_min_bytes or monotonic_ms() - began_ms >= options.fetch_max_wait_ms / 2
            await self._pause(leader, brought or waited)
        finally:
            self._busy.discard(leader)
            self._signals.fetch.set()

    async def _pause(self, leader: int, useful: bool) -> None:
        """Wait before the next fetch from a leader that answers again and again at once, and with nothing."""
        session = self._sessions[leader]
        session.in_vain = 0 if useful else session.in_vain + 1
        if session.in_vain > _MOST_IN_VAIN:
            await asyncio.sleep(self._cluster.backoff.pause_ms(session.in_vain - _MOST_IN_VAIN) / 1000)

    async def _request(self, leader: int, requested: Requested) -> tuple[ClusterView, FetchResponse]:
        """Return the response and the view of the cluster that the request was made from."""
        session = self._sessions.setdefault(leader, FetchSession())
        connection = await self._cluster.connection(leader, FETCH)
        view = self._cluster.view
        # While the connection was opened, partitions may have been reset, sought in, or taken away.
        states = [state for state, version in requested.values() if state.version == version]
        if not states:
            return view, FetchResponse()
        named = any(view.topic_id(state.partition.topic) == ZERO_UUID for state in states)
        version = connection.version_for(FetchRequest, _LAST_NAMED_VERSION if named else None)
        request = self._fetch_request(session, view, states, by_id=version > _LAST_NAMED_VERSION)
        began_ms = monotonic_ms()
        try:
            response = await connection.request(request, FetchResponse, version=version)
            self._counts.fetch_ms.add(monotonic_ms() - began_ms)
            if response.error_code:
                raise KafkaError(ErrorCode.of(response.error_code), f"{connection.address} refused a Fetch")
        except BaseException:
            session.restart()
            raise
        session.accepted(response.session_id if version >= _FIRST_SESSION_VERSION else 0)
        return view, response

    def _fetch_request(
        self, session: FetchSession, view: ClusterView, states: list[PartitionState], *, by_id: bool
    ) -> FetchRequest:
        options = self._options
        wanted: dict[Key, FetchPartition] = {}
        for state in states:
            assert state.fetch_offset is not None
            name, number = state.partition
            info = view.partition(state.partition)
            wanted[name, view.topic_id(name), number] = FetchPartition(
                partition=number,
                current_leader_epoch=-1 if info is None else info.leader_epoch,
                fetch_offset=state.fetch_offset,
                partition_max_bytes=options.max_partition_fetch_bytes,
            )
        topics, forgotten = session.begin(wanted, by_id=by_id)
        return FetchRequest(
            max_wait_ms=options.fetch_max_wait_ms,
            min_bytes=options.fetch_min_bytes,
            max_bytes=options.fetch_max_bytes,
            isolation_level=options.isolation_level,
            session_id=session.id,
            session_epoch=session.epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
            rack_id=options.client_rack,
        )

    # -- Responses

    def _take_response(self, view: ClusterView, response: FetchResponse, requested: Requested) -> bool:
        """Take in what was asked for. Return whether there were records."""
        brought = False
        for topic in response.responses:
            name = topic.topic or view.topic_names.get(topic.topic_id, "")
            for data in topic.partitions:
                state, version = requested.get(TopicPartition(name, data.partition_index), (None, 0))
                if state is None:
                    continue
                brought = brought or bool(data.records)
                if state.version == version:
                    info = view.partition(state.partition)
                    self._take_partition(state, data, -1 if info is None else info.leader_epoch)
        return brought

    def _take_partition(self, state: PartitionState, data: PartitionData, leader_epoch: int) -> None:
        if data.error_code:
            self._take_error(state, data.error_code)
            return
        self._retries.succeeded(state)
        state.checked_epoch = max(state.checked_epoch, leader_epoch)
        state.high_watermark = data.high_watermark
        if data.preferred_read_replica >= 0:
            state.preferred_replica = data.preferred_read_replica
            state.preferred_until_ms = monotonic_ms() + self._cluster.options.metadata_max_age_ms
        if data.records is not None and len(data.records):
            self._take_records(state, data)

    def _take_records(self, state: PartitionState, data: PartitionData) -> None:
        assert state.fetch_offset is not None and data.records is not None
        aborted = [
            (transaction.producer_id, transaction.first_offset) for transaction in data.aborted_transactions or ()
        ]
        records = memoryview(data.records)
        self._counts.bytes += len(records)
        check_crcs = self._options.check_crcs
        try:
            fetch = CompletedFetch(state.partition, records, state.fetch_offset, aborted, check_crcs=check_crcs)
            if fetch.next_offset <= state.fetch_offset:
                # A fetch that brings nothing would be repeated at once, and for ever. Brokers before Kafka 0.10.1 cut
                # a batch at the limit.
                why = f"{len(records)} bytes came for offset {state.fetch_offset}, and no whole batch of records"
                raise CorruptRecords(f"{state}: {why}: seek past it, or raise max_partition_fetch_bytes")
        except KafkaError as error:
            state.error = error
        else:
            state.fetch_offset = fetch.next_offset
            state.fetched.append(fetch)
        self._signals.poll.set()

    def _take_error(self, state: PartitionState, error_code: int) -> None:
        if state.preferred_replica >= 0:
            # The follower may lag or be gone: the leader knows.
            state.preferred_replica = -1
        elif error_code == _OUT_OF_RANGE:
            self._out_of_range(state)
        elif error_code == _CORRUPT:
            # A retry changes nothing, and without an error the damage would look like the end of the log.
            text = f"{state}: the broker cannot read what it has at offset {state.fetch_offset}: seek past it"
            self._retries.keep_error(state, CorruptRecords(text))
        else:
            self._retries.failed(state, KafkaError(ErrorCode.of(error_code), f"fetching {state.partition} failed"))

    def _out_of_range(self, state: PartitionState) -> None:
        """Reset a position before the log start or behind the end, after the fetched records are used up."""
        if state.fetched:
            self._retries.mute(state)
            return
        text = f'{state} has no offset {state.fetch_offset} (any more), and auto_offset_reset is "none": seek()'
        why = f"offset {state.fetch_offset} is not in the log (any more)"
        self._finder.reset(state, why, OffsetOutOfRange(text))
