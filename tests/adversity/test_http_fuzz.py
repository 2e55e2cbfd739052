"""Anything may be sent to the HTTP endpoint: it answers or closes, the broker serves on, and nothing stays open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.http.endpoint import HttpEndpoint
from odradek.tests.support.brokers.http import exchange, get
from odradek.tests.support.waiting import until

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nContent-Length: 3\r\n\r\nabc"
EXAMPLES = 60


@pytest.fixture
async def broker(config: BrokerConfig) -> AsyncIterator[Broker]:
    async with Broker(replace(config, http_listener="0")) as each:
        yield each


@pytest.fixture
async def endpoint(broker: Broker) -> AsyncIterator[HttpEndpoint]:
    """The broker's pages, for clients that are in a hurry."""
    assert broker.http is not None
    each = HttpEndpoint("127.0.0.1", 0, broker.http.pages, request_s=0.02)
    await each.start()
    yield each
    await each.stop()


def _damaged(random: Random) -> bytes:
    """Return a request with bytes changed, cut, doubled or put in."""
    data = bytearray(REQUEST)
    for _ in range(random.randint(1, 8)):
        at = random.randrange(len(data) + 1)
        match random.randrange(4):
            case 0:
                data[at : at + 1] = random.randbytes(1)
            case 1:
                del data[at : at + random.randint(1, 10)]
            case 2:
                data[at:at] = data[: random.randint(1, 40)]
            case _:
                data[at:at] = random.choice((b"\r\n", b"\n", b"\0", b"Transfer-Encoding: chunked\r\n", b"\xff" * 9))
    return bytes(data)


@pytest.mark.parametrize("seed", range(3))
async def test_damaged_requests_are_answered_or_closed(
    broker: Broker, endpoint: HttpEndpoint, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    random, address = Random(seed), broker.http_address
    assert address is not None
    for _ in range(EXAMPLES):
        answer = await exchange(endpoint.address, _damaged(random))
        assert answer == b"" or answer.startswith((b"HTTP/1.1 ", b"HTTP/1.0 ")), answer
    assert (await get(address, "/live")).text == "alive\n"
    await until(lambda: not endpoint.open_connections)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
