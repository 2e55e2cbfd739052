"""The last requests that a broker got, for the report of a failed test: what they were about, and how they ended."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from ..broker.network.send_queue import EncodedResponse
from ..protocol import frame
from ..protocol.apis import ApiKey
from ..protocol.errors import ErrorCode, ProtocolError
from ..protocol.schema import Struct
from .faults import Names, api_name, places
from .requests import decoded_request, decoded_response, encoded_request

# What the report of a failed test shows.
RECENT_REQUESTS = 50
# How much of a request and of its response is kept until a report asks.
_KEPT_BYTES = 16 * 1024
_SHOWN_TOPICS = 5


@dataclass(slots=True, eq=False)
class RecentRequest:
    """One request. What it says is decoded for the report."""

    header: frame.RequestHeader
    # Empty where it is too large to be kept.
    data: bytes = field(repr=False)
    size: int = 0
    at_s: float = field(default_factory=time.time)
    # The frame of the response, if it is small; its length; what took its place.
    response: bytes = field(default=b"", repr=False)
    response_bytes: int = 0
    ended: str = "no answer"

    def answer(self, response: EncodedResponse) -> None:
        """Note the response, which is None where the request has none."""
        pieces = cast("list[Any]", response or ())
        self.ended = "no answer is due" if response is None else "answered"
        self.response_bytes = sum(map(len, pieces))
        if self.response_bytes <= _KEPT_BYTES and not any(hasattr(each, "read") for each in pieces):
            self.response = b"".join(map(bytes, pieces))

    def line(self, names: Names) -> str:
        """Return the line of the report."""
        header, at = self.header, datetime.fromtimestamp(self.at_s)
        said = (
            f"{at:%H:%M:%S.%f} {api_name(header.api_key)} v{header.api_version}, client id {header.client_id or ''!r}"
        )
        about = self._topics(names)
        return f"{said}{f', {about}' if about else ''}: {self._outcome()}"

    def _topics(self, names: Names) -> str:
        if not self.data:
            return f"{self.size} bytes"
        try:
            request = decoded_request(self.header, self.data)
            found = list(dict.fromkeys(places(request, self.header.api_version, names)))
        except (ProtocolError, KeyError):
            return ""
        shown = [topic if partition is None else f"{topic}-{partition}" for topic, partition in found[:_SHOWN_TOPICS]]
        return ", ".join(shown) + (f" and {len(found) - len(shown)} more" if len(found) > len(shown) else "")

    def _outcome(self) -> str:
        if not self.response:
            return self.ended + (f" with {self.response_bytes} bytes" if self.response_bytes else "")
        try:
            answer = decoded_response(self.header.api_key, self.header.api_version, self.response)
        except ProtocolError:
            return self.ended
        errors = Counter(_errors(answer))
        return ", ".join(f"{name} ({count} times)" if count > 1 else name for name, count in errors.items()) or "ok"


def noted(header: frame.RequestHeader, data: memoryview) -> RecentRequest:
    """Return a request as the report keeps it."""
    size = len(data)
    return RecentRequest(header, bytes(data) if size <= _KEPT_BYTES else _without_records(header, data), size)


def _without_records(header: frame.RequestHeader, data: memoryview) -> bytes:
    """Return a large Produce without its records: it names a few topics. Of other large requests nothing is kept."""
    if header.api_key != ApiKey.PRODUCE:
        return b""
    try:
        request: Any = decoded_request(header, data)
    except ProtocolError:
        return b""
    for topic in request.topic_data:
        for partition in topic.partition_data:
            partition.records = b""
    found = encoded_request(header, request)
    return found if len(found) <= _KEPT_BYTES else b""


def _errors(item: Struct) -> Iterator[str]:
    """Yield the names of the errors in a response."""
    for each in type(item).FIELDS:
        value: Any = getattr(item, each.name)
        if each.name.endswith("error_code") and value:
            yield ErrorCode.of(value).name
        elif isinstance(value, list):
            yield from (
                error for inner in cast("list[Any]", value) if isinstance(inner, Struct) for error in _errors(inner)
            )
