"""Connection limits, in total and by address."""

from __future__ import annotations

import resource
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from odradek.broker import Broker
from odradek.broker.configs.broker_config import BrokerConfig
from odradek.broker.configs.definition import ConfigError
from odradek.broker.network.connection import Connection
from odradek.broker.network.connection_limits import ConnectionLimits
from odradek.broker.quotas.entities import CONNECTION_CREATION_RATE, Entity
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.tests.support.brokers.connections import connections
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.security.sasl import log_in, sasl_config


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
    config = BrokerConfig(max_connections_per_ip=0, max_connections_per_ip_overrides="10.0.0.1 : 2, [::1]:1,::2:1")
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


def with_own_listener(config: BrokerConfig, **configs: Any) -> BrokerConfig:
    """A config with a listener of the brokers, behind that of clients."""
    return replace(
        config,
        listeners=("PLAINTEXT://127.0.0.1:0", "BROKERS://127.0.0.1:0"),
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
        inter_broker_listener_name="BROKERS",
        **configs,
    )


def connection_of(broker: Broker, raw: Raw) -> Connection:
    """Return the broker's side of a connection."""
    host, port = raw._writer.get_extra_info("sockname")
    return next(each for each in connections(broker) if each.name == f"{host}:{port}")


async def is_served(raw: Raw) -> bool:
    try:
        return (await raw.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())).error_code == 0
    except (EOFError, ConnectionError):
        return False


async def test_max_connections_leaves_the_brokers_a_way_in(config: BrokerConfig) -> None:
    async with Broker(with_own_listener(config, max_connections=3)) as broker, AsyncExitStack() as stack:
        clients, brokers = broker.addresses
        first, second, third = [await stack.enter_async_context(await Raw.connect(clients)) for _ in range(3)]
        for ago_ms, each in ((3_000, first), (2_000, third), (1_000, second)):
            assert await is_served(each)
            connection_of(broker, each).last_active_ms -= ago_ms
        assert not await is_served(await stack.enter_async_context(await Raw.connect(clients)))
        # The client that has sent nothing for longest goes.
        own = [await stack.enter_async_context(await Raw.connect(brokers)) for _ in range(2)]
        assert await is_served(own[0]) and await is_served(own[1])
        assert [await is_served(each) for each in (first, third, second)] == [False, False, True]
        # Brokers do not close each other's.
        own += [await stack.enter_async_context(await Raw.connect(brokers)) for _ in range(3)]
        assert all([await is_served(each) for each in own])
        assert not await is_served(second)
        assert not await is_served(await stack.enter_async_context(await Raw.connect(clients)))


async def test_strangers_at_a_listener_go_before_clients_that_have_logged_in(config: BrokerConfig) -> None:
    secure = sasl_config(config)
    own = replace(
        secure,
        listeners=(*secure.listeners, "BROKERS://127.0.0.1:0"),
        listener_security_protocol_map=f"{secure.listener_security_protocol_map},BROKERS:PLAINTEXT",
        inter_broker_listener_name="BROKERS",
        max_connections=3,
    )
    async with Broker(own) as broker, AsyncExitStack() as stack:
        plain, auth, brokers = [await Raw.connect(each) for each in broker.addresses[:2]] + [broker.addresses[2]]
        assert await is_served(plain)
        assert (await log_in(auth)).error_code == 0
        stranger = await Raw.connect(broker.addresses[1])
        assert await is_served(stranger)
        assert await is_served(await stack.enter_async_context(await Raw.connect(brokers)))
        assert [await is_served(each) for each in (plain, auth, stranger)] == [True, True, False]
        for each in (plain, auth, stranger):
            each.close()


def test_the_descriptors_leave_the_brokers_a_way_in() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    limits = ConnectionLimits(with_own_listener(BrokerConfig()))
    full, last = most - most // 10, most - most // 20
    assert limits.acquire("a", full, "PLAINTEXT") is not None
    assert limits.acquire("a", full, "BROKERS") is None
    assert limits.acquire("a", last, "BROKERS") is not None
    limits.close_one = lambda: True
    assert limits.acquire("a", last, "BROKERS") is None
    # A lone listener is that of the clients, too.
    assert ConnectionLimits(BrokerConfig()).acquire("a", full, "PLAINTEXT") is not None
