"""HTTP as clients write it, and as they should not: paths, many requests at once, slow readers."""

from __future__ import annotations

import asyncio
import json

import pytest
from odradek.broker import Broker
from odradek.registry import LogOptions, Registry, RegistryConfig, api, door
from odradek.tests.registry.conftest import Client
from odradek.tests.support.brokers.http import exchange

HEAD = b"GET %s HTTP/1.1\r\nhost: localhost\r\n\r\n"


async def open_to(registry: Registry) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = registry.address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def answer(reader: asyncio.StreamReader) -> bytes:
    """Return the status line and the body of the next answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return head.split(b"\r\n")[0] + b" " + await reader.readexactly(size)


async def test_subjects_have_any_characters(ask: Client) -> None:
    names = {"a%2Fb": "a/b", "%C3%A9": "\u00e9", "a%20b": "a b", "a+b": "a+b", "%F0%9F%98%80": "\U0001f600"}
    for path in names:
        assert (await ask("POST", f"/subjects/{path}/versions", {"schema": '"int"'}))[0] == 200
    assert (await ask("GET", "/subjects"))[1] == sorted(names.values())
    for path, name in names.items():
        assert (await ask("GET", f"/subjects/{path}/versions/1"))[1]["subject"] == name


async def test_paths_that_are_no_text_or_have_holes_are_refused(ask: Client) -> None:
    assert (await ask("POST", "/subjects/%ff/versions", {"schema": '"int"'}))[0] == 400
    assert (await ask("POST", "/subjects//versions", {"schema": '"int"'}))[0] == 404
    assert await ask("GET", "/subjects/") == (200, [])


async def test_requests_that_come_together_are_answered_in_their_order(registry: Registry) -> None:
    reader, writer = await open_to(registry)
    body = b'{"schema":"int"}'
    post = b"POST /subjects/s/versions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    writer.write(post + HEAD % b"/subjects" + HEAD % b"/nothing" + HEAD % b"/schemas/types" * 2_000)
    assert await answer(reader) == b'HTTP/1.1 200 OK {"id":1}'
    assert await answer(reader) == b'HTTP/1.1 200 OK ["s"]'
    assert (await answer(reader)).startswith(b"HTTP/1.1 404 ")
    for _ in range(2_000):
        assert await answer(reader) == b'HTTP/1.1 200 OK ["JSON","PROTOBUF","AVRO"]'
    writer.close()


async def test_a_head_keeps_the_connection(registry: Registry) -> None:
    reader, writer = await open_to(registry)
    writer.write((HEAD % b"/subjects").replace(b"GET", b"HEAD") + HEAD % b"/subjects")
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ") and b"content-length: 2\r\n" in head.lower()
    assert await answer(reader) == b"HTTP/1.1 200 OK []"
    writer.close()


async def test_another_web_page_changes_nothing(ask: Client) -> None:
    body = {"schema": '"int"'}
    for headers in (
        {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}, {"origin": "null"},
        {"origin": "http://evil.example"}, {"origin": "http://evil.example", "content-type": "application/json"},
    ):  # fmt: skip
        assert (await ask("POST", "/subjects/s/versions", body, headers))[0] == 403
        assert (await ask("DELETE", "/subjects/s", None, headers))[0] == 403
    assert (await ask("GET", "/subjects"))[1] == []
    own = {"origin": ask.url, "sec-fetch-site": "same-origin"}
    assert (await ask("POST", "/subjects/s/versions", body, own))[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8081", "127.0.0.1.evil.example", "localhost.evil"])
async def test_another_host_is_refused(ask: Client, host: str) -> None:
    """A web page that comes by a name of its own, which leads to this machine, may not even read."""
    for method, path in (("GET", "/subjects"), ("POST", "/subjects/s/versions"), ("GET", "/nothing")):
        body = {"schema": '"int"'} if method == "POST" else None
        status, answer = await ask(method, path, body, {"host": host})
        assert (status, answer["error_code"]) == (403, 403) and "--allow-host" in answer["message"]
    assert await ask("GET", "/subjects") == (200, [])


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:9", "[::1]", "192.0.2.1:8081"])
async def test_this_machine_and_addresses_are_let_in(ask: Client, host: str) -> None:
    assert await ask("GET", "/subjects", headers={"host": host}) == (200, [])


async def test_a_host_is_allowed_by_name(broker: Broker) -> None:
    config = RegistryConfig(LogOptions(broker.address), port=0, allowed_hosts=("Registry.example",))
    async with Registry(config) as registry:
        ask = Client(registry.url)
        assert (await ask("GET", "/subjects", headers={"host": "registry.EXAMPLE:80"}))[0] == 200
        assert (await ask("GET", "/subjects", headers={"host": "example"}))[0] == 403


async def test_what_is_no_http_is_refused_as_json(registry: Registry) -> None:
    answered = await exchange(registry.address, b"no HTTP\r\n\r\n")
    assert answered.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert json.loads(answered.partition(b"\r\n\r\n")[2])["error_code"] == 400


async def test_an_answer_beyond_the_bound_is_refused_and_not_cut(ask: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        await ask("POST", f"/subjects/{name}/versions", {"schema": '"int"'})
    monkeypatch.setattr(api, "MAX_LISTED_CHARACTERS", 8)
    assert (await ask("GET", "/schemas"))[0] == 413
    assert len((await ask("GET", "/schemas?limit=1"))[1]) == 1


async def test_a_change_whose_client_goes_away_is_made_all_the_same(registry: Registry, ask: Client) -> None:
    _, writer = await open_to(registry)
    body = b'{"schema":"int"}'
    writer.write(
        b"POST /subjects/gone/versions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    )
    await writer.drain()
    writer.transport.abort()
    async with asyncio.timeout(60):
        while (await ask("GET", "/subjects"))[1] != ["gone"]:
            await asyncio.sleep(0.01)
    assert await ask("POST", "/subjects/gone/versions", {"schema": '"int"'}) == (200, {"id": 1})


JAVA = (
    b"content-type: application/vnd.schemaregistry.v1+json\r\n"
    b"accept: application/vnd.schemaregistry.v1+json, application/vnd.schemaregistry+json, application/json\r\n"
    b"user-agent: Java/17.0.12\r\nx-forward: true\r\nhost: localhost\r\nconnection: keep-alive\r\n"
)


async def test_the_requests_of_javas_serializer_are_answered(registry: Registry) -> None:
    """As CachedSchemaRegistryClient of Confluent's kafka-schema-registry-client sends them (its documented API)."""
    reader, writer = await open_to(registry)
    body = b'{"schema":"\\"int\\"","schemaType":"AVRO","references":[],"metadata":null,"ruleSet":null}'

    async def java(line: bytes, data: bytes = b"") -> bytes:
        writer.write(line + b" HTTP/1.1\r\n" + JAVA + b"content-length: %d\r\n\r\n%s" % (len(data), data))
        return await answer(reader)

    found = b'{"subject":"t-value","version":1,"id":1,"schema":"\\"int\\""}'
    assert await java(b"POST /subjects/t-value/versions?normalize=false", body) == b'HTTP/1.1 200 OK {"id":1}'
    assert await java(b"POST /subjects/t-value?normalize=false&deleted=false", body) == b"HTTP/1.1 200 OK " + found
    by_id = await java(b"GET /schemas/ids/1?fetchMaxId=false&subject=t-value")
    assert by_id == b'HTTP/1.1 200 OK {"schema":"\\"int\\""}'
    assert await java(b"GET /subjects/t-value/versions/latest?deleted=false") == b"HTTP/1.1 200 OK " + found
    assert (await java(b"GET /schemas/ids/9?fetchMaxId=false")).endswith(b'"message":"Schema 9 not found"}')
    writer.close()


async def test_a_body_of_many_values_is_refused_before_it_is_read(ask: Client) -> None:
    many = [[]] * (door.MAX_BYTES_BESIDE_TEXTS // 3)
    status, refused = await ask("POST", "/subjects/s/versions", {"schema": '"int"', "references": many})
    assert (status, refused["error_code"]) == (413, 413)
    assert "outside of its texts" in refused["message"]
    assert (await ask("POST", "/subjects/s/versions", {"schema": '"int"', "x": [""] * 40_000}))[0] == 413


async def test_texts_of_a_body_hold_any_characters(ask: Client) -> None:
    doc = '[]{},"\\' * 10_000
    schema = json.dumps({"type": "enum", "name": "E", "symbols": ["A"], "doc": doc})
    assert await ask("POST", "/subjects/s/versions", {"schema": schema}) == (200, {"id": 1})
