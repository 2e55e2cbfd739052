"""The configs of consumer groups: altered, described and listed by the requests for configs, and kept."""

from __future__ import annotations

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.share_partitions.machine import Limits
from odradek.broker.share_partitions.settings import Settings, finder
from odradek.broker.topics.partition_state import READ_UNCOMMITTED
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.list_config_resources import ListConfigResourcesRequest
from odradek.tests.support.clients.raw import Raw

GROUP, SET, DELETE = 32, 0, 1
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"
LOCK, RESET = "share.record.lock.duration.ms", "share.auto.offset.reset"
DEFAULTS = {
    SESSION: ("45000", 5),
    HEARTBEAT: ("5000", 5),
    ASSIGNMENT: ("1000", 5),
    "share.session.timeout.ms": ("45000", 5),
    "share.heartbeat.interval.ms": ("5000", 5),
    "share.assignment.interval.ms": ("1000", 5),
    LOCK: ("30000", 5),
    "share.delivery.count.limit": ("5", 5),
    "share.partition.max.record.locks": ("2000", 5),
    RESET: ("latest", 5),
    "share.isolation.level": ("read_uncommitted", 5),
    "share.renew.acknowledge.enable": ("true", 5),
    "errors.deadletterqueue.topic.name": ("", 5),
    "errors.deadletterqueue.copy.record.enable": ("false", 5),
}


async def alter(raw: Raw, *configs: AlterableConfig, group: str = "g", only: bool = False) -> tuple[int, str | None]:
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP, group, list(configs))], only)
    (response,) = (await raw.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)).responses
    return response.error_code, response.error_message


async def described(raw: Raw) -> dict[str, tuple[str | None, int]]:
    request = DescribeConfigsRequest([DescribeConfigsResource(GROUP, "g")], True, True)
    (result,) = (await raw.ask(ApiKey.DESCRIBE_CONFIGS, 4, request)).results
    assert result.error_code == 0 and not any(each.read_only for each in result.configs)
    return {each.name: (each.value, each.config_source) for each in result.configs}


async def listed(raw: Raw) -> list[str]:
    response = await raw.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, ListConfigResourcesRequest([GROUP]))
    return [each.resource_name for each in response.config_resources]


async def interval_ms(raw: Raw) -> int:
    await raw.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest("g"))
    request = ConsumerGroupHeartbeatRequest("g", "m", 0, None, None, 1000, ["t"], topic_partitions=[])
    return (await raw.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)).heartbeat_interval_ms


async def test_a_config_of_a_group_acts_at_once_and_after_a_restart(config: BrokerConfig) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        defaults = DEFAULTS
        assert await described(raw) == defaults and await listed(raw) == []
        assert await interval_ms(raw) == 5000
        assert await alter(raw, AlterableConfig(HEARTBEAT, SET, "7000"), only=True) == (0, None)
        assert await described(raw) == defaults
        assert await alter(raw, AlterableConfig(HEARTBEAT, SET, "7000")) == (0, None)
        assert await interval_ms(raw) == 7000
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert await interval_ms(raw) == 7000
        assert await described(raw) == {**defaults, HEARTBEAT: ("7000", 8)} and await listed(raw) == ["g"]
        assert await alter(raw, AlterableConfig(HEARTBEAT, DELETE, None)) == (0, None)
        assert await described(raw) == defaults and await listed(raw) == []
        assert await interval_ms(raw) == 5000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (SESSION, "44999"),
        (SESSION, "60001"),
        (HEARTBEAT, "4999"),
        (HEARTBEAT, "x"),
        (HEARTBEAT, "15001"),
        (ASSIGNMENT, "-1"),
        (ASSIGNMENT, "15001"),
        ("no.such", "1"),
        ("streams.session.timeout.ms", "45000"),
        ("share.session.timeout.ms", "44999"),
        (LOCK, "14999"),
        ("share.delivery.count.limit", "11"),
        (RESET, "by_duration:PT-1S"),
        (RESET, "none"),
        ("share.isolation.level", "serializable"),
        ("share.renew.acknowledge.enable", "yes"),
    ],
)
async def test_a_value_out_of_bounds_changes_nothing(raw: Raw, name: str, value: str) -> None:
    before = await described(raw)
    right = AlterableConfig(ASSIGNMENT, SET, "2") if name != ASSIGNMENT else AlterableConfig(HEARTBEAT, SET, "6000")
    code, why = await alter(raw, right, AlterableConfig(name, SET, value))
    assert code == ErrorCode.INVALID_CONFIG and name in (why or "")
    assert await described(raw) == before and await listed(raw) == []


async def test_a_group_needs_a_name_of_the_length_of_a_group_id(raw: Raw) -> None:
    assert (await alter(raw, AlterableConfig(HEARTBEAT, SET, "7000"), group=""))[0] == ErrorCode.INVALID_REQUEST


async def test_a_value_that_the_bounds_have_left_behind_is_the_nearest_one(config: BrokerConfig) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert await alter(raw, AlterableConfig(HEARTBEAT, SET, "7000")) == (0, None)
    narrower = BrokerConfig(
        listeners=config.listeners, log_dirs=config.log_dirs, group_consumer_max_heartbeat_interval_ms=6000
    )
    async with Broker(narrower) as broker, await Raw.connect(broker.address) as raw:
        assert await interval_ms(raw) == 6000


async def test_the_settings_of_a_share_group_are_those_of_its_configs(raw: Raw, broker: Broker) -> None:
    await alter(raw, AlterableConfig(RESET, SET, "by_duration:PT1H"), AlterableConfig(LOCK, SET, "20000"))
    reconfiguration = broker.services.reconfiguration
    settings = finder(reconfiguration.config, reconfiguration.groups, lambda: 2)("g")
    assert settings == Settings(Limits(20_000, 5, 2000, may_renew=True), READ_UNCOMMITTED, begins=3_600_000)
    assert await described(raw) == {**DEFAULTS, RESET: ("by_duration:PT1H", 8), LOCK: ("20000", 8)}
