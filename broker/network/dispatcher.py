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
from ...protocol.apis import ApiKey, key_of, message
from ...protocol.codec import Buffer, Decoder, decoder
from ...protocol.errors import DecodeError, EncodeError, ErrorCode, KafkaError, TooManyValues
from ...protocol.schema import Message, span
from ..coordination.large_response import LargeResponse
from .connection import CloseConnection, Connection
from .large_messages import MAX_VALUES, Handled, LargeMessages, keep_frame
from .receive_buffer import POOLED_BYTES
from .request import RequestContext
from .routes import Handler, Route, routes_of
from .send_queue import EncodedResponse
from .watchdog import Watchdog

if TYPE_CHECKING:
    from ..services import Services

# All requests but Produce carry values alone. The largest that clients send are assignments and commits of very large
# groups, a few MB.
MAX_VALUES_BYTES = 8 * 1024 * 1024
# A request of more bytes is handled in portions too. Only a Produce has more, whose portions are counted by their bytes
# (routes.py). Its frame has a buffer of its own, so that its batches are not copied.
LARGE_BYTES = POOLED_BYTES

_log = logging.getLogger(__name__)


class Dispatcher:
    """The way from a frame to an encoded response, or to a future of one where the request waits."""

    def __init__(self, services: Services, watchdog: Watchdog) -> None:
        self._services = services
        self._watchdog = watchdog
        self._routes = {int(route.key): route for route in routes_of(services)}
        # (key, version) -> decoder and handler, filled at the first such request; bounded by the routes' versions.
        self._ready: dict[tuple[int, int], tuple[Decoder[Message], Handler, Route]] = {}
        self._large = LargeMessages(services.threads)
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
            return self._handle_many(header, route, partial(decode, keep_frame(data), offset), handle_portion, error)
        except DecodeError as error:
            raise CloseConnection(f"a {_name(header)} request that cannot be read: {error}") from error
        if len(data) > LARGE_BYTES and route.portions:
            return self._handle_large(header, route, request, partial(handle, RequestContext(header, connection)))
        try:
            response = handle(RequestContext(header, connection), request)
        except CloseConnection:
            raise
        except Exception as error:  # noqa: BLE001 - becomes a response or a closed connection, and is logged
            response = _error_response(header, error)
        if isinstance(response, asyncio.Future):
            return self._encode_later(header, cast("asyncio.Future[Handled]", response))
        if isinstance(response, LargeResponse):
            return self._respond_large(header, response)
        return _encode(header, response)

    def _handle_many(
        self,
        header: frame.RequestHeader,
        route: Route,
        decode: Callable[[int], tuple[Message, int]],
        handle: Callable[[Message], Handled | asyncio.Future[Any]],
        error: TooManyValues,
    ) -> EncodedResponse | asyncio.Future[EncodedResponse]:
        """Handle a request that has more values than one turn may handle."""
        if not route.portions and not route.is_whole:
            return _encode(header, _error_response(header, _too_many(header, route.max_values, error)))
        portions, max_values = route.portions, route.max_values
        decode_all, encode = partial(_decode_many, header, decode), partial(_encode, header)
        done = self._large.handle(decode_all, portions, max_values, handle, encode)
        return asyncio.ensure_future(_or_error(header, done))

    def _handle_large(
        self,
        header: frame.RequestHeader,
        route: Route,
        request: Message,
        handle: Callable[[Message], Handled | asyncio.Future[Any]],
    ) -> asyncio.Future[EncodedResponse]:
        """Handle a request of few values and very many bytes."""
        encode = partial(_encode, header)
        done = self._large.handle_decoded(request, route.portions, route.max_values, handle, encode)
        return asyncio.ensure_future(_or_error(header, done))

    def _respond_large(
        self, header: frame.RequestHeader, response: LargeResponse[Any]
    ) -> asyncio.Future[EncodedResponse]:
        """Make and encode a response of many values."""
        done = self._large.respond(response, partial(_encode, header))
        return asyncio.ensure_future(_or_error(header, done))

    def _encode_later(
        self, header: frame.RequestHeader, response: asyncio.Future[Handled]
    ) -> asyncio.Future[EncodedResponse]:
        """Return a future of the encoded response. Cancelling it cancels `response`, and the other way round."""
        encoded: asyncio.Future[EncodedResponse] = response.get_loop().create_future()
        # What the client waits for: the response, then its encoding where that is large.
        awaited: list[asyncio.Future[Any]] = [response]

        def encode(_: asyncio.Future[Handled]) -> None:
            if encoded.done():
                return
            if response.cancelled():
                encoded.cancel()
                return
            error = response.exception()
            made = response.result() if error is None else None
            if isinstance(made, LargeResponse):
                awaited[0] = large = self._respond_large(header, made)
                large.add_done_callback(partial(_pass_on, encoded))
                return
            try:
                encoded.set_result(_encode(header, made if error is None else _error_response(header, error)))
            except CloseConnection as why:
                encoded.set_exception(why)

        def cancel(_: asyncio.Future[EncodedResponse]) -> None:
            if encoded.cancelled():
                awaited[0].cancel()

        response.add_done_callback(encode)
        encoded.add_done_callback(cancel)
        return encoded

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


def _decode_many(header: frame.RequestHeader, decode: Callable[[int], tuple[Message, int]]) -> Message:
    """Decode a request of at most MAX_VALUES. Raises CloseConnection, or KafkaError where it has more."""
    try:
        return decode(MAX_VALUES)[0]
    except TooManyValues as error:
        raise _too_many(header, MAX_VALUES, error) from error
    except DecodeError as error:
        raise CloseConnection(f"a {_name(header)} request that cannot be read: {error}") from error


def _too_many(header: frame.RequestHeader, max_values: int, error: TooManyValues) -> KafkaError:
    """Return the error of a request that is too large; it closes the connection where the API has no field for it."""
    why = f"a {_name(header)} request of more than {max_values} values: {error}"
    return KafkaError(ErrorCode.INVALID_REQUEST, why)


async def _or_error(header: frame.RequestHeader, response: Awaitable[EncodedResponse]) -> EncodedResponse:
    """Return the response, or the one that carries the error for the whole request."""
    try:
        return await response
    except Exception as error:  # noqa: BLE001 - becomes a response or a closed connection, and is logged
        return _encode(header, _error_response(header, error))


def _encode(header: frame.RequestHeader, response: Message | None) -> EncodedResponse:
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


def _pass_on(encoded: asyncio.Future[EncodedResponse], made: asyncio.Future[EncodedResponse]) -> None:
    """Complete a future as another one has ended."""
    if encoded.done():
        return
    if made.cancelled():
        encoded.cancel()
    elif (error := made.exception()) is not None:
        encoded.set_exception(error)
    else:
        encoded.set_result(made.result())


def _error_response(header: frame.RequestHeader, error: BaseException) -> Message:
    """Return the response that carries an error for a whole request.

    Raises CloseConnection where the API's response has no field for one.
    """
    if isinstance(error, CloseConnection):
        raise error
    code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
    if code is ErrorCode.UNKNOWN_SERVER_ERROR:
        _log.error("%s failed", _name(header), exc_info=error)
    response = message(key_of(header.api_key), "response")()
    if not _has_error(response, header.api_version):
        raise CloseConnection(f"{_name(header)} failed: {error}") from error
    response.error_code = int(code)  # type: ignore[attr-defined]
    if hasattr(response, "error_message"):
        response.error_message = str(error)  # type: ignore[attr-defined]
    return response


def _has_error(response: Message, version: int) -> bool:
    """Return whether a response of this version has an error for the whole request."""
    field = next((each for each in response.FIELDS if each.name == "error_code"), None)
    return field is not None and (version in span(field.versions) or response.KEY == ApiKey.API_VERSIONS)


def _name(header: frame.RequestHeader) -> str:
    return f"{key_of(header.api_key).name.title().replace('_', '')} version {header.api_version}"
