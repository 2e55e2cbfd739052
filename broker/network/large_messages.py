"""Large messages: requests are decoded in a thread and handled a portion a turn, responses made in turns as well.

An ordinary request is decoded, handled and encoded in one turn, which others wait for. So every route says how many
values (array elements) such a request has at most. One with more is cut into portions, each a request of its own with
as many values as a slice of a turn has time for, and their responses are joined. One that cannot be cut, and one with
more than `MAX_VALUES`, is rejected. So is a response made that has many values (turns.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from ...protocol.apis import key_of
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.schema import Message
from ...protocol.shapes.answers import items_rejection, names_items, whole_error
from ...protocol.shapes.portions import Weights, join, portions, with_field
from ...protocol.shapes.shape import Items
from ..threads import DiskThreads, Work
from ..turns import SLICE_NS, LargeResponse, keeper
from .connection_memory import ConnectionMemory
from .send_queue import EncodedResponse

Result = TypeVar("Result")
# What a handler returns: the response, one that is made in turns, or a future of either.
Handled = Message | LargeResponse[Any] | None
Encode = Callable[[Message | None], EncodedResponse]
# Returns a response when it is there and complete.
Complete = Callable[[Handled | asyncio.Future[Any]], Coroutine[Any, Any, Message | None]]

# The most values of one request. They take some 200 bytes each, so a request costs 20 MB beside its own bytes.
MAX_VALUES = 100_000
# Large requests that are under way at the same time, and as many large responses. The others wait.
AT_ONCE = 2
# A portion that waits for longer, for followers perhaps, leaves its place to the large requests of others.
_KEPT_S = 0.1
# The values of the first portion, of which nobody knows yet how long they take.
_FIRST_VALUES = 50
# Decoding and encoding keep a processor busy, not a disk.
_NO_DIRECTORY = Path()


class Cut(NamedTuple):
    """How requests of an API in one version are cut into portions."""

    version: int
    # The lists that may be cut: the first that a request fills.
    lists: tuple[Items, ...]
    # How many values a portion has at most, and its items count for.
    max_values: int
    weights: Weights


class _Place:
    """One of the places of large requests, or of large responses, which may be left and taken again.

    Where a client goes away, its request goes on, and keeps its place: the threads have no more to do at once.
    """

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._is_taken = False

    async def __aenter__(self) -> _Place:
        await self.take()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.leave()

    async def take(self) -> None:
        """Wait for a place, unless it is taken."""
        if not self._is_taken:
            await self._places.acquire()
            self._is_taken = True

    def leave(self) -> None:
        """Leave the place to others. Idempotent."""
        if self._is_taken:
            self._is_taken = False
            self._places.release()

    async def kept_while_short(self, result: Handled | asyncio.Future[Any]) -> Message | None:
        """Return a response when it is complete. The place is left where that takes long."""
        timer = asyncio.get_running_loop().call_later(_KEPT_S, self.leave)
        try:
            response = await completed(result)
        finally:
            timer.cancel()
        await self.take()
        return response


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
        cut: Cut,
        handle: Callable[[Message], Handled | asyncio.Future[Any]],
        encode: Encode,
    ) -> EncodedResponse:
        """Return the encoded response to a request of many values. Raises what the functions raise, or KafkaError."""
        async with _Place(self._requests) as place:
            await self._unread.room()
            request, items = await self._in_thread(lambda: _without_doubles(decode(), cut))
            kept = [request, await self._in_portions(request, items, cut, handle, place.kept_while_short)]
        del request
        return await self.encode_last(kept, encode)

    async def decode(self, decode: Callable[[], Message]) -> Message:
        """Return a request of many values that cannot be cut. Raises what the function raises."""
        async with _Place(self._requests):
            await self._unread.room()
            return await self._in_thread(decode)

    async def encode_last(self, kept: list[Message | None], encode: Encode) -> EncodedResponse:
        """Return the last message encoded. All are freed in the thread, too, which takes tens of milliseconds."""
        async with _Place(self._responses):
            return await self._in_thread(partial(_encoded_last, encode, kept))

    async def handle_decoded(
        self,
        request: Message,
        cut: Cut,
        handle: Callable[[Message], Handled | asyncio.Future[Any]],
        encode: Encode,
    ) -> EncodedResponse:
        """Return the encoded response to a request of few values, which are too much work for one turn."""
        response = await self._in_portions(*_without_doubles(request, cut), cut, handle)
        return await self._in_thread(partial(encode, response))

    async def respond(self, large: LargeResponse[Any], encode: Encode) -> EncodedResponse:
        """Make a response in turns and return it encoded."""
        async with _Place(self._responses):
            await self._unread.room()
            await keeper().finish(large.steps)
            return await self._in_thread(partial(encode, large.response))

    def _in_thread(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        return self._threads.run(Work.LARGE_MESSAGE, _NO_DIRECTORY, work)

    async def _in_portions(
        self,
        request: Message,
        items: Items,
        cut: Cut,
        handle: Callable[[Message], Handled | asyncio.Future[Any]],
        complete: Complete | None = None,
    ) -> Message | None:
        """Handle a request in portions of its items, each of whose responses `complete` waits for.

        Return the joined response. An error of a whole portion ends that: the items of the portion and of those after
        it have the error.
        """
        response: Message | None = None
        code, text = 0, None
        turns, size = keeper(), _Size(cut.max_values)
        for portion, values in portions(request, items, lambda: size.values, cut.weights):
            if code:
                result: Message | None = items_rejection(portion, cut.version, items, code, text)
            else:
                began_ns = turns.clock()
                handled = handle(portion)
                size.learn(values, turns.clock() - began_ns)
                result = await (complete or completed)(handled)
                code, text = (0, None) if result is None else whole_error(result)
                if code and response is not None:
                    result = items_rejection(portion, cut.version, items, code, text)
            if response is None:
                response = result
                if code and not names_items(key_of(cast("int", request.KEY)), cut.version):
                    break
            elif result is not None:
                join(response, result, items)
                _join_throttle(response, result)
            await turns.pause()
        return response


def _without_doubles(request: Message, cut: Cut) -> tuple[Message, Items]:
    """Return a request that names each item once, and where its items are. Raises KafkaError.

    A hundred thousand of them take too long for the loop.
    """
    items = next((each for each in cut.lists if getattr(request, each.items)), None)
    if items is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the request has most of its values where it cannot be cut")
    if not items.is_set or items.within:
        return request, items
    return with_field(request, items.items, items.of(request)), _as_list(items)


@cache
def _as_list(items: Items) -> Items:
    """Return the same list without a look for doubles. One for each list of the table: others keep things by it."""
    return replace(items, is_set=False)


class _Size:
    """How many values the next portion has: as many as a slice has time for, as far as the last portion tells."""

    def __init__(self, max_values: int) -> None:
        self.values = min(_FIRST_VALUES, max_values)
        self._max_values = max_values

    def learn(self, values: int, took_ns: int) -> None:
        fitting = values * SLICE_NS // max(took_ns, 1)
        self.values = max(1, min(fitting, 2 * self.values, self._max_values))


def _join_throttle(whole: Message, part: Message) -> None:
    """Say the longest time that a portion has its client wait, where the response says that."""
    waits_ms = getattr(part, "throttle_time_ms", 0)
    if waits_ms:
        cast("Any", whole).throttle_time_ms = max(cast("Any", whole).throttle_time_ms, waits_ms)


def _encoded_last(encode: Encode, kept: list[Message | None]) -> EncodedResponse:
    """Encode the last of some messages, and free them all."""
    encoded = encode(kept[-1])
    kept.clear()
    return encoded


async def completed(result: Handled | asyncio.Future[Any]) -> Message | None:
    """Return a response when it is there and complete."""
    if isinstance(result, asyncio.Future):
        result = cast("Handled", await result)
    if not isinstance(result, LargeResponse):
        return result
    await keeper().finish(result.steps)
    return cast("Message", result.response)
