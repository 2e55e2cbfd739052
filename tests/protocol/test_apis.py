"""Which header goes with which version, and where a message class is found."""

from pathlib import Path

import pytest
from odradek.protocol import apis
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import UnknownVersion
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.3.1" / "api-versions.tsv"


def test_a_class_is_found_by_key_and_kind() -> None:
    assert apis.message(ApiKey.PRODUCE, "request") is ProduceRequest
    assert apis.message(ApiKey.PRODUCE, "response") is ProduceResponse


def test_what_a_real_broker_offers_of_our_apis_is_declared() -> None:
    _, *rows = (line.split("\t") for line in GOLDEN.read_text().splitlines())
    for key, _, first, last, flexible_from in rows:
        if int(key) in apis.APIS:
            assert apis.is_declared(int(key), int(first)) and apis.is_declared(int(key), int(last))
            # InitProducerId 6 is specified, but Kafka 4.3.1 keeps it back as unstable.
            assert apis.is_declared(int(key), int(last) + 1) == (int(key) == ApiKey.INIT_PRODUCER_ID)
            flexible = apis.APIS[ApiKey(int(key))].flexible
            assert not flexible if flexible_from == "\\N" else flexible.start == int(flexible_from)


@pytest.mark.parametrize(
    ("key", "version", "request_header", "response_header"),
    [
        (ApiKey.PRODUCE, 8, 1, 0),
        (ApiKey.PRODUCE, 9, 2, 1),
        (ApiKey.API_VERSIONS, 2, 1, 0),
        (ApiKey.API_VERSIONS, 3, 2, 0),
        (ApiKey.API_VERSIONS, 4, 2, 0),
        (ApiKey.DESCRIBE_CLUSTER, 0, 2, 1),
    ],
)
def test_header_versions(key: ApiKey, version: int, request_header: int, response_header: int) -> None:
    assert apis.request_header_version(key, version) == request_header
    assert apis.response_header_version(key, version) == response_header


def test_an_api_or_version_that_is_not_declared_has_no_header() -> None:
    for key, version in ((ApiKey.VOTE, 0), (ApiKey.PRODUCE, 14), (12345, 0)):
        with pytest.raises(UnknownVersion):
            apis.request_header_version(key, version)
