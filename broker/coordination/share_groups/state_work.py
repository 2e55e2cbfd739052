"""What the group coordinator asks of the share coordinator: one piece of work at a time for each group."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from weakref import WeakValueDictionary

from ....protocol.errors import ErrorCode, KafkaError
from ..groups.actor import GroupActor
from ..modern.state import Place
from ..share_states.routed_persister import RoutedPersister
from ..share_states.share_state import UNINITIALIZED_OFFSET, ShareKey
from .events import StatesInitialized, StatesWanted
from .state import places_of

# States that one group has the share coordinator work on at the same time.
AT_ONCE = 50

_log = logging.getLogger(__name__)


class StateWork:
    """Begins and deletes the states of groups' partitions, from the first call to `stop`."""

    def __init__(self, persister: RoutedPersister, find: Callable[[str], GroupActor | None]) -> None:
        """`find` returns the group of an id, if this broker coordinates it."""
        self._persister = persister
        self._find = find
        # Those that somebody holds or waits for, and some that have just been left.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # What begins the states of a group.
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def stop(self) -> None:
        """End what is under way. The log says what was begun, and the next coordinator goes on. Idempotent."""
        for task in self._tasks.values():
            task.cancel()

    def _done(self, group_id: str, task: asyncio.Task[None]) -> None:
        del self._tasks[group_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the states of a share group could not be worked on", exc_info=error)

    def turn(self, group_id: str) -> asyncio.Lock:
        """Return what waits for earlier work on the group, and keeps later work waiting."""
        return self._locks.setdefault(group_id, asyncio.Lock())

    # -- Members wait for partitions

    def want(self, group_id: str, wanted: StatesWanted) -> None:
        """Begin the states that a heartbeat wants, unless there is work on the group: the next heartbeat asks again."""
        turn = self.turn(group_id)
        if group_id not in self._tasks and not turn.locked():
            task = self._tasks[group_id] = asyncio.ensure_future(self._initialize_all(turn, group_id, wanted))
            task.add_done_callback(partial(self._done, group_id))

    async def _initialize_all(self, turn: asyncio.Lock, group_id: str, wanted: StatesWanted) -> None:
        async with turn:
            # A deletion may have had its turn before.
            actor = self._find(group_id)
            share = None if actor is None else actor.state.share
            places = wanted.places.intersection(() if share is None else places_of(share.initializing))
            errors = await self.each(places, lambda place: self._begin(group_id, place, wanted.state_epoch))
            self.tell(group_id, places, errors)

    async def _begin(self, group_id: str, place: Place, state_epoch: int) -> None:
        """Begin a state, unless there is one: then this broker, or the one before, could not note that it is."""
        key = ShareKey(group_id, *place)
        if not (await self._persister.read_summary(key)).state_epoch:
            await self._persister.initialize(key, state_epoch, UNINITIALIZED_OFFSET)

    def tell(self, group_id: str, places: frozenset[Place], errors: dict[Place, KafkaError]) -> None:
        """Tell the group which of its states have begun."""
        if errors:
            _log.warning("share group %s: %d states could not be initialized", group_id, len(errors))
        actor = self._find(group_id)
        if actor is not None:
            failed = frozenset(errors)
            actor.feed(StatesInitialized(places - failed, failed))

    # -- Administrators

    async def delete(self, group_id: str, place: Place) -> None:
        """Delete a state. It is deleted already where the topic is."""
        try:
            await self._persister.delete(ShareKey(group_id, *place))
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise

    async def each(self, places: Iterable[Place], work: Callable[[Place], Awaitable[None]]) -> dict[Place, KafkaError]:
        """Do the work for each partition, some at once. Return the errors."""
        errors: dict[Place, KafkaError] = {}

        async def one(place: Place) -> None:
            try:
                await work(place)
            except KafkaError as error:
                errors[place] = error

        rest = sorted(places)
        for at in range(0, len(rest), AT_ONCE):
            await asyncio.gather(*map(one, rest[at : at + AT_ONCE]))
        return errors
