"""FindCoordinator: this node for every group, a final no for what has no coordinator here."""

from __future__ import annotations

import pytest
from odradek.broker import Broker
from odradek.broker.topics.topic_names import OFFSETS_TOPIC
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.tests.support.clients.raw import Raw


@pytest.mark.parametrize("version", range(4))
async def test_one_group_is_coordinated_here(broker: Broker, raw: Raw, version: int) -> None:
    found = await raw.ask(ApiKey.FIND_COORDINATOR, version, FindCoordinatorRequest("g"))
    host, _, port = broker.address.rpartition(":")
    assert (found.error_code, found.node_id, found.host, found.port) == (0, broker.node_id, host, int(port))


@pytest.mark.parametrize("version", [4, 5, 6])
async def test_several_groups_at_once(broker: Broker, raw: Raw, version: int) -> None:
    found = await raw.ask(ApiKey.FIND_COORDINATOR, version, FindCoordinatorRequest(coordinator_keys=["g", "h"]))
    assert [(c.key, c.error_code, c.node_id) for c in found.coordinators] == [("g", 0, 1), ("h", 0, 1)]


async def test_the_internal_topic_is_created_at_first_need(broker: Broker, raw: Raw) -> None:
    assert broker.topics.get(OFFSETS_TOPIC) is None
    await raw.ask(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest("g"))
    topic = broker.topics.get(OFFSETS_TOPIC)
    assert topic is not None
    assert len(topic.partitions) == 3
    assert topic.is_internal
    # As Kafka creates it.
    given = broker.services.metadata.topics[OFFSETS_TOPIC].configs
    assert given.keys() == {"cleanup.policy", "compression.type", "segment.bytes"}


@pytest.mark.parametrize("key_type", [2, 9])
async def test_a_key_type_without_a_coordinator_gets_a_fatal_error(raw: Raw, key_type: int) -> None:
    request = FindCoordinatorRequest("x", key_type)
    found = await raw.ask(ApiKey.FIND_COORDINATOR, 3, request)
    assert (found.error_code, found.node_id) == (ErrorCode.INVALID_REQUEST, -1)
    several = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"])
    found = (await raw.ask(ApiKey.FIND_COORDINATOR, 6, several)).coordinators[0]
    assert (found.key, found.error_code, found.node_id) == ("x", ErrorCode.INVALID_REQUEST, -1)
    assert not ErrorCode.INVALID_REQUEST.retriable
