"""A call: a request that the coordinator may not be able to answer at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, cast

from ...protocol.schema import Struct

AnswerT = TypeVar("AnswerT")
PartT = TypeVar("PartT", bound=Struct)
ResponseT = TypeVar("ResponseT")

# In the place of a response that is not there yet.
_NONE_YET: Any = object()
# A response, or a future of it.
Eventual = ResponseT | asyncio.Future[ResponseT]


class Call(Generic[AnswerT, ResponseT]):
    """One request. It is also the token that the machine hands back with the answer."""

    __slots__ = ("_future", "_respond", "_response")

    def __init__(self, respond: Callable[[AnswerT], ResponseT]) -> None:
        self._respond = respond
        self._response: ResponseT = _NONE_YET
        self._future: asyncio.Future[ResponseT] | None = None

    def answer(self, answer: AnswerT, /) -> None:
        """Make the response. Do nothing for a client whose connection is gone."""
        if self._future is None:
            if self._response is _NONE_YET:
                self._response = self._respond(answer)
        elif not self._future.done():
            self._future.set_result(self._respond(answer))

    def result(self, then: Callable[[], None] | None = None) -> Eventual[ResponseT]:
        """Return the response, or a future of it. `then` is called once it is there: before, nothing has happened."""
        if self._response is _NONE_YET:
            self._future = asyncio.get_running_loop().create_future()
            if then is not None:
                self._future.add_done_callback(lambda _: then())
            return self._future
        if then is not None:
            then()
        return self._response


async def awaited(response: Eventual[ResponseT]) -> ResponseT:
    """Return a response once it is there."""
    return await cast("asyncio.Future[ResponseT]", response) if isinstance(response, asyncio.Future) else response


def combine(parts: Sequence[Eventual[PartT]], respond: Callable[[list[PartT]], ResponseT]) -> Eventual[ResponseT]:
    """Return the response that is made of all parts, once the last of them is there."""

    async def response() -> ResponseT:
        # What was begun goes on, though the client may be gone.
        return respond([await asyncio.shield(each) if isinstance(each, asyncio.Future) else each for each in parts])

    ready = [each for each in parts if not isinstance(each, asyncio.Future)]
    return respond(ready) if len(ready) == len(parts) else asyncio.ensure_future(response())
