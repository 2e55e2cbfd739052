"""Requests and responses of one connection, without the connection: no socket and no event loop.

    request -> Exchange.send -> bytes        bytes -> FrameBuffer -> frame -> Exchange.receive -> (waiter, response)

An `Exchange` numbers requests, remembers the requests in flight, and knows which versions the broker supports.
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

W = TypeVar("W")

_LAST_CORRELATION_ID = 0x7FFFFFFF


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
        """Return the bytes of a request, which is then in flight unless `response` is None: then nothing waits."""
        key = type(message).KEY
        assert key is not None
        correlation_id = self._next_id
        self._next_id = 0 if correlation_id == _LAST_CORRELATION_ID else correlation_id + 1
        pieces = frame.encode_request(key, version, correlation_id, self._client_id, message)
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

    def learn_versions(self, response: ApiVersionsResponse) -> None:
        """Take over the versions that the broker supports, and the finalized features."""
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        self.features = {each.name: each.max_version_level for each in response.finalized_features}


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
