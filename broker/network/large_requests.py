"""Large requests: a thread decodes them, they are handled a portion a turn of the event loop, a thread encodes.

An ordinary request is decoded, handled and encoded in one turn, which others wait for. A turn should take some ten
milliseconds at most, so every route says how many values (array elements) one turn may handle. A request with more is
cut into portions of that many, each a request of its own, and their responses are joined. A request that cannot be
cut, and one with more than `MAX_VALUES`, closes its connection with the reason in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ...protocol.schema import Message, Struct
from .connection import CloseConnection
from .receive_buffer import POOLED_BYTES

if TYPE_CHECKING:
    from .send_queue import EncodedResponse

Result = TypeVar("Result")
Shaped = TypeVar("Shaped", bound=Struct)

# The most values of one request. They take some 200 bytes each, so a request costs 20 MB beside its own bytes.
MAX_VALUES = 100_000
# Large requests that are under way at the same time. The others wait.
AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class Portions:
    """How a request is cut: its list of elements, and the list inside each. The response has the same shape."""

    # Fields of the request and of its response, each with the field inside the elements.
    items: str
    results: str
    inner: str | None = None
    inner_results: str | None = None
    # The identity of an element, for an API that answers a repeated element once.
    identity: Callable[[Any], Hashable] | None = None

    def split(self, request: Message, max_values: int) -> Iterator[Message]:
        """Yield requests of at most `max_values` elements each, which together are `request`."""
        items: list[Any] = getattr(request, self.items)
        if self.identity is not None:
            items = list({self.identity(each): each for each in items}.values())
        portion: list[Any] = []
        size = 0
        for item, values in self._parts(items, max_values):
            if size + values > max_values:
                yield _with(request, self.items, portion)
                portion, size = [], 0
            portion.append(item)
            size += values
        yield _with(request, self.items, portion)

    def _parts(self, items: list[Any], max_values: int) -> Iterator[tuple[Any, int]]:
        """Yield (element, its number of values). An element with a long list comes in several parts."""
        room = max_values - 1
        for item in items:
            values: list[Any] = (self.inner and getattr(item, self.inner)) or []
            if self.inner is None or len(values) <= room:
                yield item, len(values) + 1
                continue
            for start in range(0, len(values), room):
                part = values[start : start + room]
                yield _with(item, self.inner, part), len(part) + 1

    def join(self, whole: Message, part: Message) -> None:
        """Add the results of a portion to those of the portions before it."""
        results: list[Struct] = getattr(whole, self.results)
        more: list[Struct] = getattr(part, self.results)
        if self.inner_results is not None and results and more and self._is_same(results[-1], more[0]):
            getattr(results[-1], self.inner_results).extend(getattr(more[0], self.inner_results))
            more = more[1:]
        results.extend(more)

    def _is_same(self, one: Struct, other: Struct) -> bool:
        """Return whether two results are parts of the same element, which was cut."""
        names = [field.name for field in one.FIELDS if field.name != self.inner_results]
        return all(getattr(one, name) == getattr(other, name) for name in names)


def _with(struct: Shaped, name: str, value: list[Any]) -> Shaped:
    """Return a copy with one field replaced."""
    changed = copy(struct)
    setattr(changed, name, value)
    return changed


class LargeRequests:
    """The way of requests that have too many values for one turn."""

    def __init__(self) -> None:
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def handle(
        self,
        decode: Callable[[], Message],
        portions: tuple[Portions, ...],
        max_values: int,
        handle: Callable[[Message], Message | asyncio.Future[Any] | None],
        encode: Callable[[Message | None], EncodedResponse],
    ) -> EncodedResponse:
        """Return the encoded response. Raises what the functions raise."""
        response: Message | None = None
        async with self._gate:
            request = await _in_thread(decode)
            cut = next((each for each in portions if getattr(request, each.items)), None)
            if cut is None:
                raise CloseConnection("a request with most of its values where it cannot be cut")
            for portion in cut.split(request, max_values):
                result = handle(portion)
                if isinstance(result, asyncio.Future):
                    result = cast("Message | None", await result)
                if response is None:
                    response = result
                elif result is not None:
                    cut.join(response, result)
                await asyncio.sleep(0)
            return await _in_thread(partial(encode, response))


def keep_frame(frame: memoryview) -> memoryview:
    """Return the bytes of a frame for longer than its turn. Only those of a buffer that is used again are copied."""
    return frame if len(frame) > POOLED_BYTES else memoryview(bytearray(frame))


async def _in_thread(work: Callable[[], Result]) -> Result:
    return await asyncio.get_running_loop().run_in_executor(None, work)
