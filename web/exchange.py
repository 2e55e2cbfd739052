"""The values of HTTP: a request with its whole body, and a response whose body is bytes or pieces that come in time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field


class HttpError(Exception):
    """A request that is refused: with a status of HTTP, and a text for people."""

    def __init__(self, status: int, message: str, headers: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers


@dataclass(frozen=True, slots=True)
class Request:
    """A request. `path` and `query` are as they were sent; names of headers are in lower case."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    # The IP address of the client.
    address: str = field(default="", compare=False)
    # Whether the client has closed its side meanwhile. What takes long and changes nothing need not go on then.
    is_gone: Callable[[], bool] = field(default=lambda: False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Response:
    """A response. Pieces are sent as they come, so nobody holds them all; an empty piece only asks who still reads."""

    status: int
    body: bytes | AsyncIterator[bytes] = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Sequence[tuple[str, str]] = ()
