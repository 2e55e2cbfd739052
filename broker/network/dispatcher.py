"""The dispatcher: decodes a request, calls its handler, encodes the response.

A request that has no response in the protocol closes its connection with one log line, as in Kafka.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from ...protocol import frame
from ...protocol.apis import ApiKey, message
from ...protocol.codec import decoder
from ...protocol.decoding import Buffer
from ...protocol.errors import DecodeError, EncodeError, ErrorCode, KafkaError
from ...protocol.schema import Message
from .connection import CloseConnection, Connection
from .request import RequestContext
from .routes import ROUTES, Route
from .send_queue import EncodedResponse

if TYPE_CHECKING:
    from ..services import Services

Response = Message | None
Decoder = Callable[[Buffer, int], tuple[Message, int]]
Handler = Callable[["Services", "RequestContext", Any], "Response | asyncio.Future[Any]"]

_log = logging.getLogger(__name__)


# All but Produce carries values, read one by one: some 10 MB a second, and nobody else has a turn meanwhile. The
# largest that clients send are the assignments and commits of very large groups, a few MB.
MAX_VALUES_BYTES = 8 * 1024 * 1024


class Dispatcher:
    """Turns a frame into an answer, or into a future of one where the request waits."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._routes = {int(route.key): route for route in ROUTES}
        self._handlers: dict[int, Handler] = {}
        # (key, version) -> decoder and handler, filled at the first such request; bounded by the routes' versions.
        self._ready: dict[tuple[int, int], tuple[Decoder, Handler]] = {}

    def __call__(self, connection: Connection, data: memoryview) -> EncodedResponse | asyncio.Future[EncodedResponse]:
        """Raises CloseConnection where the protocol has no answer."""
        try:
            header, offset = frame.decode_request_header(data)
        except DecodeError as error:
            raise CloseConnection(f"a request header that cannot be read: {error}") from error
        decode, handle = self._ready.get((header.api_key, header.api_version)) or self._prepare(header)
        if len(data) > MAX_VALUES_BYTES and header.api_key != ApiKey.PRODUCE:
            why = f"a {_name(header)} request of {len(data)} bytes: only batches may be more than {MAX_VALUES_BYTES}"
            raise CloseConnection(why)
        try:
            request, end = decode(data, offset)
            if end != len(data):
                # Kafka does not look at what follows a body, and librdkafka 2.16 sends three bytes behind Metadata.
                _log.debug("%s: %d bytes behind a %s request", connection.name, len(data) - end, _name(header))
        except DecodeError as error:
            raise CloseConnection(f"a {_name(header)} request that cannot be read: {error}") from error
        context = RequestContext(header, connection)
        try:
            response = handle(self._services, context, request)
        except CloseConnection:
            raise
        except Exception as error:  # noqa: BLE001 - turned into a response or a closed connection, and logged
            response = _refusal(header, request, error)
        if isinstance(response, asyncio.Future):
            return _later(header, request, cast("asyncio.Future[Response]", response))
        return _encode(header, response)

    def _prepare(self, header: frame.RequestHeader) -> tuple[Decoder, Handler]:
        key, version = header.api_key, header.api_version
        route = self._routes.get(key)
        if route is None:
            raise CloseConnection(
                f"API key {key} version {version} is not served here (client id {header.client_id!r})"
            )
        if not route.min_version <= version <= route.max_version:
            if route.key is ApiKey.API_VERSIONS:
                return _skip_body, self._handler(route)
            served = f"{route.min_version} to {route.max_version} are"
            raise CloseConnection(f"{_name(header)} is not served, versions {served} (client id {header.client_id!r})")
        ready = decoder(message(route.key, "request"), version), self._handler(route)
        self._ready[key, version] = ready
        return ready

    def _handler(self, route: Route) -> Handler:
        handler = self._handlers.get(route.key)
        if handler is None:
            module = import_module(f"..handlers.{route.key.name.lower()}", __package__)
            handler = self._handlers[route.key] = cast(Handler, module.handle)
        return handler


def _skip_body(data: Buffer, offset: int) -> tuple[Message, int]:
    """An ApiVersions request of a version that we do not know: its body does not matter, only that it is answered."""
    return message(ApiKey.API_VERSIONS, "request")(), len(data)


def _encode(header: frame.RequestHeader, response: Response) -> EncodedResponse:
    if response is None:
        return None
    version = header.api_version
    if header.api_key == ApiKey.API_VERSIONS and version not in _API_VERSIONS:
        version = 0
    try:
        return cast(EncodedResponse, frame.encode_response(header.correlation_id, response, version))
    except EncodeError as error:
        _log.exception("%s: a response that does not fit its version", _name(header))
        raise CloseConnection(f"no answer to {_name(header)} could be made: {error}") from error


def _later(
    header: frame.RequestHeader, request: Message, inner: asyncio.Future[Response]
) -> asyncio.Future[EncodedResponse]:
    outer: asyncio.Future[EncodedResponse] = inner.get_loop().create_future()

    def done(_: asyncio.Future[Response]) -> None:
        if outer.done():
            return
        if inner.cancelled():
            outer.cancel()
            return
        error = inner.exception()
        try:
            response = _refusal(header, request, error) if error is not None else inner.result()
            outer.set_result(_encode(header, response))
        except CloseConnection as why:
            outer.set_exception(why)

    def gone(_: asyncio.Future[EncodedResponse]) -> None:
        if outer.cancelled():
            inner.cancel()

    inner.add_done_callback(done)
    outer.add_done_callback(gone)
    return outer


def _refusal(header: frame.RequestHeader, request: Message, error: BaseException) -> Response:
    """The response that carries an error for a whole request; the connection is closed where the API has no place
    for one.
    """
    if isinstance(error, CloseConnection):
        raise error
    code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
    if code is ErrorCode.UNKNOWN_SERVER_ERROR:
        _log.error("%s failed", _name(header), exc_info=error)
    response = message(ApiKey(header.api_key), "response")()
    if not hasattr(response, "error_code"):
        raise CloseConnection(f"{_name(header)} failed: {error}") from error
    response.error_code = int(code)  # type: ignore[attr-defined]
    if hasattr(response, "error_message"):
        response.error_message = str(error)  # type: ignore[attr-defined]
    return response


def _name(header: frame.RequestHeader) -> str:
    return f"{ApiKey(header.api_key).name.title().replace('_', '')} version {header.api_version}"


_API_VERSIONS = range(5)
