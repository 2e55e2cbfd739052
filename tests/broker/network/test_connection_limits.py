"""Connection limits, in total and by address."""

from __future__ import annotations

import resource
from dataclasses import replace

import pytest
from odradek.broker import Broker
from odradek.broker.configs.broker_config import BrokerConfig
from odradek.broker.configs.definition import ConfigError
from odradek.broker.network.connection_limits import ConnectionLimits
from odradek.broker.quotas.entities import CONNECTION_CREATION_RATE, Entity
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.tests.support.raw import Raw


def limits(max_connections: int, max_per_ip: int) -> ConnectionLimits:
    return ConnectionLimits(BrokerConfig(max_connections=max_connections, max_connections_per_ip=max_per_ip))


def test_connections_are_counted_by_address_and_in_total() -> None:
    three = limits(3, 2)
    assert three.acquire("a", 0) is three.acquire("a", 0) is None
    assert three.acquire("a", 0) == "max.connections.per.ip is 2"
    assert three.acquire("b", 0) is None
    assert three.acquire("c", 0) == "max.connections is 3"
    three.release("a")
    assert three.acquire("c", 0) is None


def test_nothing_is_kept_of_an_address_without_connections() -> None:
    default = ConnectionLimits(BrokerConfig())
    for address in map(str, range(1000)):
        assert default.acquire(address, 0) is None
        default.release(address)
    assert default._by_address == {}


def test_connections_leave_a_tenth_of_the_descriptors_to_the_logs() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    default = ConnectionLimits(BrokerConfig())
    assert default.acquire("a", most - most // 10 - 1) is None
    refused = default.acquire("a", most - most // 10)
    assert refused is not None and refused.startswith(f"{most - most // 10} of {most} descriptors are in use")


def test_an_address_may_have_a_limit_of_its_own() -> None:
    config = BrokerConfig(max_connections_per_ip=0, max_connections_per_ip_overrides="10.0.0.1:2, [::1]:1,::2:1")
    own = ConnectionLimits(config)
    assert own.acquire("10.0.0.1", 0) is own.acquire("10.0.0.1", 0) is None
    assert own.acquire("10.0.0.1", 0) == "max.connections.per.ip is 2"
    assert own.acquire("0:0:0:0:0:0:0:1", 0) is own.acquire("0:0:0:0:0:0:0:2", 0) is None
    assert own.acquire("10.0.0.2", 0) == "max.connections.per.ip is 0"
    config.alter({"max.connections.per.ip.overrides": "10.0.0.2:1"}, {})
    assert own.acquire("10.0.0.2", 0) is None
    assert own.acquire("10.0.0.1", 0) == "max.connections.per.ip is 0"


@pytest.mark.parametrize("text", ["10.0.0.1", "10.0.0.1:-1", "host:1", "10.0.0.1:", "10.0.0.1:x", ":1"])
def test_a_limit_of_an_address_is_an_address_and_a_number(text: str) -> None:
    with pytest.raises(ConfigError, match="must be ADDRESS:NUMBER"):
        BrokerConfig(max_connections_per_ip_overrides=text)


async def test_a_connection_over_the_rate_is_served_later(config: BrokerConfig) -> None:
    slow = replace(config, max_connection_creation_rate=1, quota_window_num=2)
    async with Broker(slow) as broker:
        async with await Raw.connect(broker.address) as first, await Raw.connect(broker.address) as second:
            assert (await first.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())).error_code == 0
            second.send(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
            await first.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
            assert sum(each.waits for processor in broker.acceptor.processors for each in processor.connections) == 1
            assert (await second.receive(ApiKey.API_VERSIONS, 0)).error_code == 0


async def test_a_connection_over_the_quota_of_its_address_is_closed_later(broker: Broker, raw: Raw) -> None:
    quota = {Entity(ip="127.0.0.1"): {CONNECTION_CREATION_RATE: 1.0}}
    await broker.services.security.put_quotas(list(quota.items()))
    connections = [await Raw.connect(broker.address) for _ in range(11)]
    refused = connections.pop()
    refused.send(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    for each in (raw, *connections):
        assert (await each.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())).error_code == 0
    assert await refused.is_closed()
    for each in (refused, *connections):
        each.close()
