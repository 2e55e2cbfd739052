"""The dispatch table: everything in it answers, at every version; everything else is refused as Kafka refuses it."""

from __future__ import annotations

import logging
from importlib import import_module
from pathlib import Path
from struct import pack
from typing import Any

import odradek
import pytest
from odradek.broker import Broker
from odradek.broker.handlers import metadata
from odradek.broker.network.routes import ALONE_ROUTES, LONE_ROUTES, ROUTES, Route
from odradek.protocol import frame
from odradek.protocol.apis import ApiKey, message
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.describe_acls import DescribeAclsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import ProduceRequest
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.documents.mutations import EVERY_ROUTE

GOLDEN = Path(odradek.__path__[0]) / "tests" / "golden" / "kafka-4.4.0" / "api-versions.tsv"

# Clients before 0.11, which speak in message sets, are served here; Kafka 4 left them behind.
LOWER_THAN_KAFKAS = dict.fromkeys((ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH), 0)


def kafkas_ranges() -> dict[int, tuple[int, int]]:
    rows = [line.split("\t") for line in GOLDEN.read_text().splitlines() if line[:1].isdigit()]
    return {int(row[0]): (int(row[2]), int(row[3])) for row in rows}


@pytest.mark.parametrize("route", ALONE_ROUTES, ids=lambda route: route.key.name)
async def test_each_version_of_a_route_is_answered_in_that_version(shared: Raw, route: Route) -> None:
    request = {
        ApiKey.API_VERSIONS: ApiVersionsRequest("tests", "1.0"),
        ApiKey.PRODUCE: ProduceRequest(acks=1),
        ApiKey.DESCRIBE_ACLS: DescribeAclsRequest(1, None, 1, None, None, 1, 1),
    }.get(route.key, message(route.key, "request")())
    for version in route.versions:
        response = await shared.ask(route.key, version, request)
        assert isinstance(response, message(route.key, "response"))
        await shared.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))


def test_api_versions_offers_the_apis_that_kafka_offers() -> None:
    kafkas = kafkas_ranges()
    for route in (*ROUTES, *LONE_ROUTES):
        lowest, highest = kafkas[int(route.key)]
        wanted = LOWER_THAN_KAFKAS.get(route.key, lowest), highest
        assert (route.key, route.versions[0], route.versions[-1]) == (route.key, *wanted)


@pytest.mark.parametrize("route", EVERY_ROUTE, ids=lambda route: route.key.name)
def test_each_route_has_its_message_and_its_handler_under_its_own_name(route: Route) -> None:
    name = route.key.name.lower()
    described: list[Any] = [import_module(f"odradek.protocol.messages.{name}")]
    if not route.method:
        module = import_module(f"odradek.broker.handlers.{route.module or name}")
        handle = getattr(module, name if route.module else "handle")
        described.append(handle if route.module else module)
    # Kafka 4.4.0 declares version 6 of InitProducerId and does not serve it yet.
    declared = message(route.key, "request").VERSIONS
    assert route.versions == (range(6) if route.key is ApiKey.INIT_PRODUCER_ID else declared)
    for each in described:
        assert f"API key {int(route.key)}" in (each.__doc__ or "").splitlines()[0]


async def test_the_answer_to_api_versions_is_the_table(raw: Raw) -> None:
    response = await raw.ask(ApiKey.API_VERSIONS, 4, ApiVersionsRequest("tests", "1.0"))
    offered = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
    assert offered == {int(route.key): (route.versions[0], route.versions[-1]) for route in (*ROUTES, *LONE_ROUTES)}


async def test_bytes_behind_a_body_are_passed_over_as_kafka_does(raw: Raw) -> None:
    data = pack(">hhihi", 3, 1, 55, -1, 0) + b"left over"
    raw.send_bytes(pack(">i", len(data)) + data)
    correlation_id, _ = frame.decode_response(await raw.receive_bytes(), message(ApiKey.METADATA, "response"), 1)
    assert correlation_id == 55


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (pack(">hhih", 9999, 0, 1, -1), "API key 9999 version 0 is not served"),
        (pack(">hhih", -5, 0, 1, -1), "API key -5"),
        (pack(">hhih", 3, 99, 1, -1), "Metadata version 99 is not served"),
        (pack(">hhih", 3, -1, 1, -1), "Metadata version -1 is not served"),
        (pack(">hhih", 0, 14, 1, -1), "Produce version 14 is not served"),
        (pack(">hh", 3, 1), "a request header that cannot be read"),
        (pack(">hhih", 3, 1, 1, 500), "a request header that cannot be read"),
        (pack(">hhih", 3, 1, 1, -1), "a Metadata version 1 request that cannot be read"),
        (pack(">hhihi", 3, 1, 1, -1, 2**31 - 1), "a Metadata version 1 request that cannot be read"),
        (b"\xff" * 40, "is not served"),
    ],
)
async def test_a_request_without_a_possible_answer_closes_the_connection_and_logs_why(
    shared_broker: Broker, shared: Raw, data: bytes, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        shared.send_bytes(pack(">i", len(data)) + data)
        assert await shared.is_closed()
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(lines) == 1
    assert why in lines[0]
    assert lines[0].startswith("127.0.0.1:")
    async with await Raw.connect(shared_broker.address) as other:
        await other.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))


async def test_an_error_that_a_response_has_no_place_for_closes_the_connection(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)

    monkeypatch.setattr(metadata, "handle", fail)
    async with await Raw.connect(broker.address) as raw:
        assert (await raw.ask(ApiKey.METADATA, 13, MetadataRequest(topics=[]))).error_code == ErrorCode.NOT_CONTROLLER
        named = await raw.ask(ApiKey.METADATA, 12, MetadataRequest([MetadataRequestTopic(name="t")]))
        assert [(each.name, each.error_code) for each in named.topics] == [("t", ErrorCode.NOT_CONTROLLER)]
        raw.send(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
        assert await raw.is_closed()
