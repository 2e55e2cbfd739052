"""The HTTP endpoint: one bounded request a connection, and nobody holds it up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from http import HTTPStatus

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.configs.security_table import AUTHORIZERS
from odradek.broker.http import endpoint
from odradek.broker.http.endpoint import HttpEndpoint, Page
from odradek.tests.support.brokers.http import exchange, get
from odradek.tests.support.waiting import until


async def _pages(path: str) -> Page:
    if path == "/broken":
        raise RuntimeError("a defect")
    if path == "/large":
        return Page(HTTPStatus.OK, "text/plain", iter(["x" * 100_000] * 100))
    return Page.of_text(HTTPStatus.OK, f"page {path}\n")


@pytest.fixture
async def served() -> AsyncIterator[HttpEndpoint]:
    each = HttpEndpoint("127.0.0.1", 0, _pages)
    await each.start()
    yield each
    await each.stop()


@pytest.mark.parametrize(
    ("listener", "authorizer", "is_told"),
    [
        ("0.0.0.0:0", True, True),
        (":0", True, True),
        ("0", True, False),
        ("127.0.0.1:0", True, False),
        ("0.0.0.0:0", False, False),
    ],
)
async def test_a_broker_with_an_authorizer_says_that_its_endpoint_is_open(
    config: BrokerConfig, caplog: pytest.LogCaptureFixture, listener: str, authorizer: bool, is_told: bool
) -> None:
    own = {"authorizer_class_name": AUTHORIZERS[0], "super_users": "User:ANONYMOUS"} if authorizer else {}
    async with Broker(replace(config, http_listener=listener, **own)):
        assert (f"http.listener={listener} is open" in caplog.text) == is_told


async def test_it_answers_get_and_head_and_closes(served: HttpEndpoint) -> None:
    answer = await get(served.address, "/a?query=1")
    assert (answer.status, answer.text) == (200, "page /a\n")
    assert answer.headers[b"connection"] == b"close"
    assert (await get(served.address, "/a", "HEAD")).text == ""


async def test_an_older_client_gets_the_page_without_chunks(served: HttpEndpoint) -> None:
    assert (await exchange(served.address, b"GET /a HTTP/1.0\r\n\r\n")).endswith(b"\r\n\r\npage /a\n")


async def test_a_second_request_on_a_connection_gets_no_answer(served: HttpEndpoint) -> None:
    request = b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert (await exchange(served.address, request * 2)).count(b"HTTP/1.1 200") == 1


@pytest.mark.parametrize("method", ["POST", "DELETE", "OPTIONS"])
async def test_other_methods_are_refused(served: HttpEndpoint, method: str) -> None:
    answer = await get(served.address, "/a", method)
    assert (answer.status, answer.headers[b"allow"]) == (405, b"GET, HEAD")


@pytest.mark.parametrize("data", [b"nonsense\r\n\r\n", b"GET /a HTTP/1.1\r\n\r\n"], ids=["nonsense", "no Host"])
async def test_a_request_that_is_wrong_is_refused(served: HttpEndpoint, data: bytes) -> None:
    assert (await exchange(served.address, data)).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("data", [b"GET /" + b"a" * 100_000, b"GET /a HTTP/1.1\r\n" + b"X: y\r\n" * 20_000])
async def test_a_request_that_is_too_large_is_refused_before_its_end(served: HttpEndpoint, data: bytes) -> None:
    # The connection is closed with bytes unread: the system may drop the answer.
    assert (await exchange(served.address, data))[:12] in (b"HTTP/1.1 431", b"")


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:1", 200), ("127.0.0.1", 200), ("[::1]:1", 200), ("attacker.example", 403), ("10.0.0.1", 403)],
)
async def test_on_a_loopback_address_a_request_must_name_one(served: HttpEndpoint, host: str, status: int) -> None:
    assert (await get(served.address, "/a", host=host)).status == status


async def test_a_defect_of_a_page_is_an_error_and_a_line_in_the_log(
    served: HttpEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    assert (await get(served.address, "/broken")).status == 500
    assert "/broken could not be answered" in caplog.text


async def test_a_client_that_sends_nothing_is_closed() -> None:
    served = HttpEndpoint("127.0.0.1", 0, _pages, request_s=0.01)
    await served.start()
    try:
        assert await exchange(served.address, b"GET") == b""
    finally:
        await served.stop()


async def test_a_client_that_reads_nothing_is_closed_and_its_page_not_made() -> None:
    made = 0

    def pieces() -> Iterator[str]:
        nonlocal made
        for _ in range(10_000):
            made += 1
            yield "x" * 100_000

    async def page(_: str) -> Page:
        return Page(HTTPStatus.OK, "text/plain", pieces())

    served = HttpEndpoint("127.0.0.1", 0, page, response_s=0.05)
    await served.start()
    try:
        host, _, port = served.address.rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port), limit=1)
        writer.write(b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await until(lambda: made and not served.open_connections)
        assert made < 1_000
        writer.transport.abort()
    finally:
        await served.stop()


async def test_connections_over_the_bound_are_closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "MAX_CONNECTIONS", 1)
    served = HttpEndpoint("127.0.0.1", 0, _pages)
    await served.start()
    host, _, port = served.address.rpartition(":")
    _, first = await asyncio.open_connection(host, int(port))
    await until(lambda: served.open_connections)
    assert await exchange(served.address, b"GET /a HTTP/1.0\r\n\r\n") == b""
    first.transport.abort()
    await until(lambda: not served.open_connections)
    assert (await get(served.address, "/a")).status == 200
    await served.stop()


async def test_a_stop_ends_open_connections(served: HttpEndpoint) -> None:
    host, _, port = served.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    await until(lambda: served.open_connections)
    await served.stop()
    assert await reader.read() == b""
    writer.transport.abort()


async def test_a_large_page_arrives_whole(served: HttpEndpoint) -> None:
    assert len((await get(served.address, "/large")).text) == 10_000_000
