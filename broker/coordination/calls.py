"""A request that a coordinator may not be able to answer at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

AnswerT = TypeVar("AnswerT")
ResponseT = TypeVar("ResponseT")


class Call(Generic[AnswerT, ResponseT]):
    """One request, and its token in the machine. The response is there at once, or a future of it is."""

    __slots__ = ("_future", "_respond", "response")

    def __init__(self, respond: Callable[[AnswerT], ResponseT]) -> None:
        self._respond = respond
        # None until it is made at once.
        self.response: ResponseT | None = None
        self._future: asyncio.Future[ResponseT] | None = None

    def answer(self, answer: AnswerT, /) -> None:
        """Make the response. Do nothing for a client whose connection is gone."""
        if self._future is None:
            if self.response is None:
                self.response = self._respond(answer)
        elif not self._future.done():
            self._future.set_result(self._respond(answer))

    def result(self) -> ResponseT | asyncio.Future[ResponseT]:
        """Return the response, or a future of it."""
        if self.response is None:
            self._future = asyncio.get_running_loop().create_future()
            return self._future
        return self.response
