"""Starting and stopping a registry, and what it asks of its clients."""

from __future__ import annotations

import asyncio
import base64
import logging
import signal
import socket

import pytest
from odradek.broker import Broker
from odradek.registry import LogOptions, Registry, RegistryConfig, server
from odradek.registry.door import MAX_BODY_BYTES, Door
from odradek.registry.schemas_log import SchemasLog
from odradek.tests.registry.conftest import Client
from odradek.web.exchange import Request


async def test_a_stop_ends_open_connections_without_a_word(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    async with Registry(RegistryConfig(LogOptions(broker.address), port=0)) as registry:
        host, _, port = registry.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        await registry.stop()
        writer.close()
    assert [each.message for each in caplog.records if each.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(
    ("host", "login", "warned"), [("0.0.0.0", None, 1), ("0.0.0.0", "a:b", 0), ("127.0.0.1", None, 0)]
)
async def test_a_registry_that_others_reach_without_a_login_says_so(
    broker: Broker, caplog: pytest.LogCaptureFixture, host: str, login: str | None, warned: int
) -> None:
    async with Registry(RegistryConfig(LogOptions(broker.address), host=host, port=0, login=login)):
        pass
    assert caplog.text.count("is open: everybody who reaches it is let in") == warned


async def test_a_login_is_asked_for(broker: Broker) -> None:
    config = RegistryConfig(LogOptions(broker.address), port=0, login="ann:secret")
    async with Registry(config) as registry:
        ask = Client(registry.url)
        wrong, right = (f"Basic {base64.b64encode(each).decode()}" for each in (b"ann:x", b"ann:secret"))
        assert (await ask("GET", "/subjects"))[0] == 401
        assert (await ask("GET", "/subjects", headers={"authorization": wrong}))[0] == 401
        assert await ask("GET", "/subjects", headers={"authorization": right}) == (200, [])
        named = {"authorization": right, "host": "registry.example"}
        assert await ask("GET", "/subjects", headers=named) == (200, [])


async def test_an_empty_login_lets_nobody_in() -> None:
    door = Door(SchemasLog(LogOptions("localhost:1")), "", frozenset({"localhost"}))
    refused = await door.look_at_head(Request("GET", "/subjects", headers={"host": "localhost"}))
    assert refused is not None and refused.status == 401


async def test_a_read_only_registry_changes_nothing(broker: Broker, registry: Registry) -> None:
    config = RegistryConfig(LogOptions(broker.address, read_only=True), port=0)
    async with Registry(config) as reading:
        status, answer = await Client(reading.url)("PUT", "/config", {"compatibility": "NONE"})
    assert (status, answer["error_code"]) == (422, 42205)


async def test_large_requests_and_strange_types_are_refused(registry: Registry, ask: Client) -> None:
    body = b'{"schema":"' + b" " * (MAX_BODY_BYTES - 20) + b'"}'
    assert (await ask("POST", "/subjects/s/versions", body))[1]["error_code"] == 42201
    assert (await ask("POST", "/subjects/s/versions", b"{}", {"content-type": "text/plain"}))[0] == 415
    host, _, port = registry.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9999999\r\n\r\n" + b" " * (MAX_BODY_BYTES + 1))
    assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
    writer.close()
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"no HTTP\r\n\r\n")
    assert await reader.readline() == b"HTTP/1.1 400 Bad Request\r\n"
    writer.close()


async def test_connections_beyond_the_bound_are_closed(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 0)
    async with Registry(RegistryConfig(LogOptions(broker.address), port=0)) as registry:
        host, _, port = registry.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        assert await reader.read() == b""
        writer.close()


async def test_sigterm_ends_a_registry_whose_broker_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        config = RegistryConfig(LogOptions(f"{host}:{port}"), port=0)
        serving = asyncio.create_task(server.serve(config, lambda url: None))
        accepted, _ = await asyncio.to_thread(silent.accept)
        signal.raise_signal(signal.SIGTERM)
        await serving
        accepted.close()
