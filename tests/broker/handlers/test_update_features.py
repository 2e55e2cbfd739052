"""UpdateFeatures: what transaction.version may be, and what it changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.coordination.features import GROUP_VERSION, TRANSACTION_VERSION
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.fakes.clock import FakeClock
from odradek.tests.support.histories.transactional import Transactional

UPGRADE, SAFE, UNSAFE = 1, 2, 3


def to(level: int, how: int = UPGRADE, name: str = TRANSACTION_VERSION) -> FeatureUpdateKey:
    return FeatureUpdateKey(name, level, upgrade_type=how)


async def update(raw: Raw, *updates: FeatureUpdateKey, version: int = 2, only: bool = False) -> UpdateFeaturesResponse:
    request = UpdateFeaturesRequest(feature_updates=list(updates), validate_only=only)
    response: UpdateFeaturesResponse = await raw.ask(ApiKey.UPDATE_FEATURES, version, request)
    return response


async def told(raw: Raw) -> tuple[int, int]:
    """The epoch of the features, and the level of transaction.version."""
    response = await raw.ask(ApiKey.API_VERSIONS, 4, ApiVersionsRequest("tests", "1"))
    (feature,) = (each for each in response.finalized_features if each.name == TRANSACTION_VERSION)
    assert feature.max_version_level == feature.min_version_level
    return response.finalized_features_epoch, feature.max_version_level


async def test_a_cluster_begins_at_version_2_of_transactions(raw: Raw) -> None:
    assert await told(raw) == (0, 2)


@pytest.mark.parametrize("how", [SAFE, UNSAFE])
async def test_a_level_is_lowered_and_raised_and_its_epoch_rises(config: BrokerConfig, how: int) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert (await update(raw, to(1, how), only=True)).error_code == 0
        assert await told(raw) == (0, 2)
        assert (await update(raw, to(1, how))).error_code == 0
        assert await told(raw) == (1, 1)
        assert (await update(raw, to(1, how), to(1))).error_code == 0
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert await told(raw) == (1, 1)
        assert (await update(raw, to(2))).error_code == 0
        assert await told(raw) == (2, 2)


@pytest.mark.parametrize(
    "asked",
    [
        to(3),
        to(0, UNSAFE),
        to(-1, UNSAFE),
        to(1),
        to(2, 0),
        to(2, 4),
        to(1, SAFE, "no.such"),
        to(0, UNSAFE, "no.such"),
        to(1, name=""),
    ],
    ids=repr,
)
async def test_an_invalid_level_rejects_the_whole_request(raw: Raw, asked: FeatureUpdateKey) -> None:
    response = await update(raw, to(1, SAFE), to(2), asked)
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert asked.feature in (response.error_message or "")
    assert await told(raw) == (0, 2)


async def test_an_upgrade_marked_as_a_downgrade_is_rejected(raw: Raw) -> None:
    await update(raw, to(1, SAFE))
    assert (await update(raw, to(2, SAFE))).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert await told(raw) == (1, 1)


@pytest.mark.parametrize("allow_downgrade", [False, True])
async def test_version_0_lowers_no_level(raw: Raw, allow_downgrade: bool) -> None:
    lower = FeatureUpdateKey(TRANSACTION_VERSION, 1, allow_downgrade=allow_downgrade)
    assert (await update(raw, lower, version=0)).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert await told(raw) == (0, 2)


@pytest.mark.parametrize(("level", "code"), [(1, ErrorCode.PRODUCER_FENCED), (2, ErrorCode.NONE)])
async def test_a_producer_that_timed_out_may_go_on_from_version_2_on(
    config: BrokerConfig, level: int, code: ErrorCode
) -> None:
    clock = FakeClock()
    awake = replace(config, connections_max_idle_ms=-1)
    async with Broker(awake, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        producer = Transactional(raw, "tx")
        await producer.begin()
        # It was known before the change: who is told of another level is not only who comes later.
        await update(raw, to(level, SAFE))
        assert (await producer.send("t", b"a")).error_code == 0
        clock.advance(3_600_000)
        broker.timers.fire_due()
        # KIP-360: the coordinator aborted it under the next epoch, which the one who wrote it may take.
        request = InitProducerIdRequest("tx", 60_000, producer.producer_id, producer.epoch)
        assert (await raw.ask(ApiKey.INIT_PRODUCER_ID, 4, request)).error_code == code


async def test_consumer_groups_need_group_version_1(config: BrokerConfig) -> None:
    async def beat(raw: Raw) -> int:
        await raw.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest("g"))
        request = ConsumerGroupHeartbeatRequest("g", "m", 0, None, None, 1000, ["t"], topic_partitions=[])
        return (await raw.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)).error_code

    async def described(raw: Raw) -> int:
        request = ConsumerGroupDescribeRequest(["g"])
        return (await raw.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, request)).groups[0].error_code

    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert (await beat(raw), await described(raw)) == (0, 0)
        assert (await update(raw, to(0, SAFE, GROUP_VERSION))).error_code == 0
        assert await beat(raw) == await described(raw) == ErrorCode.UNSUPPORTED_VERSION
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert await beat(raw) == ErrorCode.UNSUPPORTED_VERSION
        assert (await update(raw, to(1, name=GROUP_VERSION))).error_code == 0
        assert await beat(raw) == 0


@pytest.mark.parametrize(("version", "is_listed"), [(3, False), (4, True)])
async def test_a_feature_that_begins_at_level_0_is_for_clients_that_can_read_it(
    raw: Raw, version: int, is_listed: bool
) -> None:
    response = await raw.ask(ApiKey.API_VERSIONS, version, ApiVersionsRequest("tests", "1"))
    assert (GROUP_VERSION in {each.name for each in response.supported_features}) == is_listed
    assert GROUP_VERSION in {each.name for each in response.finalized_features}
