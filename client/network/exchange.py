"""What happens on one connection, without the connection.

Frames out of bytes, answers matched to requests, versions chosen.

    bytes -> FrameBuffer -> frame -> Exchange.answer -> (who waits, message)

`FrameBuffer` lends out the memory that a socket reads into: a small staging buffer while frames are small, a buffer
of the frame's own size as soon as a larger one is announced. A frame is handed over once and never written to again,
so messages may keep views into it. `Exchange` numbers requests, remembers what each waits for, and knows which
versions the broker speaks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from ...protocol import frame
from ...protocol.errors import DecodeError, ErrorCode
from ...protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ...protocol.primitives import Buffer
from ...protocol.schema import Message
from ..errors import BadResponse, UnsupportedVersion

R = TypeVar("R", bound=Message)
W = TypeVar("W")

# Answers to a heartbeat, a produce or a small fetch fit many times over.
STAGING_BYTES = 64 * 1024
# A fetch of `fetch_max_bytes` (50 MiB) plus one batch over the limit (KIP-74) is the largest honest answer; beyond
# this the peer is not a Kafka broker. "HTTP" read as a length is 1.2 GB, a TLS alert 350 MB: both are caught.
MAX_FRAME_BYTES = 256 * 1024 * 1024
_LAST_CORRELATION_ID = 0x7FFFFFFF


class FrameBuffer:
    """Splits a stream of bytes into frames, reading large ones in place."""

    __slots__ = ("_filled", "_frame", "_limit", "_staging", "_view")

    def __init__(self, limit_bytes: int = MAX_FRAME_BYTES, staging_bytes: int = STAGING_BYTES) -> None:
        self._limit = limit_bytes
        self._staging = bytearray(staging_bytes)
        self._frame: bytearray | None = None
        self._view = memoryview(self._staging)
        # Invariant: the bytes in front of `_filled` have arrived, in the frame where there is one, else in the
        # staging buffer.
        self._filled = 0

    def writable(self) -> memoryview:
        """Where the next bytes go. Never empty."""
        return self._view[self._filled :]

    def received(self, count: int) -> list[bytes | bytearray]:
        """`count` bytes were written to `writable()`.

        The frames that are whole now, without their lengths. Raises BadResponse.
        """
        self._filled += count
        if self._frame is None:
            return self._split()
        if self._filled < len(self._frame):
            return []
        whole = self._frame
        self._frame, self._view, self._filled = None, memoryview(self._staging), 0
        return [whole]

    def _split(self) -> list[bytes | bytearray]:
        frames: list[bytes | bytearray] = []
        staging, position, filled = self._staging, 0, self._filled
        while filled - position >= 4:
            size = int.from_bytes(staging[position : position + 4], "big", signed=True)
            if not 4 <= size <= self._limit:
                raise BadResponse(
                    f"a frame of {size} bytes was announced (4 to {self._limit} are possible): not a Kafka broker?"
                )
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
        self._frame = bytearray(size)
        self._frame[: len(head)] = head
        self._view, self._filled = memoryview(self._frame), len(head)


@dataclass(slots=True)
class Waiting(Generic[W]):
    """One request that was sent and not yet answered."""

    api: str
    response: type[Message]
    version: int
    who: W


class Exchange(Generic[W]):
    """Requests and answers of one connection, in order.

    `W` is whatever the shell wants to be given back with an answer.
    """

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._next_id = 0
        # Invariant: in the order of sending; brokers answer each connection in that order.
        self.waiting: dict[int, Waiting[W]] = {}
        self.versions: dict[int, tuple[int, int]] = {}

    def version_for(self, request: type[Message], at_most: int | None = None) -> int:
        """The highest version of `request` that both sides have. Raises UnsupportedVersion."""
        assert request.KEY is not None
        ours = request.VERSIONS
        if at_most is not None:
            ours = range(ours[0], min(ours[-1], at_most) + 1)
        theirs = self.versions.get(request.KEY)
        if theirs is None or not (chosen := range(max(ours[0], theirs[0]), min(ours[-1], theirs[1]) + 1)):
            raise UnsupportedVersion(api_name(request), ours, theirs)
        return chosen[-1]

    def ask(self, message: Message, version: int, response: type[Message] | None, who: W) -> list[Buffer]:
        """The bytes of a request; its answer is awaited unless `response` is None."""
        key = type(message).KEY
        assert key is not None
        correlation_id = self._next_id
        self._next_id = 0 if correlation_id == _LAST_CORRELATION_ID else correlation_id + 1
        pieces = frame.encode_request(key, version, correlation_id, self._client_id, message)
        if response is not None:
            self.waiting[correlation_id] = Waiting(api_name(type(message)), response, version, who)
        return cast("list[Buffer]", pieces)  # a client puts no file ranges into requests

    def answer(self, body: bytes | bytearray) -> tuple[W, Message]:
        """Who waits for this frame, and what it says.

        Raises BadResponse where it answers nothing that was asked next.
        """
        correlation_id = int.from_bytes(body[:4], "big", signed=True)
        expected = next(iter(self.waiting), None)
        if correlation_id != expected:
            raise BadResponse(f"an answer to request {correlation_id} came where {expected} is next")
        waiting = self.waiting.pop(correlation_id)
        version = waiting.version
        if waiting.response is ApiVersionsResponse and _refuses_version(body):
            version = 0
        try:
            _, message = frame.decode_response(body, waiting.response, version)
        except DecodeError as error:
            raise BadResponse(f"the answer to {waiting.api} version {version} makes no sense: {error}") from error
        return waiting.who, message

    def learn_versions(self, answer: ApiVersionsResponse) -> None:
        """Take over what the broker says that it speaks."""
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


def api_name(request: type[Message]) -> str:
    """Kafka's name of the API: MetadataRequest is of Metadata."""
    return request.__name__.removesuffix("Request")


def opening_version(refusal: ApiVersionsResponse | None = None) -> int:
    """The version of ApiVersions to ask with.

    Our highest first, then the highest that the refusing broker says it has.
    """
    ours = ApiVersionsRequest.VERSIONS
    if refusal is None:
        return ours[-1]
    key = ApiVersionsRequest.KEY
    theirs = next((api.max_version for api in refusal.api_keys if api.api_key == key), 0)
    return min(ours[-1], max(ours[0], theirs))


def _refuses_version(body: bytes | bytearray) -> bool:
    """Whether an ApiVersions answer refuses the version of the question: it then has the form of version 0
    (KIP-511)."""
    return ErrorCode.of(int.from_bytes(body[4:6], "big", signed=True)) is ErrorCode.UNSUPPORTED_VERSION
