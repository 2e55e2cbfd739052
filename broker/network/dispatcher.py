"""The dispatcher: decodes a request, calls its handler, encodes the response.

A request that has no response in the protocol closes its connection with one log line, as in Kafka.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ...protocol import frame
from ...protocol.apis import ApiKey, message
from ...protocol.codec import Buffer, Decoder, decoder
from ...protocol.errors import DecodeError, EncodeError, ErrorCode, KafkaError, TooManyValues
from ...protocol.schema import Message
from .connection import CloseConnection, Connection
from .large_requests import MAX_VALUES, LargeRequests, keep_frame
from .request import RequestContext
from .routes import ROUTES, Handler, Response, Route
from .send_queue import EncodedResponse
from .watchdog import Watchdog

if TYPE_CHECKING:
    from ..services import Services

# All requests but Produce carry values alone. The largest that clients send are assignments and commits of very large
# groups, a few MB.
MAX_VALUES_BYTES = 8 * 1024 * 1024

_log = logging.getLogger(__name__)


class Dispatcher:
    """The way from a frame to an encoded response, or to a future of one where the request waits."""

    def __init__(self, services: Services, watchdog: Watchdog) -> None:
        self._services = services
        self._watchdog = watchdog
        self._routes = {int(route.key): route for route in ROUTES}
        # (key, version) -> decoder and handler, filled at the first such request; bounded by the routes' versions.
        self._ready: dict[tuple[int, int], tuple[Decoder[Message], Handler, Route]] = {}
        self._large = LargeRequests()
        # Looked up once: this is asked for each request.
        self._logs_requests = _log.isEnabledFor(logging.DEBUG)

    def __call__(self, connection: Connection, data: memoryview) -> EncodedResponse | asyncio.Future[EncodedResponse]:
        """Handle one frame. Raises CloseConnection where the protocol has no response."""
        if self._watchdog.quiet:
            self._watchdog.note()
        try:
            header, offset = frame.decode_request_header(data)
        except DecodeError as error:
            raise CloseConnection(f"a request header that cannot be read: {error}") from error
        decode, handle, route = self._ready.get((header.api_key, header.api_version)) or self._prepare(header)
        if self._logs_requests:
            _log.debug("%s: %s, client id %r, %d bytes", connection.name, _name(header), header.client_id, len(data))
        if len(data) > MAX_VALUES_BYTES and header.api_key != ApiKey.PRODUCE:
            why = f"a {_name(header)} request of {len(data)} bytes: only batches may be more than {MAX_VALUES_BYTES}"
            raise CloseConnection(why)
        try:
            request, end = decode(data, offset, route.max_values)
            if end != len(data):
                # Kafka ignores bytes after a body, and librdkafka 2.16 sends three of them after Metadata.
                _log.debug("%s: %d bytes after a %s request", connection.name, len(data) - end, _name(header))
        except TooManyValues as error:
            handle_portion = partial(handle, RequestContext(header, connection))
            return self._handle_large(header, route, partial(decode, keep_frame(data), offset), handle_portion, error)
        except DecodeError as error:
            raise CloseConnection(f"a {_name(header)} request that cannot be read: {error}") from error
        try:
            response = handle(RequestContext(header, connection), request)
        except CloseConnection:
            raise
        except Exception as error:  # noqa: BLE001 - becomes a response or a closed connection, and is logged
            response = _error_response(header, error)
        if isinstance(response, asyncio.Future):
            return _encode_later(header, cast("asyncio.Future[Response]", response))
        return _encode(header, response)

    def _handle_large(
        self,
        header: frame.RequestHeader,
        route: Route,
        decode: Callable[[int], tuple[Message, int]],
        handle: Callable[[Message], Response | asyncio.Future[Any]],
        error: TooManyValues,
    ) -> asyncio.Future[EncodedResponse]:
        """Handle a request that has more values than one turn may handle."""
        if not route.portions:
            why = f"a {_name(header)} request of more than {route.max_values} values"
            raise CloseConnection(f"{why}: {error}") from error
        portions, max_values = route.portions, route.max_values
        decode_all, encode = partial(_decode_large, header, decode), partial(_encode, header)
        done = self._large.handle(decode_all, portions, max_values, handle, encode)
        return asyncio.ensure_future(_or_error(header, done))

    def _prepare(self, header: frame.RequestHeader) -> tuple[Decoder[Message], Handler, Route]:
        """Find decoder, handler and route of a (key, version) that no client has sent yet, and keep them."""
        key, version = header.api_key, header.api_version
        route = self._routes.get(key)
        if route is None:
            raise CloseConnection(
                f"API key {key} version {version} is not served here (client id {header.client_id!r})"
            )
        served = route.versions
        if version in served:
            ready = decoder(message(route.key, "request"), version), route.handler(self._services), route
            self._ready[key, version] = ready
            return ready
        if route.key is ApiKey.API_VERSIONS:
            return _skip_body, route.handler(self._services), route
        which = f"versions {served[0]} to {served[-1]} are"
        raise CloseConnection(f"{_name(header)} is not served, {which} (client id {header.client_id!r})")


def _skip_body(data: Buffer, offset: int, max_values: int = 0) -> tuple[Message, int]:
    """Ignore the body of an ApiVersions request whose version is unknown: it gets a response all the same."""
    return message(ApiKey.API_VERSIONS, "request")(), len(data)


def _decode_large(header: frame.RequestHeader, decode: Callable[[int], tuple[Message, int]]) -> Message:
    """Decode a request of at most MAX_VALUES. Raises CloseConnection."""
    try:
        return decode(MAX_VALUES)[0]
    except TooManyValues as error:
        raise CloseConnection(f"a {_name(header)} request of more than {MAX_VALUES} values: {error}") from error
    except DecodeError as error:
        raise CloseConnection(f"a {_name(header)} request that cannot be read: {error}") from error


async def _or_error(header: frame.RequestHeader, response: Awaitable[EncodedResponse]) -> EncodedResponse:
    """Return the response, or the one that carries the error for the whole request."""
    try:
        return await response
    except Exception as error:  # noqa: BLE001 - becomes a response or a closed connection, and is logged
        return _encode(header, _error_response(header, error))


def _encode(header: frame.RequestHeader, response: Response) -> EncodedResponse:
    """Encode a response in the version of its request."""
    if response is None:
        return None
    version = header.api_version
    if header.api_key == ApiKey.API_VERSIONS and version not in response.__class__.VERSIONS:
        version = 0
    try:
        return cast(EncodedResponse, frame.encode_response(header.correlation_id, response, version))
    except EncodeError as error:
        _log.exception("%s: a response that does not fit its version", _name(header))
        raise CloseConnection(f"the response to {_name(header)} could not be encoded: {error}") from error


def _encode_later(header: frame.RequestHeader, response: asyncio.Future[Response]) -> asyncio.Future[EncodedResponse]:
    """Return a future of the encoded response. Cancelling it cancels `response`, and the other way round."""
    encoded: asyncio.Future[EncodedResponse] = response.get_loop().create_future()

    def encode(_: asyncio.Future[Response]) -> None:
        if encoded.done():
            return
        if response.cancelled():
            encoded.cancel()
            return
        error = response.exception()
        try:
            encoded.set_result(_encode(header, response.result() if error is None else _error_response(header, error)))
        except CloseConnection as why:
            encoded.set_exception(why)

    def cancel(_: asyncio.Future[EncodedResponse]) -> None:
        if encoded.cancelled():
            response.cancel()

    response.add_done_callback(encode)
    encoded.add_done_callback(cancel)
    return encoded


def _error_response(header: frame.RequestHeader, error: BaseException) -> Response:
    """Return the response that carries an error for a whole request.

    Raises CloseConnection where the API's response has no field for one.
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
