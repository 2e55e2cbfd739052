"""Fetch sessions (KIP-227): the broker remembers what a consumer fetches, so that messages carry only changes.

A request with epoch 0 makes a session, which goes on with epochs 1, 2, 3...; -1 ends it, and any other epoch is an
error. Sessions are kept in a cache of `max.incremental.fetch.session.cache.slots`. A new one replaces the least
recently used one, if that was idle for `MIN_EVICTION_MS`. Where no slot is free, or the sessions together would hold
more than `MAX_PARTITIONS`, the client gets session id 0 and fetches in full each time: slower, never wrong. A session
may begin without partitions; one that has none after a later request is over.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from operator import attrgetter

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.fetch import FetchRequest, PartitionData
from ...protocol.primitives import ZERO_UUID
from ..clock import Clock, ids
from .partition import Partition

# KIP-227's number: a session that was used more recently is not evicted.
MIN_EVICTION_MS = 120_000
# Of all sessions together, some 500 bytes each: without a bound, clients could fill the memory.
MAX_PARTITIONS = 100_000
# Of one session, which is as many as one request may name: each wake of a waiting request looks at them all.
MAX_PARTITIONS_OF_ONE = 10_000
NEW_SESSION_EPOCH = 0
FINAL_EPOCH = -1
_MAX_EPOCH = 2**31 - 1
_PLACE = attrgetter("place")

# (topic name, topic id, partition). The name is "" for an id that no topic has, the id is zero where the client uses
# names.
Key = tuple[str, bytes, int]


def place_of(topic: str, topic_id: bytes, partition: int) -> Key:
    """Return the key of a partition: its id alone where the client uses ids, whatever name the topic has here."""
    return "" if topic_id != ZERO_UUID else topic, topic_id, partition


@dataclass(slots=True)
class FetchedPartition:
    """A partition that a client fetches, and what the last response said of it."""

    topic: str
    topic_id: bytes
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    # Where a follower's log begins; -1 for a consumer.
    follower_log_start: int = -1
    high_watermark: int = -1
    log_start_offset: int = -1
    # The partition, while it has nothing to tell that the client does not know.
    settled: Partition | None = None
    # Where it comes in its session.
    place: int = 0

    def is_settled_by(self, data: PartitionData) -> bool:
        """Return whether a walk has found nothing that is new to the client."""
        has_news = data.high_watermark != self.high_watermark or data.log_start_offset != self.log_start_offset
        is_at_end = data.error_code == 0 and self.fetch_offset >= data.high_watermark
        moves = data.diverging_epoch.epoch >= 0 or data.preferred_read_replica >= 0
        return is_at_end and not has_news and not moves

    @property
    def key(self) -> Key:
        """What identifies the partition in its session."""
        return place_of(self.topic, self.topic_id, self.partition)

    def note(self, data: PartitionData) -> bool:
        """Remember what the response says; return whether any of it is new to the client."""
        changed = (
            data.error_code != 0
            or bool(data.records)
            or data.diverging_epoch.epoch >= 0
            or data.preferred_read_replica >= 0
            or data.high_watermark != self.high_watermark
            or data.log_start_offset != self.log_start_offset
        )
        self.high_watermark = data.high_watermark if data.error_code == 0 else -1
        self.log_start_offset = data.log_start_offset if data.error_code == 0 else -1
        return changed


class FetchSession:
    """One client's partitions, in the order in which they are served."""

    def __init__(self, session_id: int, by_id: bool) -> None:
        self.id = session_id
        self.by_id = by_id
        self.next_epoch = 1
        self.last_used_ms = 0
        self.partitions: OrderedDict[Key, FetchedPartition] = OrderedDict()
        # Invariant: each of `partitions` is in one of the two: the settled ones by the partition, the others by key.
        self.settled: dict[Partition, FetchedPartition] = {}
        self._unsettled: dict[Key, FetchedPartition] = {}
        # `wakes` of the purgatory at the last look at what has changed.
        self.seen_wakes = 0
        # How often the ACLs had changed at that look.
        self.seen_acl_changes = 0
        self._places = count()

    def news(self, changed: Iterable[object] | None) -> list[FetchedPartition]:
        """Return the partitions that may have something new for the client, in the order in which they are served.

        `changed` are the partitions that have changed since the last walk; None: any may have.
        """
        if changed is None:
            return list(self.partitions.values())
        settled = (self.settled.get(each) for each in changed if isinstance(each, Partition))
        news = [*self._unsettled.values(), *(each for each in settled if each is not None)]
        news.sort(key=_PLACE)
        return news

    def settle(self, each: FetchedPartition, found: Partition | None, data: PartitionData) -> None:
        """Note whether a walk has found nothing in a partition that is new to the client."""
        if not each.is_settled_by(data):
            found = None
        if each.settled is not found and self.partitions.get(each.key) is each:
            self._unsettle(each)
            if found is not None:
                each.settled = found
                self.settled[found] = self._unsettled.pop(each.key)

    def _unsettle(self, each: FetchedPartition) -> None:
        if each.settled is not None:
            del self.settled[each.settled]
            each.settled = None
        self._unsettled[each.key] = each

    def update(self, changed: Iterable[FetchedPartition], forgotten: Iterable[Key]) -> None:
        """Take over the changes of a request."""
        for each in changed:
            kept = self.partitions.get(each.key)
            if kept is None:
                self.partitions[each.key] = self._unsettled[each.key] = each
                each.place = next(self._places)
                continue
            kept.fetch_offset = each.fetch_offset
            kept.follower_log_start = each.follower_log_start
            kept.max_bytes = each.max_bytes
            kept.current_leader_epoch = each.current_leader_epoch
            kept.last_fetched_epoch = each.last_fetched_epoch
            self._unsettle(kept)
            # A topic that was unknown when the client asked first has a name by now.
            kept.topic = each.topic or kept.topic
        for key in forgotten:
            gone = self.partitions.pop(place_of(*key), None)
            if gone is not None:
                self._unsettle(gone)
                del self._unsettled[gone.key]

    def move_to_end(self, key: Key) -> None:
        """Serve the other partitions first next time, because this one got data: none may starve."""
        place = place_of(*key)
        if place in self.partitions:
            self.partitions.move_to_end(place)
            self.partitions[place].place = next(self._places)

    def advance(self) -> None:
        """Expect the next epoch in the next request."""
        self.next_epoch = self.next_epoch + 1 if self.next_epoch < _MAX_EPOCH else 1


class FetchSessions:
    """The cache of sessions."""

    def __init__(self, slots: int, clock: Clock) -> None:
        self._slots = slots
        self._clock = clock
        # Invariant: at most `slots`, the least recently used first.
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        # Invariant: the partitions of all sessions together, at most MAX_PARTITIONS.
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def clear(self) -> None:
        """Forget all sessions: the clients make new ones."""
        self._sessions.clear()
        self._partitions = 0

    def resolve(
        self, request: FetchRequest, fetched: list[FetchedPartition], forgotten: list[Key], by_id: bool
    ) -> FetchSession | None:
        """Return the session of a request, new or brought up to date; None for a full fetch, or if it has become empty.

        Raises FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR (the client
        changed between names and ids).
        """
        if request.session_epoch in (NEW_SESSION_EPOCH, FINAL_EPOCH):
            self.drop(request.session_id)
            return None if request.session_epoch == FINAL_EPOCH else self._new(fetched, by_id)
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.next_epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        before = len(session.partitions)
        session.update(fetched, forgotten)
        self._partitions += len(session.partitions) - before
        if self._partitions > MAX_PARTITIONS or len(session.partitions) > MAX_PARTITIONS_OF_ONE:
            # The client asks for a new session, and learns then that there is no room for it.
            self.drop(session.id)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if not session.partitions:
            self.drop(session.id)
            return None
        session.advance()
        self._touch(session)
        return session

    def _new(self, fetched: list[FetchedPartition], by_id: bool) -> FetchSession | None:
        if not self._make_room(len(fetched)):
            return None
        session = FetchSession(self._new_id(), by_id)
        session.update(fetched, ())
        self._sessions[session.id] = session
        self._partitions += len(session.partitions)
        self._touch(session)
        return session

    def drop(self, session_id: int) -> None:
        """Forget a session; its client makes a new one."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.partitions)

    def _make_room(self, partitions: int) -> bool:
        """Evict the oldest sessions until one of so many partitions fits; return False if they are in use."""
        while len(self._sessions) >= self._slots or self._partitions + partitions > MAX_PARTITIONS:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or self._clock.monotonic_ms() - oldest.last_used_ms < MIN_EVICTION_MS:
                return False
            self.drop(oldest.id)
        return True

    def _touch(self, session: FetchSession) -> None:
        session.last_used_ms = self._clock.monotonic_ms()
        self._sessions.move_to_end(session.id)

    def _new_id(self) -> int:
        while True:
            session_id = ids().randint(1, 2**31 - 1)
            if session_id not in self._sessions:
                return session_id
