"""The dispatcher: decodes a request, calls its handler, encodes the response.

A request that has no response in the protocol closes its connection with one log line, as in Kafka.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from struct import error as StructError
from time import perf_counter_ns
from typing import Any, NamedTuple, cast

from ...protocol import frame
from ...protocol.apis import AnyKey, ApiKey, key_of, message
from ...protocol.codec import Buffer
from ...protocol.decoding import FrameDecoder
from ...protocol.errors import DecodeError, EncodeError, ErrorCode, KafkaError, TooManyValues
from ...protocol.schema import Message
from ...protocol.shapes.answers import names_items, rejection, whole_rejection
from ..metrics.request_counts import TIMED_ONE_IN, RequestCounts, api_name
from ..security.acls import CLUSTER_NAME, Operation, ResourceType
from ..services import Services
from ..threads import Work
from ..turns import LargeResponse
from .connection import CloseConnection, Connection, Pending
from .connection_memory import ConnectionMemory
from .large_messages import Handled, LargeMessages, completed
from .own_connection import OwnConnection
from .request import RequestContext
from .routes import Handler, Route, load, routes_of, unloaded
from .send_queue import EncodedResponse
from .watchdog import Watchdog

# All requests but Produce carry values alone. The largest that clients send are assignments and commits of very large
# groups, a few MB.
MAX_VALUES_BYTES = 8 * 1024 * 1024

# As many bytes of a request among brokers, or of an administrator's, are decoded for anybody.
_FREE_BYTES = 4 * 1024
# More than a length can say.
MAX_FRAME_BYTES = 2**31

# The low bits of the number of requests of an API before this one: they are 0 where it is timed.
_COUNTED = TIMED_ONE_IN - 1

# The client id of requests of this broker to itself.
OWN_CLIENT_ID = "this-broker"

_key_and_version = cast("Callable[[Buffer], tuple[int, int]]", frame.KEY_AND_VERSION.unpack_from)

_log = logging.getLogger(__name__)


# From a correlation id and a response to a frame.
Encode = Callable[[int, Message], EncodedResponse]


# Returns what handles the requests of a route in place of its handler: where an authorizer and quotas stand. It is
# called once for each (API key, version), so a broker without them pays nothing.
Guard = Callable[[Route, Handler], Handler]

# From key, version, correlation id, client id, connection and size of a request to its context.
NewContext = Callable[[int, int, int, str, Connection, int], RequestContext]


class _Served(NamedTuple):
    """The way of the requests of one API in one version: decode, handle, encode."""

    decode: FrameDecoder[Message]
    handle: Handler
    encode: Encode
    route: Route
    counts: RequestCounts
    max_values: int
    # A request of more bytes is looked at before it is decoded.
    free_bytes: int
    # And one of more than these is cut into portions.
    whole_bytes: int
    # Whether brokers alone send it. Such a request is carried out whole, also where its connection breaks: the sender
    # repeats it, and what half of it has changed already would be no change then.
    goes_on: bool = False


class Dispatcher:
    """The way from a frame to an encoded response, or to a future of one where the request waits."""

    def __init__(
        self,
        services: Services,
        watchdog: Watchdog,
        unread: ConnectionMemory,
        guard: Guard | None = None,
        new_context: NewContext = RequestContext,
    ) -> None:
        """`unread` is the memory of responses that clients have not read."""
        self._services = services
        self._watchdog = watchdog
        self._guard = guard
        self._new_context = new_context
        self._own = OwnConnection(services.config, services.authorizer is not None)
        self._routes = {int(route.key): route for route in routes_of(is_lone=services.replicas is None)}
        # By (key, version), filled at the first such request; bounded by the routes' versions.
        self._served: dict[tuple[int, int], _Served] = {}
        self._large = LargeMessages(services.threads, unread)
        # Looked up once: this is asked for each request.
        self._logs_requests = _log.isEnabledFor(logging.DEBUG)

    def __call__(self, connection: Connection, data: memoryview) -> EncodedResponse | Pending:
        """Handle one frame. Raises CloseConnection where the protocol has no response."""
        if self._watchdog.quiet:
            self._watchdog.note()
        try:
            which = _key_and_version(data)
        except StructError as error:
            raise _undecodable(data, error) from error
        served = self._served.get(which)
        if served is None:
            if names := self._unloaded(which[0]):
                return self._load_first(connection, data, names)
            served = self._prepare(*which, data)
        # Each look into a named tuple costs half a percent of a small request.
        decode, handle, encode, _, counts, max_values, free_bytes, whole_bytes, _ = served
        number = counts.requests
        counts.requests = number + 1
        # Zero: this request is not timed.
        began_ns = 0 if number & _COUNTED else perf_counter_ns()
        size = len(data)
        if size > free_bytes and (denial := self._look_at(connection, served, data)) is not None:
            return denial
        try:
            correlation_id, client_id, request, end = decode(data, max_values)
        except TooManyValues:
            return self._handle_many(connection, served, data)
        except DecodeError as error:
            raise _undecodable(data, error) from error
        key, version = which
        context = self._new_context(key, version, correlation_id, client_id or "", connection, size)
        if end != size or self._logs_requests:
            _log_request(context, data, end)
        if size > whole_bytes:
            return self._handle_large(context, served, request)
        try:
            response = handle(context, request)
        except CloseConnection:
            raise
        except Exception as error:  # noqa: BLE001 - becomes a response or a closed connection, and is logged
            response = _error_response(context, error, counts, request)
        if not isinstance(response, Message):
            return self._respond_otherwise(context, served, request, response, began_ns)
        # As `_encode` does, whose call would be one in thirty.
        try:
            encoded = encode(correlation_id, response)
        except EncodeError as error:
            raise _unencodable(context, error) from error
        if began_ns:
            counts.observe_since(began_ns)
        return encoded

    def _look_at(self, connection: Connection, served: _Served, data: memoryview) -> EncodedResponse:
        """Return the denial of a large request whose client may not send it; it is not decoded. None: it may be.

        Raises CloseConnection for one that is too large for anybody.
        """
        size, operation = len(data), served.route.access.on_cluster
        try:
            header = frame.decode_request_header(data)[0]
        except DecodeError as error:
            raise _undecodable(data, error) from error
        if size > MAX_VALUES_BYTES:
            why = f"a {_name(*header[:2])} request of {size} bytes: only batches may be more than {MAX_VALUES_BYTES}"
            raise CloseConnection(why)
        context = self._new_context(*header[:3], header.client_id or "", connection, size)
        if operation is None or context.may(operation, ResourceType.CLUSTER, CLUSTER_NAME):
            return None
        denied = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return _encode(context, served, _error_response(context, denied, served.counts))

    def _respond_otherwise(
        self,
        context: RequestContext,
        served: _Served,
        request: Message,
        response: LargeResponse[Any] | asyncio.Future[Any] | None,
        began_ns: int,
    ) -> Pending | None:
        """Return a response that comes later, or none. `began_ns` zero: the request is not timed."""
        if isinstance(response, asyncio.Future):
            if began_ns:
                response.add_done_callback(partial(served.counts.observe_since, began_ns))
            goes_on = served.goes_on or _expects_none(request)
            return Pending(response, partial(self._finish, context, served), goes_on)
        if response is not None:
            return self._respond_large(context, served, response)
        if began_ns:
            served.counts.observe_since(began_ns)
        return None

    def renew_guards(self) -> None:
        """Ask the guard again for each route, because it guards others now."""
        self._served.clear()

    def reject(self, connection: Connection, data: memoryview, code: ErrorCode, why: str) -> EncodedResponse:
        """Answer a request with an error without handling it. CloseConnection where its API has no field for one."""
        which = _key_and_version(data)
        served = self._served.get(which) or self._prepare(*which, data)
        header = frame.decode_request_header(data)[0]
        context = RequestContext(*header[:3], header.client_id or "", connection)
        return _encode(context, served, _error_response(context, KafkaError(code, why), served.counts))

    async def ask_self(self, request: Message, version: int) -> Message:
        """Carry out a request of this broker to itself, which came by no connection. Its response may have an error.

        The guard is asked as if the broker had connected to itself. Raises CloseConnection where the API's response
        has no field for an error.
        """
        assert request.KEY is not None
        context = self._new_context(request.KEY, version, 0, OWN_CLIENT_ID, cast("Connection", self._own), 0)
        try:
            route = self._routes[int(request.KEY)]
            handle = route.handler(self._services)
            response = (handle if self._guard is None else self._guard(route, handle))(context, request)
            return await response if isinstance(response, asyncio.Future) else cast(Message, response)
        except Exception as error:  # noqa: BLE001 - becomes a response, and is logged
            return _error_response(context, error, self._services.requests.of(key_of(int(request.KEY))), request)

    def _handle_many(self, connection: Connection, served: _Served, data: memoryview) -> Pending:
        """Handle a request that has more values than one turn may decode."""
        header, route = frame.decode_request_header(data)[0], served.route
        context = self._new_context(*header[:3], header.client_id or "", connection, len(data))
        decode_all = partial(_decode_many, context, served, connection.keep(data))
        if not route.is_cut:
            return _later(context, served, lambda: self._handle_whole(context, served, decode_all))
        handle, encode = partial(served.handle, context), partial(_encode, context, served)
        cut = route.cut(context.api_version)
        return _later(context, served, lambda: self._large.handle(decode_all, cut, handle, encode))

    async def _handle_whole(self, context: RequestContext, served: _Served, decode: Callable[[], Message]) -> Pending:
        """Handle a request that cannot be cut. Where it waits for something, such as records, it ends with its client.

        It must not hold up the large requests of others meanwhile.
        """
        kept: list[Message | None] = [await self._large.decode(decode)]
        handled = asyncio.ensure_future(completed(served.handle(context, cast("Message", kept[0]))))

        def finish(done: asyncio.Future[Message | None]) -> Pending:
            error = done.exception()
            kept.append(done.result() if error is None else _error_response(context, error, served.counts))
            return _later(context, served, lambda: self._large.encode_last(kept, partial(_encode, context, served)))

        return Pending(handled, finish, served.goes_on)

    def _handle_large(self, context: RequestContext, served: _Served, request: Message) -> Pending:
        """Handle a request of few values and very many bytes."""
        handle, encode = partial(served.handle, context), partial(_encode, context, served)
        cut = served.route.cut(context.api_version)
        return _later(context, served, lambda: self._large.handle_decoded(request, cut, handle, encode))

    def _respond_large(self, context: RequestContext, served: _Served, response: LargeResponse[Any]) -> Pending:
        """Make and encode a response of many values."""
        encode = partial(_encode, context, served)
        return _later(context, served, lambda: self._large.respond(response, encode))

    def _finish(
        self, context: RequestContext, served: _Served, done: asyncio.Future[Handled]
    ) -> EncodedResponse | Pending:
        """Return the encoded response of a request that has waited. One of many values is still made in turns."""
        error = done.exception()
        response = done.result() if error is None else _error_response(context, error, served.counts)
        if isinstance(response, LargeResponse):
            return self._respond_large(context, served, response)
        return _encode(context, served, response)

    def _unloaded(self, key: int) -> list[str]:
        route = self._routes.get(key)
        return [] if route is None else unloaded(route)

    def _load_first(self, connection: Connection, data: memoryview, names: list[str]) -> Pending:
        """Have a thread import what a request needs, and handle it then."""
        kept = connection.keep(data)
        done = self._services.threads.run(Work.LARGE_MESSAGE, Path(), partial(load, names))

        def handle(done: asyncio.Future[None]) -> EncodedResponse | Pending:
            done.result()
            return self(connection, kept)

        return Pending(done, handle, goes_on=True)

    def _prepare(self, key: int, version: int, data: memoryview) -> _Served:
        """Find the way of a (key, version) that no client has sent yet, and keep it."""
        route = self._routes.get(key)
        if route is None:
            why = f"API key {key} version {version} is not served here (client id {_client_id(data)!r})"
            raise CloseConnection(why)
        handle = route.handler(self._services)
        if self._guard is not None:
            handle = self._guard(route, handle)
        counts = self._services.requests.of(route.key)
        if version in route.versions:
            decode = frame.request_decoder(message(route.key, "request"), version)
            encode = _encoder(route.key, version)
            free, whole = _free_bytes(route, version), route.large_bytes if route.is_cut else MAX_FRAME_BYTES
            goes_on = route.access.on_cluster is Operation.CLUSTER_ACTION
            served = _Served(decode, handle, encode, route, counts, route.decoded_at_once, free, whole, goes_on)
            self._served[key, version] = served
            return served
        if route.key is ApiKey.API_VERSIONS:
            # It gets a response all the same, in the oldest version.
            encode, most = _encoder(route.key, 0), MAX_VALUES_BYTES
            return _Served(_skip_body, handle, encode, route, counts, 0, most, most)
        which = f"versions {route.versions[0]} to {route.versions[-1]} are"
        raise CloseConnection(f"{_name(key, version)} is not served, {which} (client id {_client_id(data)!r})")


def _free_bytes(route: Route, version: int) -> int:
    """Return how many bytes of a request are decoded for anybody."""
    if route.key is ApiKey.PRODUCE:
        return MAX_FRAME_BYTES
    is_denied_by_header = route.access.on_cluster is not None and not names_items(route.key, version)
    return _FREE_BYTES if is_denied_by_header else MAX_VALUES_BYTES


def _encoder(key: AnyKey, version: int) -> Encode:
    """Return the compiled encoder of an API's responses. The pieces are those that handlers put into records fields."""
    return cast(Encode, frame.response_encoder(message(key, "response"), version))


def _skip_body(data: Buffer, max_values: int = 0) -> tuple[int, str | None, Message, int]:
    """Ignore the body of an ApiVersions request whose version is unknown."""
    header, _ = frame.decode_request_header(data)
    return header.correlation_id, header.client_id, message(ApiKey.API_VERSIONS, "request")(), len(data)


def _client_id(data: Buffer) -> str | None:
    """Return the client id of a request that is not served. Raises CloseConnection."""
    try:
        return frame.decode_request_header(data)[0].client_id
    except DecodeError as error:
        raise _undecodable(data, error) from error


def _undecodable(data: Buffer, error: Exception) -> CloseConnection:
    """Return why a connection is closed whose request cannot be decoded."""
    try:
        header, _ = frame.decode_request_header(data)
    except DecodeError as in_header:
        return CloseConnection(f"a request header that cannot be read: {in_header}")
    return CloseConnection(f"a {_name(*header[:2])} request that cannot be read: {error}")


def _log_request(context: RequestContext, data: memoryview, end: int) -> None:
    """Log a request, and the bytes after its body.

    Kafka ignores these, and librdkafka 2.16 sends three of them after Metadata.
    """
    name = _name(context.api_key, context.api_version)
    _log.debug("%s: %s, client id %r, %d bytes", context.connection.name, name, context.client_id, len(data))
    if end != len(data):
        _log.debug("%s: %d bytes after a %s request", context.connection.name, len(data) - end, name)


def _decode_many(context: RequestContext, served: _Served, data: memoryview) -> Message:
    """Decode a request of many values. Raises CloseConnection, or KafkaError where it has too many."""
    max_values = served.route.most_values
    try:
        return served.decode(data, max_values)[2]
    except TooManyValues as error:
        why = f"a {_name_of(context)} request of more than {max_values} values: {error}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, why) from error
    except DecodeError as error:
        raise _undecodable(data, error) from error


def _later(
    context: RequestContext,
    served: _Served,
    respond: Callable[[], Coroutine[Any, Any, EncodedResponse | Pending]],
) -> Pending:
    """Return a response that a task makes, or the one that carries the error for the whole request.

    The task may be cancelled before it begins, where the broker stops: a coroutine made here would never be awaited.
    """

    async def make() -> EncodedResponse | Pending:
        try:
            return await respond()
        except Exception as error:  # noqa: BLE001 - becomes a response or a closed connection, and is logged
            return _encode(context, served, _error_response(context, error, served.counts))

    return Pending(asyncio.ensure_future(make()), goes_on=True)


def _encode(context: RequestContext, served: _Served, response: Message | None) -> EncodedResponse:
    """Encode a response in the version of its request."""
    if response is None:
        return None
    try:
        return served.encode(context.correlation_id, response)
    except EncodeError as error:
        raise _unencodable(context, error) from error


def _unencodable(context: RequestContext, error: EncodeError) -> CloseConnection:
    """Log a response that is wrong, and return why its connection is closed."""
    _log.error(
        "%s: a response that does not fit its version", _name_of(context), exc_info=error, extra=context.log_fields
    )
    return CloseConnection(f"the response to {_name_of(context)} could not be encoded: {error}")


def _error_response(
    context: RequestContext, error: BaseException, counts: RequestCounts, request: Message | None = None
) -> Message:
    """Count an error, and return the response that carries it: for the whole request, or for each of its items.

    Raises CloseConnection where the API's response has no place for one, or the client expects none.
    """
    if isinstance(error, CloseConnection):
        raise error
    code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
    counts.reject(code)
    if code is ErrorCode.UNKNOWN_SERVER_ERROR:
        _log.error("%s failed", _name_of(context), exc_info=error, extra=context.log_fields)
    text = KafkaError(code, str(error)).message
    if request is None:
        response = whole_rejection(key_of(context.api_key), context.api_version, int(code), text)
    else:
        response = None if _expects_none(request) else rejection(request, context.api_version, int(code), text)
    if response is None:
        raise CloseConnection(f"{_name_of(context)} failed: {error}") from error
    if context.connection.muted_ms:
        context.throttle(response, context.connection.muted_ms)
    return response


def _expects_none(request: Message) -> bool:
    """Return whether the client waits for no response."""
    return request.KEY == ApiKey.PRODUCE and request.acks == 0  # type: ignore[attr-defined]


def _name_of(context: RequestContext) -> str:
    return _name(context.api_key, context.api_version)


def _name(key: int, version: int) -> str:
    return f"{api_name(key_of(key))} version {version}"
