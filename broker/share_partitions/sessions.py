"""Share sessions (KIP-932): what a member of a share group fetches, bound to its connection.

A request with epoch 0 begins a session. It goes on with 1, 2, 3..., for ShareFetch and ShareAcknowledge alike; -1 ends
it. A session also ends with its connection. At the end the member gives back what it holds. There are at most
`group.share.max.share.sessions`, and none is evicted: a member without a session is told to try again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from ...protocol.errors import ErrorCode, KafkaError
from ..coordination.modern.state import Place
from .led_partitions import SharePartitions

NEW_EPOCH = 0
FINAL_EPOCH = -1
_MAX_EPOCH = 2**31 - 1
# Of all sessions together, some 200 bytes each: without a bound, clients could fill the memory.
MAX_PARTITIONS = 100_000
# Of one session: its first request looks at them all.
MAX_PARTITIONS_OF_ONE = 10_000
# So many that left a session are not worth a look.
MIN_LEFT = 100


class Closing(Protocol):
    """A connection, as sessions know it."""

    # What is called when it is closed.
    at_close: dict[Hashable, Callable[[], None]]


@dataclass(slots=True)
class Seen:
    """What a request has looked at, so that the next one looks at what has changed since alone."""

    # How often topics and ACLs had changed, and the configs of the group.
    versions: object
    # The last wake of the purgatory that it knows of.
    wakes: int
    # The partitions, by what is woken with news of them.
    watched: dict[Hashable, Place]
    # Partitions that are worth a look without news: they had records or errors.
    unsettled: dict[Place, None]


@dataclass(slots=True)
class ShareSession:
    """What one member fetches."""

    group_id: str
    member_id: str
    connection: Closing
    next_epoch: int = 1
    # In the order in which the member named them; True: the member has not been told of the partition yet.
    partitions: dict[Place, bool] = field(default_factory=dict[Place, bool])
    # Partitions that left the session, and of which the member may hold records.
    left: set[Place] = field(default_factory=set[Place])
    # How many of them were left when those of which it holds none were dropped.
    were_held: int = 0
    # What the last request has learned, None where there was none that ended well.
    seen: Seen | None = None

    # The part of the bound on all sessions together that it has taken.
    counted: int = 0

    @property
    def key(self) -> tuple[str, str]:
        return self.group_id, self.member_id

    @property
    def weight(self) -> int:
        """How many partitions it remembers."""
        return len(self.partitions) + len(self.left)

    def update(self, named: Iterable[Place], forgotten: Iterable[Place]) -> None:
        """Take over what a request names."""
        for place in named:
            if place not in self.partitions:
                self.partitions[place] = True
                if self.seen is not None:
                    self.seen.unsettled[place] = None
            self.left.discard(place)
        for place in forgotten:
            if self.partitions.pop(place, None) is not None:
                self.left.add(place)

    def rotated(self) -> list[Place]:
        """Return the partitions in the order in which this request is served: none may starve."""
        places = list(self.partitions)
        start = (self.next_epoch - 1) % len(places) if places else 0
        return places[start:] + places[:start]

    def advance(self) -> None:
        """Expect the next epoch in the next request."""
        self.next_epoch = self.next_epoch + 1 if self.next_epoch < _MAX_EPOCH else 1


class ShareSessions:
    """The sessions of this broker."""

    def __init__(self, partitions: SharePartitions, max_sessions: int) -> None:
        self._partitions = partitions
        self._max_sessions = max_sessions
        # Invariant: at most `_max_sessions`.
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        # The partitions of all sessions together.
        self._total = 0
        # How many sessions a group has; no group has 0.
        self._of_group: dict[str, int] = {}
        # Ends of sessions that are under way.
        self._ends: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._sessions)

    def is_open(self, session: ShareSession) -> bool:
        """Return whether a session has not ended, nor given way to a new one of the member."""
        return self._sessions.get(session.key) is session

    def begin(self, group_id: str, member_id: str, named: Iterable[Place], connection: Closing) -> ShareSession:
        """Return a new session in the place of one that the member has. What it holds it still holds.

        SHARE_SESSION_LIMIT_REACHED where there is no room.
        """
        session = ShareSession(group_id, member_id, connection)
        session.update(named, ())
        old = self._remove((group_id, member_id))
        if old is not None:
            session.left = old.left | (old.partitions.keys() - session.partitions.keys())
            self._drop_unheld(session)
        try:
            self._check_room(session)
        except KafkaError:
            self._uncount(session)
            if old is not None:
                self._end_later(old)
            raise
        self._sessions[session.key] = session
        self._of_group[group_id] = self._of_group.get(group_id, 0) + 1
        connection.at_close[session.key] = lambda: self._closed(session)
        return session

    def go_on(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        """Return the session of a member that sends its next epoch, or the final one.

        SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.next_epoch:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.advance()
        return session

    def update(self, session: ShareSession, named: Iterable[Place], forgotten: Iterable[Place]) -> None:
        """Take over what a request names. SHARE_SESSION_LIMIT_REACHED, and the session's end, where it is too much."""
        session.update(named, forgotten)
        self._drop_unheld(session)
        try:
            self._check_room(session)
        except KafkaError:
            self.end(session)
            raise

    def _drop_unheld(self, session: ShareSession) -> None:
        """Forget partitions that left the session and of which the member holds nothing, when they have doubled."""
        if len(session.left) > MIN_LEFT + 2 * session.were_held:
            holds = self._partitions.holds
            session.left = {each for each in session.left if holds(session.group_id, session.member_id, each)}
            session.were_held = len(session.left)

    def _check_room(self, session: ShareSession) -> None:
        self._total += session.weight - session.counted
        session.counted = session.weight
        is_too_many = len(self._sessions) + (not self.is_open(session)) > self._max_sessions
        if is_too_many or session.weight > MAX_PARTITIONS_OF_ONE or self._total > MAX_PARTITIONS:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)

    # -- The end -----------------------------------------------------------------------------------------

    def end(self, session: ShareSession) -> asyncio.Task[None]:
        """End a session; the task is done when everything that the member held is given back."""
        if self.is_open(session):
            self._remove(session.key)
        return self._end_later(session)

    def _closed(self, session: ShareSession) -> None:
        if self.is_open(session):
            self.end(session)

    def _remove(self, key: tuple[str, str]) -> ShareSession | None:
        session = self._sessions.pop(key, None)
        if session is not None:
            session.connection.at_close.pop(key, None)
            self._uncount(session)
            self._of_group[session.group_id] -= 1
            if not self._of_group[session.group_id]:
                del self._of_group[session.group_id]
        return session

    def _uncount(self, session: ShareSession) -> None:
        self._total -= session.counted
        session.counted = 0

    def _end_later(self, session: ShareSession) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self._give_back(session))
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)
        return task

    async def _give_back(self, session: ShareSession) -> None:
        await self._partitions.acknowledged(session.group_id)
        # Asked of each when its turn comes: the member may have begun another session, and acquired in it.
        places = (each for each in (*session.partitions, *session.left) if not self._knows(session.key, each))
        await self._partitions.release(session.group_id, session.member_id, places)
        if not self._has_sessions(session.group_id):
            await self._partitions.forget_group(session.group_id, lambda: self._has_sessions(session.group_id))

    def _knows(self, key: tuple[str, str], place: Place) -> bool:
        """Return whether the present session of a member gives back what it holds of a partition."""
        present = self._sessions.get(key)
        return present is not None and (place in present.partitions or place in present.left)

    def _has_sessions(self, group_id: str) -> bool:
        return group_id in self._of_group

    async def close(self, deadline_s: float) -> None:
        """End every session, and wait at most `deadline_s` until what the members held is given back."""
        clock = asyncio.get_running_loop().time
        ends_s = clock() + deadline_s
        for session in list(self._sessions.values()):
            self.end(session)
        if self._ends:
            # A group is forgotten once its dead letters are written, which may take longer.
            await asyncio.wait(self._ends, timeout=deadline_s)
        await self._partitions.close(max(ends_s - clock(), 0.0))
