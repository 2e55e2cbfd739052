"""One request about several items: what is retriable is asked again, and what failed is told for each item."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, TypeVar

from ...protocol.errors import KafkaError
from ..core.cluster import Cluster
from ..errors import BadResponse, error_of, results_of

K = TypeVar("K")
R = TypeVar("R")


async def for_items(
    cluster: Cluster, items: Collection[K], attempt: Callable[[list[K]], Awaitable[Mapping[K, R | KafkaError]]]
) -> dict[K, R]:
    """Return the result of each item. `attempt` sends a request about some items, and returns what became of each.

    Items with a retriable error are tried again; the others are not sent twice. Raises the error of a single item as it
    is, and ItemsFailed if some of several items failed.
    """
    left, found = list(items), dict[K, R | KafkaError]()

    async def once() -> None:
        nonlocal left
        found.update(await attempt(left))
        left = [item for item in left if item not in found or _retriable(found[item])]
        if left:
            error = found.get(left[0])
            missing = BadResponse(f"the broker left {left[0]!r} out of its answer")
            raise error if isinstance(error, KafkaError) else missing

    try:
        if left:
            await cluster.retry(once)
    except KafkaError as error:
        found.update({item: error for item in left if not isinstance(found.get(item), KafkaError)})
    return results_of({item: found[item] for item in items})


async def one_by_one(cluster: Cluster, items: Collection[K], request: Callable[[K], Awaitable[R]]) -> dict[K, R]:
    """Do as `for_items` where each item needs a request of its own, whose error is raised."""

    async def attempt(some: list[K]) -> dict[K, R | KafkaError]:
        found: dict[K, R | KafkaError] = {}
        for each in some:
            try:
                found[each] = await request(each)
            except KafkaError as error:
                found[each] = error
        return found

    return await for_items(cluster, items, attempt)


def _retriable(result: Any) -> bool:
    return isinstance(result, KafkaError) and result.retriable


def item_result(result: R, code: int, message: str | None, what: str) -> R | KafkaError:
    """Return `result`, or the error of a code in a response: `what` failed, and the broker's message."""
    return error_of(code, message, what) or result


def timeout_of(cluster: Cluster, timeout_ms: int | None = None) -> int:
    """Return how long a broker may take for a request."""
    return int(cluster.options.request_timeout_ms) if timeout_ms is None else timeout_ms
