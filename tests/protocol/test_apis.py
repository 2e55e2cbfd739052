"""API keys and the message classes of each API."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from odradek.protocol import apis
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.tests.support.documents.apis import DECLARED

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.4.0" / "api-versions.tsv"


def test_a_class_is_found_by_key_and_kind() -> None:
    assert apis.message(ApiKey.PRODUCE, "request") is ProduceRequest
    assert apis.message(ApiKey.PRODUCE, "response") is ProduceResponse


def test_every_version_that_kafka_serves_of_a_declared_api_is_declared() -> None:
    _, *rows = (line.split("\t") for line in GOLDEN.read_text().splitlines())
    for key, _, first, last, flexible_from in rows:
        if int(key) in DECLARED:
            request = apis.message(ApiKey(int(key)), "request")
            assert int(first) in request.VERSIONS and int(last) in request.VERSIONS
            # InitProducerId 6 is specified, but Kafka 4.4.0 keeps it back as unstable.
            assert (int(last) + 1 in request.VERSIONS) == (int(key) == ApiKey.INIT_PRODUCER_ID)
            flexible = request.FLEXIBLE
            if flexible_from == "\\N":
                assert not flexible
            else:
                assert max(flexible.start, request.VERSIONS.start) == int(flexible_from)


@pytest.mark.parametrize("key", [ApiKey.VOTE, 12345, -1])
def test_an_api_that_is_not_declared_has_no_request(key: int) -> None:
    assert apis.request_class(key) is None


def test_a_key_without_a_module_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def watched(name: str, package: str | None = None) -> ModuleType:
        tried.append(name)
        return import_module(name, package)

    monkeypatch.setattr(apis, "import_module", watched)
    apis._request_class.cache_clear()
    assert [apis.request_class(ApiKey.VOTE) for _ in range(3)] == [None] * 3
    assert tried == [".messages.vote"]
