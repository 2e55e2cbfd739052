"""The HTTP API over a broker: answers, error codes and texts, restarts, and two registries over one topic."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from odradek.broker import Broker
from odradek.client import Consumer, Producer, TopicPartition
from odradek.registry import LogOptions, Registry, RegistryConfig
from odradek.tests.registry.conftest import Client


def record(*names: str, **defaults: Any) -> dict[str, str]:
    """Return the body of a record with int fields."""
    fields = [{"name": name, "type": "int"} for name in names]
    fields += [{"name": name, "type": "int", "default": value} for name, value in defaults.items()]
    return {"schema": json.dumps({"type": "record", "name": "R", "fields": fields})}


async def test_a_schema_is_registered_once_and_found(ask: Client) -> None:
    text = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
    assert await ask("POST", "/subjects/s/versions", record("a")) == (200, {"id": 1})
    assert await ask("POST", "/subjects/s/versions", record("a")) == (200, {"id": 1})
    assert await ask("POST", "/subjects/t/versions", record("a")) == (200, {"id": 1})
    found = {"subject": "s", "version": 1, "id": 1, "schema": text}
    assert await ask("POST", "/subjects/s", record("a")) == (200, found)
    assert await ask("GET", "/subjects/s/versions/latest") == (200, found)
    assert await ask("GET", "/schemas/ids/1") == (200, {"schema": text})
    assert await ask("GET", "/schemas/ids/1/schema") == (200, json.loads(text))
    assert await ask("GET", "/schemas/ids/1/subjects") == (200, ["s", "t"])
    assert await ask("GET", "/subjects") == (200, ["s", "t"])
    assert await ask("GET", "/schemas/types") == (200, ["JSON", "PROTOBUF", "AVRO"])


ERRORS: list[tuple[str, str, Any, int, str]] = [
    ("GET", "/subjects/x/versions", None, 40401, "Subject 'x' not found."),
    ("POST", "/subjects/x", record("a"), 40401, "Subject 'x' not found."),
    ("GET", "/subjects/s/versions/9", None, 40402, "Version 9 not found."),
    ("GET", "/schemas/ids/9", None, 40403, "Schema 9 not found"),
    ("POST", "/subjects/s", record("b"), 40403, "Schema not found"),
    ("DELETE", "/subjects/s?permanent=true", None, 40405, "was not deleted first"),
    ("DELETE", "/subjects/s/versions/1?permanent=true", None, 40407, "was not deleted first"),
    ("GET", "/config/s", None, 40408, "does not have subject-level compatibility configured"),
    ("GET", "/mode/s", None, 40409, "does not have subject-level mode configured"),
    ("POST", "/subjects/s/versions", record("a", "b"), 409, "Schema being registered is incompatible"),
    ("POST", "/subjects/s/versions", {"schema": "{"}, 42201, "Invalid schema"),
    ("POST", "/subjects/s/versions", {}, 42201, "Invalid schema"),
    ("GET", "/subjects/s/versions/abc", None, 42202, "The specified version 'abc' is not a valid version id."),
    ("PUT", "/config", {"compatibility": "SOME"}, 42203, "Invalid compatibility level."),
    ("PUT", "/mode", {"mode": "SOME"}, 42204, "Invalid mode."),
    ("POST", "/subjects/s/versions", {**record("b"), "id": 7}, 42205, "not in import mode"),
    ("POST", "/subjects/:.c:s/versions", record("b"), 42208, "not a valid subject"),
    ("GET", "/nothing", None, 404, "HTTP 404 Not Found"),
    ("PUT", "/subjects", {}, 405, "HTTP 405 Method Not Allowed"),
    ("POST", "/subjects/s/versions", b"{", 400, "HTTP 400 Bad Request"),
    ("POST", "/subjects/s/versions", b"[]", 400, "HTTP 400 Bad Request"),
]


async def test_errors_have_their_codes_and_texts(ask: Client) -> None:
    await ask("POST", "/subjects/s/versions", record("a"))
    for method, path, body, code, text in ERRORS:
        status, answer = await ask(method, path, body)
        assert status == (code if code < 1000 else code // 100)
        assert answer["error_code"] == code
        assert text in answer["message"]


async def test_levels_decide_what_may_follow(ask: Client) -> None:
    await ask("POST", "/subjects/s/versions", record("a"))
    path = "/compatibility/subjects/s/versions/latest?verbose=true"
    status, answer = await ask("POST", path, record("a", "b"))
    assert (status, answer["is_compatible"]) == (200, False)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in answer["messages"][0]
    assert await ask("PUT", "/config/s", {"compatibility": "forward"}) == (200, {"compatibility": "FORWARD"})
    assert await ask("POST", path, record("a", "b")) == (200, {"is_compatible": True, "messages": []})
    assert await ask("DELETE", "/config/s") == (200, {"compatibilityLevel": "FORWARD"})
    assert await ask("GET", "/config/s?defaultToGlobal=true") == (200, {"compatibilityLevel": "BACKWARD"})


async def test_deletion_is_soft_first(ask: Client) -> None:
    await ask("POST", "/subjects/s/versions", record("a"))
    await ask("POST", "/subjects/s/versions", record("a", b=1))
    assert await ask("DELETE", "/subjects/s/versions/1") == (200, 1)
    assert (await ask("DELETE", "/subjects/s/versions/1"))[1]["error_code"] == 40406
    assert await ask("GET", "/subjects/s/versions") == (200, [2])
    assert await ask("GET", "/subjects/s/versions?deleted=true") == (200, [1, 2])
    assert await ask("DELETE", "/subjects/s") == (200, [2])
    assert (await ask("DELETE", "/subjects/s"))[1]["error_code"] == 40404
    assert (await ask("GET", "/schemas/ids/1"))[0] == 200
    assert await ask("POST", "/subjects/s/versions", record("a")) == (200, {"id": 1})
    assert await ask("DELETE", "/subjects/s") == (200, [3])
    assert await ask("DELETE", "/subjects/s?permanent=true") == (200, [1, 2, 3])
    assert (await ask("GET", "/schemas/ids/1"))[0] == 404


async def test_a_referenced_version_stays(ask: Client) -> None:
    inner = {"schema": '{"type":"fixed","name":"F","namespace":"n","size":1}'}
    await ask("POST", "/subjects/inner/versions", inner)
    outer = {
        "schema": '{"type":"record","name":"R","fields":[{"name":"f","type":"n.F"}]}',
        "references": [{"name": "n.F", "subject": "inner", "version": 1}],
    }
    assert await ask("POST", "/subjects/outer/versions", outer) == (200, {"id": 2})
    assert (await ask("GET", "/schemas/ids/2"))[1] == outer
    assert await ask("GET", "/subjects/inner/versions/1/referencedby") == (200, [2])
    assert (await ask("DELETE", "/subjects/inner"))[1]["error_code"] == 42206


async def test_a_read_only_subject_takes_nothing(ask: Client) -> None:
    assert await ask("PUT", "/mode/s", {"mode": "READONLY"}) == (200, {"mode": "READONLY"})
    assert (await ask("POST", "/subjects/s/versions", record("a")))[1]["error_code"] == 42205
    assert await ask("DELETE", "/mode/s") == (200, {"mode": "READONLY"})
    assert (await ask("POST", "/subjects/s/versions", record("a")))[0] == 200


async def test_protobuf_is_compared_and_refers_to_other_files(ask: Client) -> None:
    def schema(text: str, *references: str) -> dict[str, Any]:
        refers = [{"name": f"{each}.proto", "subject": each, "version": 1} for each in references]
        return {"schemaType": "PROTOBUF", "schema": text, "references": refers}

    c, b = (
        schema("message C { optional int32 a = 1; }"),
        schema('import "c.proto"; message B { optional C c = 1; }', "c"),
    )
    a = schema('import "b.proto"; import "google/protobuf/any.proto"; message A { optional B b = 1; }', "b")
    assert [
        await ask("POST", f"/subjects/{name}/versions", each) for name, each in zip("cba", (c, b, a), strict=True)
    ] == [(200, {"id": number}) for number in (1, 2, 3)]
    spaced = a | {"schema": a["schema"].replace(";", ";  // so it is\n")}
    assert (await ask("POST", "/subjects/a", spaced))[1]["id"] == 3
    assert await ask("POST", "/subjects/a/versions", spaced) == (200, {"id": 3})
    other = schema("message C { optional string a = 1; }")
    status, answer = await ask("POST", "/subjects/c/versions", other)
    assert (status, answer["error_code"]) == (409, 409) and "FIELD_SCALAR_KIND_CHANGED" in answer["message"]
    for text in ("this is not proto at all", 'import "b.proto"; message A {}', "message " * 200_000):
        status, answer = await ask("POST", "/subjects/new/versions", schema(text))
        assert (status, answer["error_code"]) == (422, 42201) and len(answer["message"]) < 3_000
    serialized = (await ask("GET", "/schemas/ids/3?format=serialized"))[1]
    assert (await ask("POST", "/subjects/a/versions", serialized))[0] == 200
    assert (await ask("GET", "/schemas/ids/3?format=other"))[1]["error_code"] == 42201
    assert (await ask("DELETE", "/subjects/c"))[1]["error_code"] == 42206


async def test_what_was_answered_is_there_after_a_restart(broker: Broker) -> None:
    config = RegistryConfig(LogOptions(broker.address), port=0)
    async with Registry(config) as registry:
        ask = Client(registry.url)
        await ask("POST", "/subjects/s/versions", record("a"))
        await ask("PUT", "/config", {"compatibility": "FULL"})
    async with Registry(config) as registry:
        ask = Client(registry.url)
        assert (await ask("GET", "/subjects/s/versions/1"))[1]["id"] == 1
        assert await ask("GET", "/config") == (200, {"compatibilityLevel": "FULL"})


async def test_two_registries_that_write_at_once_agree(broker: Broker) -> None:
    config = RegistryConfig(LogOptions(broker.address), port=0)
    async with Registry(config) as first, Registry(config) as second:
        asks = [Client(first.url), Client(second.url)]
        bodies = [record(f"f{number % 4}") for number in range(16)]
        given = await asyncio.gather(
            *(
                asks[number % 2]("POST", f"/subjects/s{number // 4}/versions", body)
                for number, body in enumerate(bodies)
            ),
            *(ask("PUT", "/config", {"compatibility": "NONE"}) for ask in asks),
        )
        ids = {
            body["schema"]: answer["id"] for body, (status, answer) in zip(bodies, given, strict=False) if status == 200
        }
        assert len(set(ids.values())) == len(ids)
        for schema, schema_id in ids.items():
            for ask in asks:
                assert json.loads((await ask("GET", f"/schemas/ids/{schema_id}"))[1]["schema"]) == json.loads(schema)


async def test_records_that_confluent_wrote_are_served(broker: Broker, registry: Registry) -> None:
    async with Producer(broker.address) as producer:
        for key, value in (
            (b'{"keytype":"NOOP","magic":0}', None),
            (b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"compatibilityLevel":"NONE"}'),
            (
                b'{"keytype":"SCHEMA","subject":"s","version":4,"magic":1}',
                b'{"subject":"s","version":4,"id":100,"schema":"{\\"type\\": \\"string\\"}","deleted":false}',
            ),
            (b"not of a registry", b"?"),
        ):
            await producer.send_and_wait("_schemas", value, key)
    ask = Client(registry.url)
    assert (await ask("GET", "/schemas/ids/100"))[1] == {"schema": '{"type": "string"}'}
    assert await ask("POST", "/subjects/s/versions", {"schema": '"string"'}) == (200, {"id": 100})
    assert await ask("POST", "/subjects/s/versions", {"schema": '"int"'}) == (200, {"id": 101})


async def test_the_topic_has_what_confluent_reads(broker: Broker, ask: Client) -> None:
    await ask("POST", "/subjects/s/versions", {"schema": "string"})
    async with Consumer(bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("_schemas", 0)])
        found = await consumer.getone()
    assert found.key == b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
    assert found.value == b'{"subject":"s","version":1,"id":1,"schema":"\\"string\\"","deleted":false}'


async def test_the_mode_import_takes_ids_and_versions_as_they_are(ask: Client) -> None:
    path, schema = "/subjects/s/versions", {"schema": '"int"'}
    assert (await ask("POST", path, {**schema, "id": 7}))[1]["error_code"] == 42205
    assert (await ask("PUT", "/mode/s", {"mode": "IMPORT"}))[0] == 200
    assert (await ask("POST", path, schema))[1]["error_code"] == 42205
    assert await ask("POST", path, {**schema, "id": 7, "version": 3}) == (200, {"id": 7})
    assert await ask("POST", path, {**schema, "id": 7, "version": 3}) == (200, {"id": 7})
    assert (await ask("POST", path, {"schema": '"long"', "id": 7}))[1]["error_code"] == 42207
    assert (await ask("POST", path, {"schema": '"long"', "id": 8, "version": 3}))[1]["error_code"] == 42205
    # Nothing is compared: what is moved was taken by another registry.
    assert await ask("POST", path, {"schema": '"bytes"', "id": 2}) == (200, {"id": 2})
    assert await ask("GET", path) == (200, [3, 4])
    for wrong in (-1_000, 1 << 31):
        assert (await ask("POST", path, {"schema": '"float"', "id": wrong}))[1]["error_code"] == 42201
    assert (await ask("PUT", "/mode/s", {"mode": "READWRITE"}))[0] == 200
    assert await ask("POST", "/subjects/t/versions", {"schema": '"double"'}) == (200, {"id": 8})


async def test_import_of_a_subject_that_is_there_must_be_forced(ask: Client) -> None:
    await ask("POST", "/subjects/s/versions", {"schema": '"int"'})
    assert (await ask("PUT", "/mode/s", {"mode": "IMPORT"}))[1]["error_code"] == 42205
    assert (await ask("PUT", "/mode", {"mode": "IMPORT"}))[1]["error_code"] == 42205
    assert await ask("PUT", "/mode/s?force=true", {"mode": "IMPORT"}) == (200, {"mode": "IMPORT"})


async def test_a_read_only_mode_of_all_is_above_that_of_a_subject_if_it_overrides(ask: Client) -> None:
    await ask("PUT", "/mode/s", {"mode": "READWRITE"})
    await ask("PUT", "/mode", {"mode": "READONLY"})
    assert (await ask("POST", "/subjects/t/versions", {"schema": '"int"'}))[1]["error_code"] == 42205
    assert (await ask("PUT", "/config", {"compatibility": "NONE"}))[1]["error_code"] == 42205
    assert (await ask("POST", "/subjects/s/versions", {"schema": '"int"'}))[0] == 200
    await ask("PUT", "/mode", {"mode": "READONLY_OVERRIDE"})
    for method, path, body in (
        ("POST", "/subjects/s/versions", {"schema": '"long"'}),
        ("PUT", "/config/s", {"compatibility": "NONE"}),
        ("DELETE", "/subjects/s/versions/1", None),
        ("DELETE", "/subjects/s", None),
    ):
        assert (await ask(method, path, body))[1]["error_code"] == 42205
    assert await ask("GET", "/mode/s?defaultToGlobal=true") == (200, {"mode": "READONLY_OVERRIDE"})
    assert (await ask("PUT", "/mode", {"mode": "READWRITE"}))[0] == 200
    assert await ask("DELETE", "/subjects/s") == (200, [1])
