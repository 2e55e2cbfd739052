"""Large messages: requests are decoded in a thread and handled a portion a turn, responses made in turns as well.

An ordinary request is decoded, handled and encoded in one turn, which others wait for. A turn should take some ten
milliseconds at most, so every route says how many values (array elements) one turn may handle. A request with more is
cut into portions of that many, each a request of its own, and their responses are joined. One that cannot be cut, and
one with more than `MAX_VALUES`, is rejected. So is a response made that has many values (turns.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.schema import Message, Struct
from ..threads import DiskThreads, Work
from ..turns import LargeResponse
from .connection_memory import ConnectionMemory
from .send_queue import EncodedResponse

Result = TypeVar("Result")
Shaped = TypeVar("Shaped", bound=Struct)
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
class Portions:
    """How a request is cut: its list of elements, and the list inside each. The response has the same shape."""

    # Fields of the request and of its response.
    items: str
    results: str
    # The lists inside the elements.
    inner: Portions | None = None
    # The identity of an element, for an API that answers a repeated element once.
    identity: Callable[[Any], Hashable] | None = None
    # How many values an element counts for, beside those inside it.
    weight: Callable[[Any], int] | None = None

    def split(self, request: Shaped, max_values: int) -> Iterator[Shaped]:
        """Yield requests of at most `max_values` values each, which together are `request`."""
        for portion, _ in self._cut(request, max_values):
            yield portion

    def _cut(self, struct: Shaped, max_values: int) -> Iterator[tuple[Shaped, int]]:
        """Yield (copy with some of the elements, its number of values)."""
        items = self._items(struct)
        portion: list[Any] = []
        size = 0
        for item, values in self._parts(items, max_values - 1):
            if portion and size + values > max_values:
                yield _with(struct, self.items, portion), size
                portion, size = [], 0
            portion.append(item)
            size += values
        # Null says something else than an empty list.
        yield (_with(struct, self.items, portion), size) if items else (struct, 0)

    def _items(self, struct: Struct) -> Iterable[Any]:
        items: list[Any] = getattr(struct, self.items) or []
        return items if self.identity is None else {self.identity(each): each for each in items}.values()

    def _parts(self, items: Iterable[Any], room: int) -> Iterator[tuple[Any, int]]:
        """Yield (element, its number of values). An element with a long list comes in several parts."""
        weigh = self.weight
        for item in items:
            own = 1 if weigh is None else weigh(item)
            if self.inner is None:
                yield item, own
                continue
            for part, values in self.inner._cut(item, room):
                yield part, values + own

    def join(self, whole: Struct, part: Struct) -> None:
        """Add the results of a portion to those of the portions before it."""
        results: list[Struct] = getattr(whole, self.results)
        more: list[Struct] = getattr(part, self.results)
        if self.inner is not None and results and more and self._is_same(results[-1], more[0]):
            self.inner.join(results[-1], more[0])
            more = more[1:]
        results.extend(more)

    def _is_same(self, one: Struct, other: Struct) -> bool:
        """Return whether two results are parts of the same element, which was cut."""
        assert self.inner is not None
        names = [field.name for field in one.FIELDS if field.name != self.inner.results]
        return all(getattr(one, name) == getattr(other, name) for name in names)


def _with(struct: Shaped, name: str, value: list[Any]) -> Shaped:
    """Return a copy with one field replaced."""
    changed = copy(struct)
    setattr(changed, name, value)
    return changed


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
        portions: tuple[Portions, ...],
        max_values: int,
        handle: Callable[[Message], Handled | asyncio.Future[Any]],
        encode: Encode,
    ) -> EncodedResponse:
        """Return the encoded response to a request of many values. Raises what the functions raise, or KafkaError."""
        async with self._requests:
            await self._unread.room()
            request = await self._in_thread(decode)
            response = await self._in_portions(request, portions, max_values, handle)
            return await self._in_thread(partial(encode, response))

    async def handle_decoded(
        self,
        request: Message,
        portions: tuple[Portions, ...],
        max_values: int,
        handle: Callable[[Message], Handled | asyncio.Future[Any]],
        encode: Encode,
    ) -> EncodedResponse:
        """Return the encoded response to a request of few values, which are too much work for one turn."""
        response = await self._in_portions(request, portions, max_values, handle)
        return await self._in_thread(partial(encode, response))

    async def respond(self, large: LargeResponse[Any], encode: Encode) -> EncodedResponse:
        """Make a response in turns and return it encoded."""
        async with self._responses:
            await self._unread.room()
            await _make(large)
            return await self._in_thread(partial(encode, large.response))

    async def _in_portions(
        self,
        request: Message,
        portions: tuple[Portions, ...],
        max_values: int,
        handle: Callable[[Message], Handled | asyncio.Future[Any]],
    ) -> Message | None:
        """Handle a request a portion a turn; without `portions` as a whole. Return the joined response."""
        if not portions:
            return await _handled(handle(request))
        cut = next((each for each in portions if getattr(request, each.items)), None)
        if cut is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the request has most of its values where it cannot be cut")
        response: Message | None = None
        for portion in cut.split(request, max_values):
            result = await _handled(handle(portion))
            if response is None:
                response = result
            elif result is not None:
                cut.join(response, result)
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
    await _make(result)
    return cast("Message", result.response)


async def _make(large: LargeResponse[Any]) -> None:
    """Fill a response, a portion a turn."""
    for _ in iter(large.advance, False):
        await asyncio.sleep(0)
