"""The guards before the handlers: the access guard asks the authorizer, and the quota guard counts what requests use.

A client that has used too much waits after its response. A Produce request counts with its bytes, every request with
the time of its handler in its first turn on the event loop. What one does after it has waited is not counted, unless
its handler does all of its work in turns (`counted_turns`). Requests of other brokers are not limited. What a Fetch
or a ShareFetch sends is counted where it is known (handlers/fetch.py, handlers/share_fetch.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from time import perf_counter_ns
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ...protocol.apis import ApiKey
from ..quotas.client_quotas import ClientQuotas
from ..quotas.entities import PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from ..services import Services
from ..turns import LargeResponse
from .access.caller import Caller, logs_allowed
from .line_limit import Denials
from .request import RequestContext
from .routes import CLUSTER_ROUTES, Handler, Route

if TYPE_CHECKING:
    from ..security.authorizer import Authorizer

Response = TypeVar("Response")

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
            # Nobody has proved to be the user whose quota it is: ApiVersions comes before a login.
            if context.connection.is_stranger or (route.key is ApiKey.FETCH and _is_of_follower(context, request)):
                return handle(context, request)
            delay_ms = self._count_bytes(context) if counts_bytes else 0
            began_ns = perf_counter_ns()
            try:
                response = handle(context, request)
            finally:
                # A producer that gets no response is limited by its bytes alone.
                if route.key is not ApiKey.PRODUCE or request.acks:
                    delay_ms = max(delay_ms, self._quotas.worked(*context.client, perf_counter_ns() - began_ns))
                context.throttle(None, delay_ms)
            return _told(context, response, delay_ms) if delay_ms else response

        return counted

    def _count_bytes(self, context: RequestContext) -> int:
        # A large request comes here once for each of its portions.
        size, context.frame_bytes = context.frame_bytes, 0
        return self._quotas.produced(*context.client, size) if size else 0


def counted_turns(
    quotas: ClientQuotas, context: RequestContext, respond: Callable[[], Coroutine[Any, Any, Response]]
) -> asyncio.Future[Response]:
    """Return the response of a handler that works in turns of the event loop. The time of each of them counts."""
    counts = REQUEST_PERCENTAGE in quotas
    return asyncio.ensure_future(_count_turns(quotas, context, respond) if counts else respond())


async def _count_turns(
    quotas: ClientQuotas, context: RequestContext, respond: Callable[[], Coroutine[Any, Any, Response]]
) -> Response:
    spent_ns = 0

    def note(time_ns: int) -> None:
        nonlocal spent_ns
        spent_ns += time_ns

    try:
        response = await _timed(respond(), note)
    finally:
        delay_ms = quotas.worked(*context.client, spent_ns)
        context.throttle(None, delay_ms)
    _told(context, response, delay_ms)
    return response


@coroutine
def _timed(work: Coroutine[Any, Any, Response], note: Callable[[int], None]) -> Generator[Any, Any, Response]:
    """Run a coroutine, and note how long each of its turns takes."""
    go_on = partial(work.send, None)
    while True:
        began_ns = perf_counter_ns()
        try:
            awaited = go_on()
        except StopIteration as done:
            return done.value
        finally:
            note(perf_counter_ns() - began_ns)
        try:
            yield awaited
            go_on = partial(work.send, None)
        except BaseException as error:  # noqa: BLE001 - it is the coroutine's, which goes on with it
            go_on = partial(work.throw, error)


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


class AccessGuard:
    """Asks the authorizer before each request, as the access of its route says."""

    def __init__(self, services: Services, authorizer: Authorizer) -> None:
        # Makes the context of a request.
        self.new_caller = partial(Caller, authorizer, services, Denials(), logs_allowed())

    def __call__(self, route: Route, handle: Handler) -> Handler:
        """Return what asks before the handler. It takes the callers of `new_caller`."""
        check = route.access.check
        if check is None:
            return handle

        def guarded(context: RequestContext, request: Any) -> Any:
            return check(cast(Caller, context), request, partial(handle, context))

        return guarded
