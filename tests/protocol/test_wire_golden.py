"""What went over the wire between a client and a real Kafka 4.3.1, read and written again by the compiled codecs.

That each field has its name and place is compared with Kafka's specifications in `test_declarations.py`.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from odradek.protocol import codec, frame
from odradek.protocol.apis import ApiKey, message
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsResponse
from odradek.protocol.records.batch import decode_batch, iter_headers

GOLDEN = Path(__file__).parents[1] / "golden" / "wire"
APIS = sorted(path.stem for path in GOLDEN.glob("*.tsv") if path.stem != "raw")


class Exchange(NamedTuple):
    case: str
    version: int
    outcome: str
    request: bytes
    response: bytes

    def __str__(self) -> str:
        return f"v{self.version} '{self.case}'"


def exchanges(api: str) -> list[Exchange]:
    rows = [line.split("\t") for line in (GOLDEN / f"{api}.tsv").read_text().splitlines()[1:]]
    found = [
        Exchange(case, int(version), outcome, bytes.fromhex(sent), bytes.fromhex(got))
        for case, version, outcome, sent, got in rows
    ]
    highest = message(ApiKey[snake(api).upper()], "request").VERSIONS[-1]
    return [exchange for exchange in found if exchange.version <= highest]


@cache
def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def joined(pieces: list[Any]) -> bytes:
    return b"".join(bytes(piece) for piece in pieces)


@pytest.mark.parametrize("api", APIS)
def test_requests_decode_and_encode_to_the_same_bytes(api: str) -> None:
    for exchange in exchanges(api):
        header, offset = frame.decode_request_header(exchange.request)
        assert (header.api_version, header.client_id) == (exchange.version, "wire")
        cls = message(ApiKey[snake(api).upper()], "request")
        request = codec.decode(cls, exchange.version, exchange.request, offset)
        again = frame.encode_request(
            header.api_key, header.api_version, header.correlation_id, header.client_id, request
        )
        assert joined(again)[4:] == exchange.request, exchange


@pytest.mark.parametrize("api", APIS)
def test_responses_decode_and_encode_to_the_same_bytes(api: str) -> None:
    answered = [exchange for exchange in exchanges(api) if exchange.outcome == "answered"]
    assert answered
    for exchange in answered:
        cls = message(ApiKey[snake(api).upper()], "response")
        correlation_id, response = frame.decode_response(exchange.response, cls, exchange.version)
        assert correlation_id == frame.decode_request_header(exchange.request)[0].correlation_id
        assert joined(frame.encode_response(correlation_id, response, exchange.version))[4:] == exchange.response, (
            exchange
        )


@pytest.mark.parametrize("api", APIS)
def test_the_captures_cover_every_version_that_kafka_answers(api: str) -> None:
    rows = (GOLDEN.parent / "kafka-4.4.0" / "api-versions.tsv").read_text().splitlines()[1:]
    low, high = next((int(row.split("\t")[2]), int(row.split("\t")[3])) for row in rows if row.split("\t")[1] == api)
    if api == "Produce":
        low = 3  # It says 0, so that librdkafka believes it knows compression, and hangs up on 0 to 2.
    assert {exchange.version for exchange in exchanges(api) if exchange.outcome == "answered"} == set(
        range(low, high + 1)
    )


def test_a_refused_api_versions_request_is_answered_in_version_0() -> None:
    rows = [line.split("\t") for line in (GOLDEN / "ApiVersions.tsv").read_text().splitlines()[1:]]
    refused = [row for row in rows if row[0] == "above our maximum"]
    assert [row[1] for row in refused] == ["6", "99"]
    for row in refused:
        _, response = frame.decode_response(bytes.fromhex(row[4]), ApiVersionsResponse, 0)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        offered = [(entry.api_key, entry.min_version, entry.max_version) for entry in response.api_keys]
        assert offered == [(ApiKey.API_VERSIONS, 0, 5)]


@pytest.mark.parametrize(
    "entry", json.loads((GOLDEN / "batches.json").read_text()), ids=lambda entry: f"{entry['client']}-{entry['codec']}"
)
def test_batches_of_other_peoples_producers_are_read_as_librdkafka_reads_them(entry: dict[str, Any]) -> None:
    data = bytes.fromhex(entry["batches"])
    records = [record for position, _ in iter_headers(data) for record in decode_batch(data, position)]
    read = [
        {
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            "key": None if record.key is None else record.key.hex(),
            "value": None if record.value is None else record.value.hex(),
            "headers": [[name, (value or b"").hex()] for name, value in record.headers],
        }
        for record in records
    ]
    assert read == entry["records"]
