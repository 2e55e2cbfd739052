"""APIs that Odradek alone has: ApiVersions names them to clients of ours, and to no other client."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

import pytest
from odradek.broker.handlers import api_versions
from odradek.broker.handlers.api_versions import OWN_SOFTWARE
from odradek.broker.network import routes
from odradek.broker.network.access.access import open_to_all
from odradek.broker.network.routes import LONE_ROUTES, OWN_ROUTES, ROUTES, Route
from odradek.protocol import apis
from odradek.protocol.apis import FIRST_OWN_KEY, ApiKey, OwnApiKey
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.tests.support.clients.raw import Raw


class Planted(IntEnum):
    ODRADEK_PLANTED = 30_999


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Route]:
    """Plant an own route."""
    route = Route(Planted.ODRADEK_PLANTED, "0", open_to_all("a test"))  # type: ignore[arg-type]
    monkeypatch.setattr(routes, "ALONE_ROUTES", (*routes.ALONE_ROUTES, route))
    # A process makes the lists once: those with the planted route are for this test only.
    monkeypatch.setattr(api_versions, "_offered", api_versions._offered.__wrapped__)
    yield route


async def offered(raw: Raw, version: int, software: str) -> set[int]:
    response = await raw.ask(ApiKey.API_VERSIONS, version, ApiVersionsRequest(software, "1.0"))
    assert response.error_code == 0
    return {each.api_key for each in response.api_keys}


KAFKAS = {int(route.key) for route in (*ROUTES, *LONE_ROUTES)}
OWN = {int(route.key) for route in OWN_ROUTES}


@pytest.mark.parametrize("version", [3, 4])
async def test_a_client_of_ours_is_told_of_our_own_apis(planted: Route, raw: Raw, version: int) -> None:
    assert await offered(raw, version, OWN_SOFTWARE) == KAFKAS | OWN | {Planted.ODRADEK_PLANTED}


@pytest.mark.parametrize(
    ("version", "software"), [(3, "apache-kafka-java"), (4, "librdkafka"), (4, "odradek2"), (4, "Odradek")]
)
async def test_another_client_is_told_of_kafkas_apis_alone(
    planted: Route, raw: Raw, version: int, software: str
) -> None:
    assert await offered(raw, version, software) == KAFKAS


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_client_that_cannot_name_itself_is_told_of_kafkas_apis_alone(
    planted: Route, raw: Raw, version: int
) -> None:
    assert await offered(raw, version, OWN_SOFTWARE) == KAFKAS


def test_our_own_keys_and_names_cannot_be_kafkas() -> None:
    assert all(key >= FIRST_OWN_KEY and key.name.startswith("ODRADEK_") for key in OwnApiKey)
    assert max(ApiKey) < FIRST_OWN_KEY <= 2**15 - 1 - len(OwnApiKey)
    assert not set(OwnApiKey.__members__) & set(ApiKey.__members__)


def test_every_own_api_has_its_messages_and_its_route() -> None:
    served = {route.key: route for route in OWN_ROUTES}
    assert set(served) == set(OwnApiKey)
    for key in OwnApiKey:
        request, response = apis.message(key, "request"), apis.message(key, "response")
        assert request.KEY == response.KEY == key
        assert apis.request_class(int(key)) is request
        assert served[key].versions == request.VERSIONS


@pytest.mark.parametrize("key", [FIRST_OWN_KEY - 1, 32_767])
def test_a_key_that_is_not_declared_is_none(key: int) -> None:
    with pytest.raises(KeyError):
        apis.key_of(key)
