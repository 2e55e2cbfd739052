"""ListConfigResources: what can have configs."""

from __future__ import annotations

import pytest
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.list_config_resources import ListConfigResourcesRequest
from odradek.tests.support.clients.raw import Raw

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        ([], {(TOPIC, "a"), (TOPIC, "b"), (BROKER, "1")}),
        ([TOPIC], {(TOPIC, "a"), (TOPIC, "b")}),
        ([BROKER, BROKER], {(BROKER, "1")}),
        ([LOGGER, METRICS, GROUP], set()),
    ],
)
async def test_by_type(raw: Raw, kinds: list[int], found: set[tuple[int, str]]) -> None:
    for name in "ab":
        await raw.create_topic(name)
    response = await raw.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, ListConfigResourcesRequest(kinds))
    assert response.error_code == 0
    assert sorted((each.resource_type, each.resource_name) for each in response.config_resources) == sorted(found)


@pytest.mark.parametrize("kinds", [[0], [3], [64], [-1], [BROKER, 99]])
async def test_a_type_that_does_not_exist(raw: Raw, kinds: list[int]) -> None:
    response = await raw.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, ListConfigResourcesRequest(kinds))
    assert (response.error_code, response.config_resources) == (35, [])


async def test_version_0_lists_client_metrics_of_which_there_are_none(raw: Raw) -> None:
    await raw.create_topic("a")
    response = await raw.ask(ApiKey.LIST_CONFIG_RESOURCES, 0, ListConfigResourcesRequest())
    assert (response.error_code, response.config_resources) == (0, [])
