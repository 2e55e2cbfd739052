"""The requests that a broker got, as a test looks at them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..protocol import frame
from ..protocol.apis import message
from ..protocol.primitives import Buffer
from ..protocol.schema import Message
from .faults import api_name, api_named

# A recording keeps no more: a test that runs for long would fill the memory.
MAX_REQUESTS = 10_000


@dataclass(slots=True, eq=False)
class SeenRequest:
    """One request. `body` and `answer` are decoded when a test looks at them."""

    # Kafka's name: "Produce".
    api: str
    version: int
    client_id: str
    data: bytes = field(repr=False)
    # The frame of the response; None until it was sent, and of a request that has none.
    response: bytes | None = field(default=None, repr=False)

    @property
    def body(self) -> Message:
        """The decoded request."""
        return decoded_request(frame.decode_request_header(self.data)[0], self.data)

    @property
    def answer(self) -> Message | None:
        """The decoded response; None while there is none."""
        return None if self.response is None else decoded_response(api_named(self.api), self.version, self.response)


class Seen:
    """The requests of a recording, oldest first. The kit's own are not among them."""

    def __init__(self) -> None:
        self._requests: list[SeenRequest] = []
        # How many requests came when the recording was full.
        self.dropped = 0

    def __iter__(self) -> Iterator[SeenRequest]:
        return iter(list(self._requests))

    def __len__(self) -> int:
        return len(self._requests)

    def __getitem__(self, at: int) -> SeenRequest:
        return self._requests[at]

    def __repr__(self) -> str:
        return f"<{len(self)} requests: {', '.join(sorted(self.apis()))}>"

    def of(self, api: str) -> list[SeenRequest]:
        """Return the requests of one API."""
        name = api_name(api_named(api))
        return [each for each in self if each.api == name]

    def apis(self) -> set[str]:
        """Return the names of the APIs that were asked."""
        return {each.api for each in self}

    def add(self, request: SeenRequest) -> bool:
        """Note a request; False where the recording is full."""
        if len(self._requests) >= MAX_REQUESTS:
            self.dropped += 1
            return False
        self._requests.append(request)
        return True


def decoded_request(header: frame.RequestHeader, data: Buffer) -> Message:
    """Return the message in the frame of a request. Raises ProtocolError, and KeyError for an unknown API."""
    return frame.request_decoder(message(header.api_key, "request"), header.api_version)(data)[2]


def encoded_request(header: frame.RequestHeader, request: Message) -> bytes:
    """Return the frame of a request, without its length."""
    pieces: Any = frame.encode_request(*header, request)
    return b"".join(map(bytes, pieces))[4:]


def decoded_response(key: int, version: int, response: bytes) -> Message:
    """Return the message in the frame of a response. Raises ProtocolError."""
    return frame.decode_response(memoryview(response)[4:], message(key, "response"), version)[1]
