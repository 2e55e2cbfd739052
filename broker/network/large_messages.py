"""Large messages: requests are decoded in a thread and handled a portion a turn, responses made in turns as well.

An ordinary request is decoded, handled and encoded in one turn, which others wait for. A turn should take some ten
milliseconds at most, so every route says how many values (array elements) one turn may handle. A request with more is
cut into portions of that many, each a request of its own, and their responses are joined. One that cannot be cut, and
one with more than `MAX_VALUES`, is rejected. So is a response made that has many values (turns.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.schema import Message
from ...protocol.shapes.portions import Weights, join, portions
from ...protocol.shapes.shape import Items
from ..threads import DiskThreads, Work
from ..turns import LargeResponse, keeper
from .connection_memory import ConnectionMemory
from .send_queue import EncodedResponse

Result = TypeVar("Result")
# What a handler returns: the response, one that is made in turns, or a future of either.
Handled = Message | LargeResponse[Any] | None
Encode = Callable[[Message | None], EncodedResponse]

# The most values of one request. They take some 200 bytes each, so a request costs 20 MB beside its own bytes.
MAX_VALUES = 100_000
# Large requests that are under way at the same time, and as many large responses. The others wait.
AT_ONCE = 2
# Decoding and encoding keep a processor busy, not a disk.
_NO_DIRECTORY = Path()


@dataclass(frozen=True, slots=True)
class Cut:
    """How requests of an API in one version are cut into portions."""

    # The lists that may be cut: the first that a request fills.
    lists: tuple[Items, ...]
    # How many values a portion has at most, and its items count for.
    max_values: int
    weights: Weights


class LargeMessages:
    """The way of requests and responses that have too many values for one turn."""

    def __init__(self, threads: DiskThreads, unread: ConnectionMemory) -> None:
        """`unread` is the memory of responses that clients have not read: without room none is made."""
        self._threads = threads
        self._unread = unread
        self._requests = asyncio.Semaphore(AT_ONCE)
        self._responses = asyncio.Semaphore(AT_ONCE)

    async def handle(
        self,
        decode: Callable[[], Message],
        cut: Cut | None,
        handle: Callable[[Message], Handled | asyncio.Future[Any]],
        encode: Encode,
    ) -> EncodedResponse:
        """Return the encoded response to a request of many values. Raises what the functions raise, or KafkaError."""
        async with self._requests:
            await self._unread.room()
            request = await self._in_thread(decode)
            response = await self._in_portions(request, cut, handle)
            return await self._in_thread(partial(encode, response))

    async def handle_decoded(
        self,
        request: Message,
        cut: Cut,
        handle: Callable[[Message], Handled | asyncio.Future[Any]],
        encode: Encode,
    ) -> EncodedResponse:
        """Return the encoded response to a request of few values, which are too much work for one turn."""
        response = await self._in_portions(request, cut, handle)
        return await self._in_thread(partial(encode, response))

    async def respond(self, large: LargeResponse[Any], encode: Encode) -> EncodedResponse:
        """Make a response in turns and return it encoded."""
        async with self._responses:
            await self._unread.room()
            await keeper().finish(large.steps)
            return await self._in_thread(partial(encode, large.response))

    async def _in_portions(
        self,
        request: Message,
        cut: Cut | None,
        handle: Callable[[Message], Handled | asyncio.Future[Any]],
    ) -> Message | None:
        """Handle a request a portion a turn; without `cut` as a whole. Return the joined response."""
        if cut is None:
            return await _handled(handle(request))
        items = next((each for each in cut.lists if getattr(request, each.items)), None)
        if items is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the request has most of its values where it cannot be cut")
        response: Message | None = None
        for portion in portions(request, items, cut.max_values, cut.weights):
            result = await _handled(handle(portion))
            if response is None:
                response = result
            elif result is not None:
                join(response, result, items)
            await asyncio.sleep(0)
        return response

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await self._threads.run(Work.LARGE_MESSAGE, _NO_DIRECTORY, work)


async def _handled(result: Handled | asyncio.Future[Any]) -> Message | None:
    """Return a response when it is there and complete."""
    if isinstance(result, asyncio.Future):
        result = cast("Handled", await result)
    if not isinstance(result, LargeResponse):
        return result
    await keeper().finish(result.steps)
    return cast("Message", result.response)
