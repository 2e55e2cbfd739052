"""The persister of a broker: the share coordinator of this process, or that of another broker of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ....protocol.errors import ErrorCode, KafkaError
from ..calls import Call, awaited
from . import events
from .coordinator import ShareCoordinator
from .share_state import Progress, ShareKey, ShareState, StateBatch

# Makes an event of the token that its answer goes to.
MakeEvent = Callable[[Any], events.Request]
# Asks the coordinator on another broker; None where this broker is to answer itself.
Elsewhere = Callable[[ShareKey, events.Request], Awaitable[events.Answer] | None]

# A coordinator that moves or loads is asked again after these times, as Kafka does. Then the caller gets the error.
RETRIES_S = (0.1, 0.2, 0.4, 0.8)
_PASSING = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
)


def nowhere(key: ShareKey, event: events.Request) -> None:
    """Leave every key to this broker, which is alone."""


class RoutedPersister:
    """Where leaders of partitions and the group coordinator keep the states of share groups (share_state.py).

    Each method raises KafkaError. Codes of a coordinator (COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR,
    COORDINATOR_NOT_AVAILABLE) come once the tries are used up: the same call may succeed later.
    """

    def __init__(self, coordinator: ShareCoordinator, elsewhere: Elsewhere = nowhere) -> None:
        self._coordinator = coordinator
        self._elsewhere = elsewhere

    async def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> None:
        """Begin a state, or begin it again. FENCED_STATE_EPOCH if a newer state epoch is known."""
        await self._ask(key, lambda token: events.Initialize(token, state_epoch, start_offset))

    async def read(self, key: ShareKey, leader_epoch: int) -> ShareState:
        """Return the state, and fence leaders of lower epochs.

        FENCED_LEADER_EPOCH if a newer leader has read it. INVALID_REQUEST if it was not initialized.
        """
        return _state(await self._ask(key, lambda token: events.Read(token, leader_epoch)))

    async def write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        progress: Callable[[], Progress],
        batches: Sequence[StateBatch],
    ) -> None:
        """Change the state: the batches win over what is there, and what is below the start offset goes.

        `progress` is called for each try: one that comes late must not set back what others have written before it.
        A start offset of -1 leaves it. FENCED_STATE_EPOCH or FENCED_LEADER_EPOCH if a newer epoch is known,
        INVALID_REQUEST if the state was not initialized: nothing has changed.
        """
        await self._ask(key, lambda token: events.Write(token, state_epoch, leader_epoch, *progress(), batches))

    async def read_summary(self, key: ShareKey) -> ShareState:
        """Return the state without its batches. A start offset of -1 if it was not initialized."""
        return _state(await self._ask(key, events.Summarize))

    async def delete(self, key: ShareKey) -> None:
        """Forget the state. One that does not exist is no error."""
        await self._ask(key, events.Delete)

    async def _ask(self, key: ShareKey, make_event: MakeEvent) -> ShareState | None:
        """Return the answer. Raise it where it is an error that does not pass, or not in time."""
        for wait_s in (*RETRIES_S, None):
            answer = await self._try(key, make_event)
            if not isinstance(answer, KafkaError):
                return answer
            if wait_s is None or answer.code not in _PASSING:
                raise KafkaError(answer.code, answer.message)
            await asyncio.sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    async def _try(self, key: ShareKey, make_event: MakeEvent) -> events.Answer:
        event = make_event(_UNUSED)
        elsewhere = self._elsewhere(key, event)
        if elsewhere is not None:
            return await elsewhere

        def answered_to(token: Call[events.Answer, Any]) -> events.Request:
            event.token = token
            return event

        return await awaited(self._coordinator.ask(key, answered_to, lambda answer: answer))


# What is sent elsewhere is answered by its response.
_UNUSED: Call[events.Answer, events.Answer] = Call(lambda answer: answer)


def _state(answer: ShareState | None) -> ShareState:
    assert answer is not None
    return answer
