"""The records that the workers of `ShareConsumer.consume` have: to the workers what a poller is (consumer/workers.py).

    poll -> open --done--> accepted
                 --the handler has failed--> pausing --retry_backoff_ms, doubled with each delivery--> released
                 --the handler has said what becomes of it--> as it said

While a record is open or pausing its lock is renewed when half of its time is over. One that a handler has for
`max_poll_interval_ms` is renewed no more: its lock ends, and another member gets it. What was fetched and no worker has
yet is renewed, too, unless all handlers last too long: each lock that ends is a delivery less. As many records are open
as there are handlers, or as these do until the next look.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..consumer.options import WorkOptions
from ..consumer.poller import LONG_POLL_MS
from ..core.clock import Backoff, monotonic_ms
from ..core.lifetime import end_tasks
from ..errors import ConcurrentPoll, DeserializationFailed
from ..record import ShareRecord, TopicPartition
from .deliveries import Acknowledgement, Held
from .session import Session

_log = logging.getLogger(__name__)

# How often locks, pauses, acknowledgements and the room for records are looked at, at most.
_LOOK_MS = 100
_Place = tuple[str, int, int]
_Record = ShareRecord[Any, Any]


class HeldRecords:
    """The open records of one consumer. It is both the source of workers and what they have in flight."""

    def __init__(self, session: Session, options: WorkOptions, max_handler_ms: float, max_poll_records: int) -> None:
        self._session = session
        self._deliveries = session.deliveries
        self._backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms)
        self._max_handler_ms = max_handler_ms
        self._max_poll_records = max_poll_records
        self._concurrency = self._room = options.concurrency
        # How many records were done since the last look, and how long there were any to do.
        self._done = 0
        self._busy_ms = 0.0
        self._busy_from_ms = 0.0
        # Set when there may be room again.
        self._moved = asyncio.Event()
        # Each with the time until which it is renewed.
        self._open: dict[_Place, tuple[_Record, float]] = {}
        # Each with the time at which it is released.
        self._pausing: dict[_Place, tuple[_Record, float]] = {}
        # The leaders that are being asked for renewals. One that does not answer holds no other up.
        self._renewing: set[int] = set()
        self._keeper: asyncio.Task[None] | None = None

    # -- For the workers

    def begin_by_record(self) -> HeldRecords:
        """Have workers say what becomes of each record. Raises ConcurrentPoll."""
        if self._session.is_by_record:
            raise ConcurrentPoll("consume() takes the records of this share consumer already")
        self._session.is_by_record = True
        self._keeper = self._session.cluster.spawn(self._keep(), "share locks")
        return self

    async def records_in_flight(self, room: Callable[[], int]) -> Mapping[TopicPartition, list[_Record]]:
        """Return records, `room()` at most, when there are some. One that cannot be deserialized is released.

        What no handler will soon have stays with the group: another member may be free.
        """
        while len(self._open) >= self._room:
            self._moved.clear()
            await self._moved.wait()
        left = self._room - len(self._open)
        try:
            is_fast = self._room >= self._max_poll_records
            records = await self._session.poll(min(room(), left), LONG_POLL_MS, None if is_fast else left)
        except DeserializationFailed as error:
            _log.warning("consume: a record is released: %s", error)
            return {}
        now_ms = monotonic_ms()
        renewed_until_ms = now_ms + self._max_handler_ms
        if not self._open:
            self._busy_from_ms = now_ms
        found: dict[TopicPartition, list[_Record]] = {}
        for record in records:
            place = _place(record)
            self._open[place] = record, renewed_until_ms
            # It pauses no more where its lock has ended meanwhile.
            self._pausing.pop(place, None)
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        return found

    def has(self, record: Any) -> bool:
        """Return whether this consumer still holds a record that is open."""
        return _place(record) in self._open and self._is_locked(record)

    def finish(self, record: Any, now_ms: float) -> None:
        """Accept a record, unless its handler has said what becomes of it, or its lock has ended."""
        if self._open.pop(_place(record), None) is not None:
            self._settle(record, Acknowledgement.ACCEPT)
        self._done += 1
        if not self._open:
            self._busy_ms += now_ms - self._busy_from_ms
        self._moved.set()

    def count(self) -> int:
        """Return how many records are open."""
        self._forget_lost()
        return len(self._open)

    async def fail(self, record: Any, error: Exception) -> None:
        """Have a record released after a pause: its handler has failed."""
        place, pause_ms = _place(record), self._backoff.pause_ms(record.delivery_count)
        _log.warning("consume: %s-%d at offset %d is released in %.0f ms: %.500r", *place, pause_ms, error)
        if self._open.pop(place, None) is not None:
            self._pausing[place] = record, monotonic_ms() + pause_ms

    async def end_by_record(self) -> None:
        """Release what is not done, and tell the leaders."""
        if self._keeper is not None:
            await end_tasks((self._keeper,))
        for record, _ in (*self._open.values(), *self._pausing.values()):
            self._settle(record, Acknowledgement.RELEASE)
        self._open.clear()
        self._pausing.clear()
        self._session.is_by_record = False
        if not self._session.is_stopping:
            await self._session.leaders.tell_all()

    # -- Locks and pauses

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_MS / 1000)
            self._forget_lost()
            now_ms = monotonic_ms()
            self._look_for_room(now_ms)
            for place, (record, release_ms) in list(self._pausing.items()):
                if release_ms <= now_ms:
                    del self._pausing[place]
                    self._settle(record, Acknowledgement.RELEASE)
            # At once: until then a worker that dies has its jobs done again.
            self._session.leaders.tell_soon()
            self._renew_soon(now_ms)

    def _look_for_room(self, now_ms: float) -> None:
        """Have room for what the handlers do until the next look, but for one record each at least."""
        if self._open:
            self._busy_ms += now_ms - self._busy_from_ms
            self._busy_from_ms = now_ms
        if self._busy_ms or self._done:
            soon = int(self._done * _LOOK_MS / max(self._busy_ms, 1.0))
            self._room = max(self._concurrency, min(soon, self._max_poll_records))
        self._done, self._busy_ms = 0, 0.0
        self._moved.set()

    def _renew_soon(self, now_ms: float) -> None:
        """Begin to renew the locks of which half the time is over."""
        half_ms = (self._session.leaders.lock_timeout_ms or 0) / 2
        due: dict[int, list[Held]] = {}
        for each in self._kept(now_ms):
            if not each.is_given_up and 0 < each.lock_ends_ms - now_ms < half_ms:
                due.setdefault(each.source.node_id, []).append(each)
        for node_id in due.keys() - self._renewing:
            self._renewing.add(node_id)
            self._session.cluster.spawn(self._renew(node_id, due[node_id]), "share renewals")

    def _kept(self, now_ms: float) -> list[Held]:
        """Return what is not to be lost."""
        worked_on = [record for record, until_ms in self._open.values() if until_ms > now_ms]
        records = (*worked_on, *(record for record, _ in self._pausing.values()))
        kept = [self._deliveries.held(each) for each in records if self._is_locked(each)]
        return kept + self._deliveries.waiting() if worked_on or not self._open else kept

    async def _renew(self, node_id: int, due: Iterable[Held]) -> None:
        """Renew the locks of one leader. Where it rejects some, each is tried by itself."""
        try:
            for each in await self._rejected(due):
                each.is_given_up = bool(await self._rejected([each]))
        finally:
            self._renewing.discard(node_id)

    async def _rejected(self, due: Iterable[Held]) -> list[Held]:
        """Renew locks, and return the records whose leader has rejected it."""
        held = [each for each in due if self._deliveries.has(each)]
        results = await self._session.leaders.renew(held)
        for partition, error in results.items():
            if error is not None:
                _log.info("consume: a lock of %s-%d is not renewed: %s", *partition, error)
        return [each for each in held if results.get(each.place[0]) is not None]

    def _is_locked(self, record: _Record) -> bool:
        return (self._deliveries.lock_ends_ms(record) or 0.0) > monotonic_ms()

    def _settle(self, record: _Record, what: Acknowledgement) -> None:
        if self._is_locked(record):
            self._deliveries.settle(record, what, monotonic_ms())
        else:
            # To acknowledge it would have its leader reject what is said of others.
            self._deliveries.drop(record)

    def _forget_lost(self) -> None:
        """Forget records whose locks have ended, and those of which a handler has said what becomes of them."""
        for records in (self._open, self._pausing):
            for place, (record, _) in list(records.items()):
                if not self._is_locked(record):
                    del records[place]
                    self._deliveries.drop(record)


def _place(record: _Record) -> _Place:
    return record.topic, record.partition, record.offset
