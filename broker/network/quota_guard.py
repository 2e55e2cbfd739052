"""The quota guard: counts what requests use, and lets the client wait after its response where that is too much.

A Produce request counts with its bytes, every request with the time of its handler in its first turn on the event loop.
What one does after it has waited is not counted. Requests of other brokers are not limited. What a Fetch sends is
counted where it is known (handlers/fetch.py).
"""

from __future__ import annotations

import asyncio
from time import perf_counter_ns
from typing import Any, cast

from ...protocol.apis import ApiKey
from ..quotas.client_quotas import ClientQuotas
from ..quotas.entities import PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from ..turns import LargeResponse
from .request import RequestContext
from .routes import CLUSTER_ROUTES, Handler, Route

# Only brokers send them.
_UNLIMITED = frozenset({ApiKey.WRITE_TXN_MARKERS, *(route.key for route in CLUSTER_ROUTES)})


class QuotaGuard:
    """Counts requests against the quotas of their clients."""

    def __init__(self, quotas: ClientQuotas) -> None:
        self._quotas = quotas

    def __call__(self, route: Route, handle: Handler) -> Handler:
        """Return the handler itself while nobody has a quota that concerns the route."""
        if route.key in _UNLIMITED:
            return handle
        counts_bytes = route.key is ApiKey.PRODUCE and PRODUCER_BYTE_RATE in self._quotas
        if not counts_bytes and REQUEST_PERCENTAGE not in self._quotas:
            return handle

        def counted(context: RequestContext, request: Any) -> Any:
            if route.key is ApiKey.FETCH and _is_of_follower(context, request):
                return handle(context, request)
            delay_ms = self._count_bytes(context) if counts_bytes else 0
            began_ns = perf_counter_ns()
            try:
                response = handle(context, request)
            finally:
                # A producer that gets no response is limited by its bytes alone.
                if route.key is not ApiKey.PRODUCE or request.acks:
                    delay_ms = max(delay_ms, self._count_time(context, perf_counter_ns() - began_ns))
                context.throttle(None, delay_ms)
            return _told(context, response, delay_ms) if delay_ms else response

        return counted

    def _count_bytes(self, context: RequestContext) -> int:
        # A large request comes here once for each of its portions.
        size, context.frame_bytes = context.frame_bytes, 0
        return self._quotas.produced(*context.client, size) if size else 0

    def _count_time(self, context: RequestContext, time_ns: int) -> int:
        return self._quotas.worked(*context.client, time_ns)


def _is_of_follower(context: RequestContext, request: Any) -> bool:
    replica_id = request.replica_state.replica_id if context.api_version >= 15 else request.replica_id
    return replica_id >= 0


def _told(context: RequestContext, response: Any, delay_ms: int) -> object:
    """Return a response that says how long the client waits, which may come later."""
    if isinstance(response, asyncio.Future):
        return asyncio.ensure_future(_told_later(context, cast("asyncio.Future[Any]", response), delay_ms))
    whole = cast("LargeResponse[Any]", response).response if isinstance(response, LargeResponse) else response
    context.throttle(whole, delay_ms)
    return cast("object", response)


async def _told_later(context: RequestContext, response: asyncio.Future[Any], delay_ms: int) -> Any:
    return _told(context, await response, delay_ms)
