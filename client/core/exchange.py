"""Requests and responses of one connection, without the connection: no socket and no event loop.

    request -> Exchange.send -> bytes        bytes -> FrameBuffer -> frame -> Exchange.receive -> (waiter, response)

An `Exchange` numbers requests, remembers the requests in flight, and knows which versions the broker supports.

`FrameBuffer` lends out the memory that a socket reads into: a small staging buffer while frames are small, a buffer
for the frame once a larger one is announced. A frame is handed over once, and not written to while anybody holds a
view into it. The memory of a large frame is used again when nobody does: fresh memory costs a page fault for each
4 KiB, and that was a quarter of the time of reading.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, cast

from ... import __version__
from ...protocol import frame
from ...protocol.errors import DecodeError, EncodeError, ErrorCode, KafkaError
from ...protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ...protocol.primitives import Buffer
from ...protocol.schema import Message
from ..errors import BadResponse, ConnectionLost, UnsupportedVersion, ValueOutOfRange

W = TypeVar("W")

# What a connection sends before it is ready: request, response type and version of each step. A shell carries it out.
Request = tuple[Message, type[Message], int]
Conversation = Generator[Request, Any, int]

_LAST_CORRELATION_ID = 0x7FFFFFFF


class Identity(NamedTuple):
    """Which broker of which cluster a client means to connect to (KIP-1242)."""

    cluster_id: str
    node_id: int


@dataclass(slots=True)
class InFlightRequest(Generic[W]):
    """One request that was sent and has no response yet."""

    api: str
    response: type[Message]
    version: int
    waiter: W


class Exchange(Generic[W]):
    """The requests in flight on one connection, in order.

    `W` is the type of the waiter: what the connection wants back with a response.
    """

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._next_id = 0
        # Invariant: in the order of sending; brokers respond in that order. Keys are correlation ids.
        self.in_flight: dict[int, InFlightRequest[W]] = {}
        # API key -> the lowest and highest version that the broker supports.
        self.versions: dict[int, tuple[int, int]] = {}
        # The cluster's finalized features with their levels (KIP-584).
        self.features: dict[str, int] = {}

    @property
    def sent(self) -> int:
        """How many requests were sent, until the numbers begin again."""
        return self._next_id

    def version_for(self, request: type[Message], at_most: int | None = None) -> int:
        """Return the highest version of `request` that both sides support. Raises UnsupportedVersion."""
        assert request.KEY is not None
        ours = request.VERSIONS
        if at_most is not None:
            ours = range(ours[0], min(ours[-1], at_most) + 1)
        theirs = self.versions.get(request.KEY)
        if theirs is None or not (common := range(max(ours[0], theirs[0]), min(ours[-1], theirs[1]) + 1)):
            raise UnsupportedVersion(api_name(request), ours, theirs)
        return common[-1]

    def send(self, message: Message, version: int, response: type[Message] | None, waiter: W | None) -> list[Buffer]:
        """Return the bytes of a request, which is then in flight unless `response` is None: then nothing waits.

        Raises ValueOutOfRange.
        """
        key = type(message).KEY
        assert key is not None
        correlation_id = self._next_id
        self._next_id = 0 if correlation_id == _LAST_CORRELATION_ID else correlation_id + 1
        try:
            pieces = frame.encode_request(key, version, correlation_id, self._client_id, message)
        except EncodeError as error:
            raise ValueOutOfRange(f"a value does not fit the request: {error}") from error
        if response is not None:
            name = api_name(type(message))
            self.in_flight[correlation_id] = InFlightRequest(name, response, version, cast("W", waiter))
        return cast("list[Buffer]", pieces)  # a client puts no file ranges into requests

    def receive(self, body: bytes | bytearray | memoryview) -> tuple[W, Message]:
        """Return the waiter of the oldest request in flight, and its response decoded from a frame.

        Raises BadResponse if the frame responds to another request or cannot be decoded.
        """
        correlation_id = int.from_bytes(body[:4], "big", signed=True)
        expected = next(iter(self.in_flight), None)
        if correlation_id != expected:
            raise BadResponse(f"an answer to request {correlation_id} came where {expected} is next")
        request = self.in_flight.pop(correlation_id)
        version = request.version
        if request.response is ApiVersionsResponse and _rejects_version(body):
            version = 0
        try:
            _, message = frame.decode_response(body, request.response, version)
        except DecodeError as error:
            raise BadResponse(f"the answer to {request.api} version {version} makes no sense: {error}") from error
        return request.waiter, message

    def agree_on_versions(self, address: str, identity: Identity | None = None) -> Conversation:
        """Learn the versions that the broker supports, and the finalized features.

        Raises KafkaError, ConnectionLost where the broker says that it is not the one of this identity.
        """
        cluster_id, node_id = identity or (None, -1)
        request = ApiVersionsRequest("odradek", __version__, cluster_id, node_id)
        response = yield request, ApiVersionsResponse, api_versions_version()
        if ErrorCode.of(response.error_code) is ErrorCode.UNSUPPORTED_VERSION:
            response = yield request, ApiVersionsResponse, api_versions_version(response)
        if identity is not None and response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            raise ConnectionLost(f"{address} is no longer broker {identity.node_id} of cluster {identity.cluster_id}")
        if response.error_code:
            raise KafkaError(ErrorCode.of(response.error_code), f"{address} answers ApiVersions with an error")
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        self.features = {each.name: each.max_version_level for each in response.finalized_features}
        return 0


def api_name(request: type[Message]) -> str:
    """Return Kafka's name of the API: Metadata for MetadataRequest."""
    return request.__name__.removesuffix("Request")


def api_versions_version(rejection: ApiVersionsResponse | None = None) -> int:
    """Return the version of ApiVersions to send: our highest, or after a rejection the highest that it lists."""
    ours = ApiVersionsRequest.VERSIONS
    if rejection is None:
        return ours[-1]
    key = ApiVersionsRequest.KEY
    theirs = next((api.max_version for api in rejection.api_keys if api.api_key == key), 0)
    return min(ours[-1], max(ours[0], theirs))


def _rejects_version(body: bytes | bytearray | memoryview) -> bool:
    """Whether an ApiVersions response rejects the request's version; it then has the form of version 0 (KIP-511)."""
    return ErrorCode.of(int.from_bytes(body[4:6], "big", signed=True)) is ErrorCode.UNSUPPORTED_VERSION


# Responses to a heartbeat, a produce or a small fetch fit many times over.
STAGING_BYTES = 64 * 1024
# A fetch of `fetch_max_bytes` (50 MiB) plus one batch over the limit (KIP-74) is the largest plausible response. Beyond
# this the peer is not a Kafka broker: "HTTP" read as a length is 1.2 GB, a TLS alert 350 MB.
MAX_FRAME_BYTES = 256 * 1024 * 1024
# How a TLS alert begins: its type, and the major version 3.
_TLS_ALERT = 0x1503


# The last large frames of this process, whose memory may be used again: two, because one is read while the next one
# comes. Larger ones than a usual fetch are not kept.
_KEPT_FRAMES = 2
_KEPT_BYTES = 16 * 1024 * 1024
_lent: deque[bytearray] = deque(maxlen=_KEPT_FRAMES)


class FrameBuffer:
    """The bytes of one connection that have arrived and are not handed over yet."""

    __slots__ = ("_filled", "_frame", "_limit", "_memory", "_staging", "_view")

    def __init__(self, limit_bytes: int = MAX_FRAME_BYTES, staging_bytes: int = STAGING_BYTES) -> None:
        self._limit = limit_bytes
        self._staging = bytearray(staging_bytes)
        # The large frame that is arriving, and the memory that it is in.
        self._frame: memoryview | None = None
        self._memory: bytearray | None = None
        self._view = memoryview(self._staging)
        # Invariant: the bytes in front of `_filled` have arrived, in `_frame` if there is one, else in `_staging`.
        self._filled = 0

    def writable(self) -> memoryview:
        """Return the memory for the next bytes; it is never empty."""
        return self._view[self._filled :]

    def received(self, count: int) -> list[bytes | memoryview]:
        """Take the `count` bytes that were written to `writable()`.

        Return the frames that are complete now, without their lengths. Raises BadResponse.
        """
        self._filled += count
        if self._frame is None:
            return self._split()
        if self._filled < len(self._frame):
            return []
        complete, memory = self._frame, self._memory
        self._frame, self._memory, self._view, self._filled = None, None, memoryview(self._staging), 0
        if memory is not None and len(memory) <= _KEPT_BYTES:
            _lent.append(memory)
        return [complete]

    def _split(self) -> list[bytes | memoryview]:
        frames: list[bytes | memoryview] = []
        staging, position, filled = self._staging, 0, self._filled
        while filled - position >= 4:
            size = int.from_bytes(staging[position : position + 4], "big", signed=True)
            if not 4 <= size <= self._limit:
                raise BadResponse(no_frame(size, self._limit))
            start = position + 4
            if filled - start >= size:
                position = start + size
                frames.append(bytes(staging[start:position]))
            elif size + 4 > len(staging):
                self._grow(size, staging[start:filled])
                return frames
            else:
                break
        rest = filled - position
        staging[:rest] = staging[position:filled]
        self._filled = rest
        return frames

    def _grow(self, size: int, head: bytearray) -> None:
        self._memory = _memory_for(size)
        self._view = self._frame = memoryview(self._memory)[:size]
        self._frame[: len(head)] = head
        self._filled = len(head)


def _memory_for(size: int) -> bytearray:
    """Return memory for a frame: that of an earlier one into which nobody has a view any more, else a new one."""
    for _ in range(len(_lent)):
        try:
            memory = _lent.popleft()  # first: another thread's loop may look at the same time
        except IndexError:
            break
        if len(memory) < size:
            continue
        if not _is_viewed(memory):
            return memory
        _lent.append(memory)
    return bytearray(size)


def _is_viewed(memory: bytearray) -> bool:
    """Whether there is a view into it: Python then does not let it change its size, not even back and forth."""
    try:
        memory.append(memory.pop())
    except BufferError:
        return True
    return False


def no_frame(size: int, limit_bytes: int = MAX_FRAME_BYTES) -> str:
    """Return what a length means that no frame has: a TLS listener, or no Kafka broker at all."""
    if size >> 16 == _TLS_ALERT:
        return "the listener speaks TLS: set security_protocol to SSL or SASL_SSL"
    return f"a frame of {size} bytes was announced (4 to {limit_bytes} are possible): not a Kafka broker?"
