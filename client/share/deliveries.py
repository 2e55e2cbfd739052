"""The records that a member of a share group holds: what it has fetched, what its user has, what became of them.

    acquired --take--> held --accept, release, reject--> settled --sent to the leader--> gone
                       held --renew--> held, with a new lock

A lock of the leader holds each record for one member, and for a time. A record whose lock has ended while it was not
yet handed out is dropped: another member may have it already.

The session with one leader tells it what is settled: ShareFetch (key 78) and ShareAcknowledge (79).

    closed --fetch with epoch 0--> open --fetch, acknowledge: the epoch grows--> open --epoch -1--> closed

An open session knows its partitions: a fetch names only those that come, those that have acknowledgements, and those
that go. Requests of a session go one after another. After one without an answer nobody knows its epoch, so the session
is given up, and with it what was acquired in it.

No clock and no wire: the caller says what time it is, and sends the requests.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from ...protocol.messages import share_acknowledge as ack
from ...protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from ..consumer.consumer_protocol import Place
from ..errors import InvalidAcknowledgement
from ..record import ShareRecord, TopicPartition, by_topic

RECORD_LIMIT = 1
_CLOSE_EPOCH = -1
_LAST_EPOCH = 2**31 - 1


class Acknowledgement(IntEnum):
    """What a member says of a record, as ShareAcknowledge has it."""

    GAP = 0  # there is no record at the offset
    ACCEPT = 1  # processed
    RELEASE = 2  # another delivery, to any member
    REJECT = 3  # never again
    RENEW = 4  # still at it: a new lock


class Source(NamedTuple):
    """Where records were acquired: the leader, which of its sessions, and the topic's id."""

    node_id: int
    session: int
    topic_id: bytes


@dataclass(slots=True, eq=False)
class Held:
    """A record that was acquired and is not settled."""

    record: ShareRecord
    source: Source
    lock_ends_ms: float
    # Its user goes on with it past the next poll.
    renewed: bool = False
    # Whether its leader has rejected a renewal of it alone: its lock ends.
    is_given_up: bool = False

    @property
    def place(self) -> tuple[TopicPartition, int]:
        """Where the record lies."""
        return _place(self.record)


# The first and the last of neighbouring offsets. A record is one of its own. Only a gap has more, and it may be very
# long: a batch of the log is acquired whole, whatever number of records it says that it has.
Span = tuple[int, int]
# Partition -> span -> its acknowledgement.
Settled = dict[TopicPartition, dict[Span, Acknowledgement]]


class Deliveries:
    """All records of one member."""

    def __init__(self) -> None:
        # Fetched and not handed out yet.
        self._waiting: OrderedDict[tuple[TopicPartition, int], Held] = OrderedDict()
        # Handed out.
        self._held: dict[tuple[TopicPartition, int], Held] = {}
        self._settled: dict[Source, Settled] = {}
        # When the first of `_settled` came, None while there is none.
        self.settled_since_ms: float | None = None

    def __len__(self) -> int:
        return len(self._waiting) + len(self._held)

    # -- Fetched records

    def add(self, records: Iterable[ShareRecord], source: Source, lock_ends_ms: float) -> None:
        """Keep acquired records for the next polls."""
        for record in records:
            self._waiting[_place(record)] = Held(record, source, lock_ends_ms)

    def take(self, limit: int, now_ms: float) -> list[ShareRecord]:
        """Hand records out, but none whose lock has ended."""
        taken: list[ShareRecord] = []
        while self._waiting and len(taken) < limit:
            place, each = self._waiting.popitem(last=False)
            if each.lock_ends_ms > now_ms:
                each.renewed = False
                self._held[place] = each
                taken.append(each.record)
        return taken

    def put_back(self, records: Sequence[ShareRecord]) -> None:
        """Hand records out next time, as if they had not been taken; not those that another thread has settled."""
        for record in reversed(records):
            place = _place(record)
            if (held := self._held.pop(place, None)) is not None:
                self._waiting[place] = held
                self._waiting.move_to_end(place, last=False)

    def lose(self, node_id: int) -> None:
        """Drop what was fetched in a session that has ended: the leader has given it back to the group."""
        kept = ((place, each) for place, each in self._waiting.items() if each.source.node_id != node_id)
        self._waiting = OrderedDict(kept)

    def drop(self, record: ShareRecord[Any, Any]) -> None:
        """Forget a record that was handed out: its lock has ended."""
        self._held.pop(_place(record), None)

    # -- Acknowledgements

    def settle(self, record: ShareRecord[Any, Any], what: Acknowledgement, now_ms: float) -> None:
        """Acknowledge a record that was handed out. Raises InvalidAcknowledgement if it is not held."""
        source, place = self.held(record).source, _place(record)
        del self._held[place]
        self.settle_spans(place[0], ((record.offset, record.offset),), what, source, now_ms)

    def settle_spans(
        self, partition: TopicPartition, spans: Iterable[Span], what: Acknowledgement, source: Source, now_ms: float
    ) -> None:
        """Acknowledge acquired offsets, of which the user need not know."""
        found = dict.fromkeys(spans, what)
        if found:
            self._settled.setdefault(source, {}).setdefault(partition, {}).update(found)
            self.settled_since_ms = self.settled_since_ms or now_ms

    def accept_held(self, now_ms: float) -> None:
        """Accept all records that were handed out: the user asks for more."""
        for each in list(self._held.values()):
            self.settle(each.record, Acknowledgement.ACCEPT, now_ms)

    def open_record(self) -> ShareRecord | None:
        """Return a record that was handed out and neither settled nor renewed, None if there is none."""
        return next((each.record for each in self._held.values() if not each.renewed), None)

    # -- Renewals

    def held(self, record: ShareRecord[Any, Any]) -> Held:
        """Return what is known of a record that was handed out. Raises InvalidAcknowledgement."""
        held = self._held.get(_place(record))
        if held is None:
            where = f"{record.topic}-{record.partition} at offset {record.offset}"
            raise InvalidAcknowledgement(f"{where}: this consumer does not hold that record (any more)")
        return held

    def has(self, held: Held) -> bool:
        """Return whether a record is neither settled nor lost."""
        return self._held.get(held.place) is held or self._waiting.get(held.place) is held

    def waiting(self) -> list[Held]:
        """Return what was fetched and is not handed out yet."""
        return list(self._waiting.values())

    def lock_ends_ms(self, record: ShareRecord[Any, Any]) -> float | None:
        """Return when the lock of a record ends, None if this consumer does not hold it."""
        held = self._held.get(_place(record))
        return None if held is None else held.lock_ends_ms

    # -- To the leaders

    def nodes(self) -> set[int]:
        """Return the leaders that have to be told something."""
        return {source.node_id for source in self._settled}

    def take_settled(self, node_id: int) -> dict[Source, Settled]:
        """Return what a leader has to be told, by session; the caller tells it."""
        taken = {source: found for source, found in self._settled.items() if source.node_id == node_id}
        for source in taken:
            del self._settled[source]
        if not self._settled:
            self.settled_since_ms = None
        return taken


def _place(record: ShareRecord[Any, Any]) -> tuple[TopicPartition, int]:
    return TopicPartition(record.topic, record.partition), record.offset


def runs(spans: Mapping[Span, Acknowledgement]) -> list[tuple[int, int, list[int]]]:
    """Return (first offset, last offset, types) of each run of offsets; one type stands for all of a run."""
    found: list[tuple[int, int, list[int]]] = []
    for first, last in sorted(spans):
        what = int(spans[first, last])
        if found and found[-1][1] == first - 1 and found[-1][2] == [what]:
            found[-1] = found[-1][0], last, found[-1][2]
        else:
            found.append((first, last, [what]))
    return found


def acquired(
    records: Sequence[ShareRecord], ranges: Iterable[tuple[int, int, int]]
) -> tuple[list[ShareRecord], list[Span]]:
    """Return the records of the acquired ranges (first, last, delivery count), and the offsets without a record.

    The records are in order of their offsets.
    """
    offsets = [record.offset for record in records]
    found: list[ShareRecord] = []
    gaps: list[Span] = []
    for first, last, count in ranges:
        for record in records[bisect_left(offsets, first) : bisect_right(offsets, last)]:
            found.append(record._replace(delivery_count=count))
            if first < record.offset:
                gaps.append((first, record.offset - 1))
            first = record.offset + 1
        if first <= last:
            gaps.append((first, last))
    return found, gaps


# -- Sessions

# The acknowledgements of the offsets of each partition.
Outcomes = Mapping[Place, Mapping[Span, Acknowledgement]]


@dataclass(frozen=True, slots=True)
class ShareFetchOptions:
    """Kafka's options of the same names."""

    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_poll_records: int
    check_crcs: bool
    # 0 batch_optimized, or RECORD_LIMIT.
    acquire_mode: int


class ShareSession:
    """One session at a time with one leader."""

    def __init__(self, group_id: str, member_id: str, options: ShareFetchOptions) -> None:
        self._group_id = group_id
        self._member_id = member_id
        self._options = options
        self._epoch = 0
        self._places: frozenset[Place] = frozenset()
        # Grows with each session that is begun.
        self.number = 0

    @property
    def is_open(self) -> bool:
        """Whether the leader knows this session."""
        return self._epoch != 0

    def has(self, places: Iterable[Place]) -> bool:
        """Whether these partitions are in the session."""
        return self._places.issuperset(places)

    # -- Requests

    def fetch(self, wanted: frozenset[Place], outcomes: Outcomes, limit: int | None = None) -> ShareFetchRequest:
        """Return a request for records of `wanted`, which must have all partitions of `outcomes`.

        With a `limit` no more are acquired, whatever the acquire mode is.
        """
        most = min(self._options.max_poll_records, limit or self._options.max_poll_records)
        named = wanted if not self.is_open else wanted - self._places | outcomes.keys()
        topics: dict[bytes, FetchTopic] = {}
        for topic_id, number in sorted(named):
            batches = [AcknowledgementBatch(*run) for run in runs(outcomes.get((topic_id, number), {}))]
            partition = FetchPartition(partition_index=number, acknowledgement_batches=batches)
            topics.setdefault(topic_id, FetchTopic(topic_id)).partitions.append(partition)
        forgotten = [ForgottenTopic(*each) for each in by_topic(sorted(self._places - wanted)).items()]
        return ShareFetchRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=self._options.fetch_max_wait_ms,
            min_bytes=self._options.fetch_min_bytes,
            max_bytes=self._options.fetch_max_bytes,
            max_records=most,
            batch_size=most,
            share_acquire_mode=RECORD_LIMIT if limit else self._options.acquire_mode,
            topics=list(topics.values()),
            forgotten_topics_data=forgotten,
        )

    def acknowledge(self, outcomes: Outcomes, *, close: bool = False) -> ack.ShareAcknowledgeRequest:
        """Return a request with acknowledgements; with `close` the leader takes the other records back."""
        topics: dict[bytes, ack.AcknowledgeTopic] = {}
        for topic_id, number in sorted(outcomes):
            batches = [ack.AcknowledgementBatch(*run) for run in runs(outcomes[topic_id, number])]
            partition = ack.AcknowledgePartition(number, batches)
            topics.setdefault(topic_id, ack.AcknowledgeTopic(topic_id)).partitions.append(partition)
        kinds = {kind for found in outcomes.values() for kind in found.values()}
        return ack.ShareAcknowledgeRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=_CLOSE_EPOCH if close else self._epoch,
            is_renew_ack=Acknowledgement.RENEW in kinds,
            topics=list(topics.values()),
        )

    # -- Answers

    def fetched(self, places: frozenset[Place]) -> None:
        """Note that a fetch of these partitions was answered."""
        if not self.is_open:
            self.number += 1
        self._places = places
        self.advance()

    def advance(self) -> None:
        """Note that a request was answered."""
        self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def reset(self) -> None:
        """Give the session up, or note that it is closed."""
        self._epoch, self._places = 0, frozenset()


def outcomes_of(taken: Mapping[Source, Settled], number: int) -> dict[Place, dict[Span, Acknowledgement]]:
    """Return what a leader has to be told in its session of this number."""
    found: dict[Place, dict[Span, Acknowledgement]] = {}
    for source, settled in taken.items():
        if source.session == number:
            for partition, spans in settled.items():
                found.setdefault((source.topic_id, partition.partition), {}).update(spans)
    return found


def places_of(taken: Mapping[Source, Settled], number: int, *, current: bool) -> dict[Place, TopicPartition]:
    """Return the partitions with records that were settled in the session of this number, or in earlier ones."""
    return {
        (source.topic_id, partition.partition): partition
        for source, settled in taken.items()
        if (source.session == number) is current
        for partition in settled
    }
