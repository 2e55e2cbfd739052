"""The client of a schema registry: what it keeps, whom it asks, and what it tells when nobody answers."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import ssl
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import trustme
from odradek.broker import Broker
from odradek.client.errors import InvalidOption, SchemaRegistryRefused, SchemaRegistryUnavailable
from odradek.client.schemas import Avro, Schema, SchemaRegistry, schema_registry
from odradek.client.schemas.schema_registry import HttpDoor
from odradek.registry import LogOptions, Registry, RegistryConfig


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were asked for."""
    paths, ask = list[str](), HttpDoor.ask

    def counting(door: HttpDoor, method: str, path: str, body: object = None) -> Any:
        paths.append(f"{method} {path}")
        return ask(door, method, path, body)

    monkeypatch.setattr(HttpDoor, "ask", counting)
    return paths


async def test_answers_are_kept_within_bounds(
    registry: Registry, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> None:
        client = SchemaRegistry(registry.url)
        for _ in range(3):
            assert client.register("s", Schema('"int"')) == client.look_up("s", Schema('"int"')) == 1
            assert client.schema(1) == Schema('"int"') and client.latest("s").version == 1
        assert len(asked) == 4
        monkeypatch.setattr(schema_registry, "MAX_KEPT", 2)
        for schema_id in (7, 8, 9, 7):
            with pytest.raises(SchemaRegistryRefused, match="not found"):
                client.schema(schema_id)
        assert len(asked) == 8
        assert len(client._answers._kept) == 2  # pyright: ignore[reportPrivateUsage]

    await asyncio.to_thread(work)


async def test_the_latest_version_is_asked_for_again_after_a_while(registry: Registry, asked: list[str]) -> None:
    def work() -> None:
        client = SchemaRegistry(registry.url, latest_ttl_ms=0)
        client.register("s", Schema('"int"'))
        assert client.latest("s").version == 1
        client.register("s", Schema('"long"'))
        assert client.latest("s").version == 2

    await asyncio.to_thread(work)
    assert asked.count("GET /subjects/s/versions/latest") == 2


@pytest.mark.parametrize("is_answered", [True, False])
async def test_an_answer_from_before_a_deletion_is_not_kept(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, is_answered: bool
) -> None:
    """One that is on its way while another thread deletes, and one that was kept when no answer came."""
    client, ask, posts = SchemaRegistry(registry.url), HttpDoor.ask, list[str]()

    def late(door: HttpDoor, method: str, path: str, body: object = None) -> Any:
        answer = ask(door, method, path, body)
        if method == "DELETE" and not is_answered:
            raise SchemaRegistryUnavailable("no answer")
        if method == "POST":
            posts.append(path)
            if is_answered and len(posts) == 1:
                client.delete("s")
        return answer

    def work() -> None:
        client.register("s", Schema('"int"'))
        if not is_answered:
            with pytest.raises(SchemaRegistryUnavailable):
                client.delete("s")
        client.register("s", Schema('"int"'))
        assert client.versions("s") == [2]

    monkeypatch.setattr(HttpDoor, "ask", late)
    await asyncio.to_thread(work)


@pytest.mark.parametrize("code", [404, 405, 40401])
def test_a_registry_that_compares_with_one_version_alone_is_asked_for_the_latest(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def ask(door: HttpDoor, method: str, path: str, body: object = None) -> Any:
        if "/latest" not in path:
            raise SchemaRegistryRefused(404, code, "there is no such path")
        return {"is_compatible": False, "messages": ["why"]}

    monkeypatch.setattr(HttpDoor, "ask", ask)
    client = SchemaRegistry("http://127.0.0.1:1")
    if code == 40401:
        with pytest.raises(SchemaRegistryRefused):
            client.why_incompatible("s", Schema('"int"'))
    else:
        assert client.why_incompatible("s", Schema('"int"')) == ["why"]


async def test_a_registry_that_does_not_answer_is_passed_over(registry: Registry) -> None:
    client = SchemaRegistry(f"http://127.0.0.1:1,{registry.url}")
    assert await asyncio.to_thread(client.register, "s", Schema('"int"')) == 1
    with pytest.raises(SchemaRegistryUnavailable, match=r" 127\.0\.0\.1:1: Connection refused$"):
        await asyncio.to_thread(SchemaRegistry("http://127.0.0.1:1", timeout_ms=10).subjects)


def test_a_registry_that_says_nothing_leaves_time_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    class Enough(Exception):
        pass

    class Silent(HTTPConnection):
        def request(self, *_: Any, **__: Any) -> None:
            assert self.timeout is not None
            given.append(self.timeout)
            raise TimeoutError if len(given) == 1 else Enough

    monkeypatch.setattr("http.client.HTTPConnection", Silent)
    with pytest.raises(Enough):
        HttpDoor("http://127.0.0.1:1,http://127.0.0.1:2", timeout_ms=100_000).ask("GET", "/subjects")
    assert given[0] <= 50 < given[1]


async def test_an_answer_that_comes_byte_by_byte_does_not_hold_the_client() -> None:
    ended = asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        for _ in range(1_000):
            if writer.is_closing():
                break
            writer.write(b"1")
            await asyncio.sleep(0.01)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        ended.set()

    async with await asyncio.start_server(slow, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        client = SchemaRegistry(f"http://127.0.0.1:{port}", timeout_ms=100)
        with pytest.raises(SchemaRegistryUnavailable, match="no schema registry answers"):
            await asyncio.to_thread(client.schema, 1)
        await ended.wait()


async def test_what_is_no_answer_of_a_registry_is_told() -> None:
    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n<html/>    ")
        writer.close()

    async with await asyncio.start_server(other, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(SchemaRegistryRefused, match="<html/>"):
            await asyncio.to_thread(SchemaRegistry(f"http://127.0.0.1:{port}").schema, 1)


async def test_a_login_in_the_url_is_escaped_there(broker: Broker) -> None:
    config = RegistryConfig(LogOptions(broker.address), port=0, login="ann:p@ss/w:rd")
    async with Registry(config) as registry:
        client = SchemaRegistry(f"http://ann:p%40ss%2Fw:rd@{registry.address}")
        assert await asyncio.to_thread(client.subjects) == []


async def test_a_login_and_tls_are_those_of_the_registry(broker: Broker, tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    trusted = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(trusted))
    config = RegistryConfig(LogOptions(broker.address), host="localhost", port=0, login="ann:s:cret", tls=context)
    async with Registry(config) as registry:
        url = f"https://localhost:{registry.address.rpartition(':')[2]}"
        # The requests after it show that the registry has noticed the end of this handshake before it stops.
        with pytest.raises(SchemaRegistryUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            await asyncio.to_thread(SchemaRegistry(url, login="ann:s:cret", timeout_ms=200).schema, 1)
        right = SchemaRegistry(url, login="ann:s:cret", ca_file=str(trusted))
        assert await asyncio.to_thread(Avro(right, '"int"').encode, 1, "t") == b"\0\0\0\0\1\2"
        again = pickle.loads(pickle.dumps(right))
        assert await asyncio.to_thread(again.subjects) == ["t-value"]
        wrong = SchemaRegistry(url, login="ann:other", ca_file=str(trusted))
        with pytest.raises(SchemaRegistryRefused) as refused:
            await asyncio.to_thread(wrong.schema, 1)
        assert refused.value.status == 401


def test_a_password_is_not_shown() -> None:
    client = SchemaRegistry("http://ann:secret@127.0.0.1:1", login="bob:hidden")
    assert "secret" not in repr(client) and "hidden" not in repr(client)


@pytest.mark.parametrize(
    "options",
    [{"url": "127.0.0.1:8081"}, {"url": ""}, {"url": "http://x", "login": "ann"}, {"url": "http://x", "timeout_ms": 0},
     {"url": "https://x", "ca_file": "missing.pem"}, {"url": "http://x", "latest_ttl_ms": -1},
     {"url": "http://x:99999"}, {"url": "http://x:y"}, {"url": "http://[::1"}],
)  # fmt: skip
def test_options_are_checked_when_the_client_is_made(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        SchemaRegistry(**options)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_a_forked_process_asks_by_a_thread_of_its_own(registry: Registry) -> None:
    client = SchemaRegistry(registry.url)

    def work() -> int:
        client.register("s", Schema('"int"'))
        child = os.fork()
        if not child:
            signal.alarm(10)
            os._exit(0 if client.latest("s").version == client.at_once.latest("s").version == 1 else 1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert await asyncio.to_thread(work) == 0
