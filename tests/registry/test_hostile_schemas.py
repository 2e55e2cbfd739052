"""Schemas that nobody registers in good faith: half a character, and texts that an error would repeat."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from typing import Any

import pytest
from odradek.broker import Broker
from odradek.client import Producer
from odradek.registry import Registry
from odradek.tests.registry.conftest import Client

HALF = "\ud800"


@pytest.mark.parametrize(
    ("kind", "text"),
    [("PROTOBUF", f'message A {{ optional string a = 1 [default = "{HALF}"]; }}'), ("JSON", f'{{"title": "{HALF}"}}'),
     ("AVRO", f'{{"type": "fixed", "name": "F", "size": 1, "doc": "{HALF}"}}')],
)  # fmt: skip
async def test_half_a_surrogate_is_refused(ask: Client, kind: str, text: str) -> None:
    status, answer = await ask("POST", "/subjects/s/versions", {"schemaType": kind, "schema": text})
    assert (status, answer["error_code"]) == (422, 42201)
    reference = {"name": HALF, "subject": "s", "version": 1}
    refused = await ask("POST", "/subjects/s/versions", {"schema": '"int"', "references": [reference]})
    assert refused[1]["error_code"] == 42201


async def test_half_a_surrogate_that_is_stored_is_served(broker: Broker, registry: Registry) -> None:
    value = b'{"subject":"s","version":1,"id":1,"schemaType":"PROTOBUF","schema":"\\ud800","deleted":false}'
    async with Producer(broker.address) as producer:
        key = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
        await producer.send_and_wait("_schemas", value, key)
    for path in ("/schemas/ids/1", "/subjects/s/versions/1", "/schemas/ids/1/schema", "/subjects/s/versions/1/schema"):
        answer = await asyncio.to_thread(urllib.request.urlopen, registry.url + path)
        with answer:
            assert answer.status == 200 and b"ud800" in answer.read()


LONG = "x" * 900_000


@pytest.mark.parametrize(
    "body",
    [
        {"schema": f'"{LONG}"'}, {"schema": LONG}, {"schema": f'{{"type":"record","name":"R","fields":["{LONG}"]}}'},
        {"schema": f'{{"$ref":"{LONG}"}}', "schemaType": "JSON"},
        {"schema": f'{{"type":"{LONG}"}}', "schemaType": "JSON"},
        {"schema": f"message {LONG}", "schemaType": "PROTOBUF"}, {"schema": '"int"', "schemaType": LONG},
        {"schema": '"int"', "references": [{"name": "a", "subject": LONG, "version": 1}]},
        {"schema": f'{{"type":"record","name":"R","fields":[{{"name":"f","type":"int","default":"{LONG}"}}]}}'},
        {"schema": f'{{"pattern":"({LONG}"}}', "schemaType": "JSON"},
    ],
    ids=map(str, range(10)),
)  # fmt: skip
async def test_an_error_does_not_repeat_the_request(ask: Client, body: dict[str, Any]) -> None:
    status, answer = await ask("POST", "/subjects/s/versions", body)
    assert status == 422 and len(answer["message"]) < 3_000


async def test_reasons_do_not_repeat_the_schemas(ask: Client) -> None:
    ours, theirs = (
        {"schema": json.dumps({"type": "record", "name": "R", "fields": [{"name": LONG, "type": kind}]})}
        for kind in ("int", "string")
    )
    await ask("POST", "/subjects/s/versions", ours)
    answer = (await ask("POST", "/compatibility/subjects/s/versions/latest?verbose=true", theirs))[1]
    assert not answer["is_compatible"] and len(str(answer)) < 3_000
    schema = {"type": "enum", "name": "R", "symbols": [LONG]}
    status, answer = await ask("POST", "/subjects/s/versions", {"schema": json.dumps(schema)})
    assert status == 409 and len(answer["message"]) < 3_000
