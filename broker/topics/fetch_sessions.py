"""Fetch sessions (KIP-227): what a consumer fetches is kept here, so that requests and answers carry only changes.

A session is made by a request with epoch 0 and goes on with epochs 1, 2, 3...; a request with another epoch is
refused, one with epoch -1 ends it. Sessions are kept in a cache of `max.incremental.fetch.session.cache.slots`; the
one unused for longest goes first, but not before it was idle for `MIN_EVICTION_MS`. Where no slot is free, or the
sessions together would hold more than `MAX_PARTITIONS`, the client gets session id 0 and fetches in full each time:
slower, never wrong.
"""

import random
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.fetch import FetchRequest, PartitionData
from ..clock import Clock

# KIP-227's own number: a session in use is not thrown out for a new one.
MIN_EVICTION_MS = 120_000
# Of all sessions together, some 500 bytes each: a client may name as many as it likes in a request, and would leave
# them here.
MAX_PARTITIONS = 100_000
NEW_SESSION_EPOCH = 0
FINAL_EPOCH = -1
_MAX_EPOCH = 2**31 - 1

# (topic name, topic id, partition): name "" where the client spoke in ids of a topic that we do not know, id zero
# where in names.
Key = tuple[str, bytes, int]


@dataclass(slots=True)
class Wanted:
    """A partition that a client fetches, and what it was last told of it."""

    topic: str
    topic_id: bytes
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    high_watermark: int = -1
    log_start_offset: int = -1

    @property
    def key(self) -> Key:
        return self.topic, self.topic_id, self.partition

    def note(self, answer: PartitionData) -> bool:
        """Remembers what the client is told now; True if any of it is new to the client."""
        changed = (
            answer.error_code != 0
            or bool(answer.records)
            or answer.diverging_epoch.epoch >= 0
            or answer.high_watermark != self.high_watermark
            or answer.log_start_offset != self.log_start_offset
        )
        self.high_watermark = answer.high_watermark if answer.error_code == 0 else -1
        self.log_start_offset = answer.log_start_offset if answer.error_code == 0 else -1
        return changed


class FetchSession:
    """One client's partitions in the order in which they are served: who got data goes to the end, so that none
    starves.
    """

    def __init__(self, session_id: int, by_id: bool) -> None:
        self.id = session_id
        self.by_id = by_id
        self.next_epoch = 1
        self.last_used_ms = 0
        self.wanted: OrderedDict[Key, Wanted] = OrderedDict()

    def update(self, changed: Iterable[Wanted], forgotten: Iterable[Key]) -> None:
        """Takes over what the client changed."""
        for each in changed:
            kept = self.wanted.get(each.key)
            if kept is None:
                self.wanted[each.key] = each
                continue
            kept.fetch_offset = each.fetch_offset
            kept.max_bytes = each.max_bytes
            kept.current_leader_epoch = each.current_leader_epoch
            kept.last_fetched_epoch = each.last_fetched_epoch
        for key in forgotten:
            self.wanted.pop(key, None)

    def served(self, key: Key) -> None:
        """This partition got data: the others come first next time."""
        if key in self.wanted:
            self.wanted.move_to_end(key)

    def advance(self) -> None:
        """The request was taken; the next one carries the next epoch."""
        self.next_epoch = self.next_epoch + 1 if self.next_epoch < _MAX_EPOCH else 1


class FetchSessions:
    """The cache of sessions."""

    def __init__(self, slots: int, clock: Clock) -> None:
        self._slots = slots
        self._clock = clock
        # Invariant: at most `slots`, the least recently used first.
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        # Invariant: what the sessions hold together, at most MAX_PARTITIONS.
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def clear(self) -> None:
        """Forgets all: the clients make new ones."""
        self._sessions.clear()
        self._partitions = 0

    def resolve(
        self, request: FetchRequest, wanted: list[Wanted], forgotten: list[Key], by_id: bool
    ) -> FetchSession | None:
        """The session of a request, brought up to date; None for a full fetch without one, and where nothing is left
        in it.

        A new session is made by the same call. Errors: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH,
        FETCH_SESSION_TOPIC_ID_ERROR (the client changed between names and ids).
        """
        if request.session_epoch in (NEW_SESSION_EPOCH, FINAL_EPOCH):
            self._drop(request.session_id)
            if request.session_epoch == FINAL_EPOCH or not wanted:
                return None
            return self._new(wanted, by_id)
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.next_epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        before = len(session.wanted)
        session.update(wanted, forgotten)
        self._partitions += len(session.wanted) - before
        if self._partitions > MAX_PARTITIONS:
            # The client begins anew, and is told then that there is no place for its session.
            self._drop(session.id)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if not session.wanted:
            self._drop(session.id)
            return None
        session.advance()
        self._touch(session)
        return session

    def _new(self, wanted: list[Wanted], by_id: bool) -> FetchSession | None:
        if not self._make_place(len(wanted)):
            return None
        session = FetchSession(self._new_id(), by_id)
        session.update(wanted, ())
        self._sessions[session.id] = session
        self._partitions += len(session.wanted)
        self._touch(session)
        return session

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.wanted)

    def _make_place(self, partitions: int) -> bool:
        """Has the oldest go until one of so many partitions fits; False if they are in use."""
        while len(self._sessions) >= self._slots or self._partitions + partitions > MAX_PARTITIONS:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or self._clock.monotonic_ms() - oldest.last_used_ms < MIN_EVICTION_MS:
                return False
            self._drop(oldest.id)
        return True

    def _touch(self, session: FetchSession) -> None:
        session.last_used_ms = self._clock.monotonic_ms()
        self._sessions.move_to_end(session.id)

    def _new_id(self) -> int:
        while True:
            session_id = random.randint(1, 2**31 - 1)
            if session_id not in self._sessions:
                return session_id
