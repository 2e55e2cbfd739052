"""The one table of what the broker serves: API key, versions, handler. It *is* the ApiVersions answer.

A route names its handler's module by the API's own name and loads it at the first request, so that a start pays for
nothing that is not used. A request is decoded, handed to `handlers/<api>.handle(services, context, request)` and its
response encoded; what cannot be answered in the protocol closes the connection with one log line, as Kafka does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ...protocol import frame
from ...protocol.apis import ApiKey, message
from ...protocol.codec import decoder
from ...protocol.decoding import Buffer
from ...protocol.errors import DecodeError, EncodeError, ErrorCode, KafkaError
from ...protocol.schema import Message
from .connection import CloseConnection, Connection
from .send_queue import EncodedResponse

if TYPE_CHECKING:
    from ..services import Services

Response = Message | None
Decoder = Callable[[Buffer, int], tuple[Message, int]]
Handler = Callable[["Services", "RequestContext", Any], "Response | asyncio.Future[Any]"]

_log = logging.getLogger(__name__)


class Route(NamedTuple):
    """The versions of an API that are served; `offered_from` is the lowest that ApiVersions names, where that is
    lower.
    """

    key: ApiKey
    min_version: int
    max_version: int
    offered_from: int | None = None

    @property
    def advertised_min(self) -> int:
        return self.min_version if self.offered_from is None else self.offered_from


# All but Produce carries values, read one by one: some 10 MB a second, and nobody else has a turn meanwhile. The
# largest that clients send are the assignments and commits of very large groups, a few MB.
MAX_VALUES_BYTES = 8 * 1024 * 1024

# Adding a line here is the only way to offer an API; tests/broker/test_dispatch.py holds every pair against a test.
ROUTES = (
    # Produce 0-2, Fetch 0-3 and ListOffsets 0 are more than Kafka 4 has: message sets, for clients before 0.11.
    Route(ApiKey.PRODUCE, 0, 13),
    Route(ApiKey.FETCH, 0, 18),
    Route(ApiKey.LIST_OFFSETS, 0, 11),
    Route(ApiKey.METADATA, 0, 13),
    # The same clients' OffsetCommit 0 and 1 and OffsetFetch 0, which once went to ZooKeeper, go to the group's offsets.
    Route(ApiKey.OFFSET_COMMIT, 0, 10),
    Route(ApiKey.OFFSET_FETCH, 0, 10),
    Route(ApiKey.FIND_COORDINATOR, 0, 6),
    Route(ApiKey.JOIN_GROUP, 0, 9),
    Route(ApiKey.HEARTBEAT, 0, 4),
    Route(ApiKey.LEAVE_GROUP, 0, 5),
    Route(ApiKey.SYNC_GROUP, 0, 5),
    Route(ApiKey.DESCRIBE_GROUPS, 0, 6),
    Route(ApiKey.LIST_GROUPS, 0, 5),
    Route(ApiKey.API_VERSIONS, 0, 4),
    Route(ApiKey.CREATE_TOPICS, 2, 7),
    Route(ApiKey.DELETE_TOPICS, 1, 6),
    Route(ApiKey.DELETE_RECORDS, 0, 2),
    Route(ApiKey.INIT_PRODUCER_ID, 0, 5),
    Route(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4),
    Route(ApiKey.WRITE_TXN_MARKERS, 1, 2),
    Route(ApiKey.TXN_OFFSET_COMMIT, 0, 5),
    Route(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5),
    Route(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4),
    Route(ApiKey.END_TXN, 0, 5),
    Route(ApiKey.DESCRIBE_CONFIGS, 1, 4),
    Route(ApiKey.ALTER_CONFIGS, 0, 2),
    Route(ApiKey.CREATE_PARTITIONS, 0, 3),
    Route(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1),
    Route(ApiKey.LIST_CONFIG_RESOURCES, 0, 1),
    Route(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0),
    Route(ApiKey.DESCRIBE_LOG_DIRS, 1, 5),
    Route(ApiKey.DELETE_GROUPS, 0, 2),
    Route(ApiKey.OFFSET_DELETE, 0, 0),
    Route(ApiKey.UPDATE_FEATURES, 0, 2),
    Route(ApiKey.DESCRIBE_CLUSTER, 0, 2),
    Route(ApiKey.DESCRIBE_PRODUCERS, 0, 0),
    Route(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0),
    Route(ApiKey.LIST_TRANSACTIONS, 0, 2),
)


class RequestContext:
    """Who asks, and how: what a handler may know of a request besides its body."""

    __slots__ = ("api_key", "api_version", "client_id", "connection", "correlation_id")

    def __init__(self, header: frame.RequestHeader, connection: Connection) -> None:
        self.api_key, self.api_version, self.correlation_id, client_id = header
        self.client_id: str = client_id or ""
        self.connection = connection

    @property
    def client_host(self) -> str:
        """The client's address as Kafka writes it in a group's description."""
        return "/" + self.connection.client_host

    @property
    def advertised_address(self) -> tuple[str, int]:
        """The host and port that this client is told to connect to."""
        return self.connection.advertised_address


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
