"""The persister of a broker: the share coordinator of this process, or that of another broker of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from ....protocol.errors import ErrorCode, KafkaError
from ..calls import Call, Eventual
from . import events
from .coordinator import ShareCoordinator
from .persister import Progress, ShareKey, ShareState, StateBatch

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
    """A Persister."""

    def __init__(self, coordinator: ShareCoordinator, elsewhere: Elsewhere = nowhere) -> None:
        self._coordinator = coordinator
        self._elsewhere = elsewhere

    async def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> None:
        await self._ask(key, lambda token: events.Initialize(token, state_epoch, start_offset))

    async def read(self, key: ShareKey, leader_epoch: int) -> ShareState:
        return _state(await self._ask(key, lambda token: events.Read(token, leader_epoch)))

    async def write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        progress: Callable[[], Progress],
        batches: Sequence[StateBatch],
    ) -> None:
        await self._ask(key, lambda token: events.Write(token, state_epoch, leader_epoch, *progress(), batches))

    async def read_summary(self, key: ShareKey, leader_epoch: int = -1) -> ShareState:
        return _state(await self._ask(key, events.Summarize))

    async def delete(self, key: ShareKey) -> None:
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

        asked: Eventual[_Answered] = self._coordinator.ask(key, answered_to, _Answered)
        return (await asked if isinstance(asked, asyncio.Future) else asked).answer


class _Answered(NamedTuple):
    """An answer, which may be None; a call without a response still waits for one."""

    answer: events.Answer


# What is sent elsewhere is answered by its response.
_UNUSED: Call[events.Answer, events.Answer] = Call(lambda answer: answer)


def _state(answer: ShareState | None) -> ShareState:
    assert answer is not None
    return answer
