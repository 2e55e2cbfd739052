"""Which requests never wait for room: those whose responses are small for certain."""

from __future__ import annotations

from struct import pack

import pytest
from odradek.broker.network.connection_memory import SMALL_REQUEST_BYTES, has_small_response
from odradek.protocol.apis import ApiKey


@pytest.mark.parametrize(
    ("key", "version", "size", "is_small"),
    [
        (ApiKey.PRODUCE, 9, 1000, True),
        (ApiKey.HEARTBEAT, 4, 30, True),
        (ApiKey.FETCH, 4, 100, True),
        (ApiKey.FETCH, 3, 100, False),
        (ApiKey.FETCH, 12, SMALL_REQUEST_BYTES + 1, False),
        (ApiKey.METADATA, 12, 30, False),
        (30_000, 0, 30, False),
        (ApiKey.PRODUCE, 9, 3, True),
    ],
)
def test_a_small_request_of_some_apis_is_handled_at_once(key: int, version: int, size: int, is_small: bool) -> None:
    assert has_small_response(b"length" + pack(">hh", key, version) + bytes(60), 6, size) is is_small
