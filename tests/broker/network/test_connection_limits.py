"""Connection limits, in total and by address."""

from __future__ import annotations

from odradek.broker.configs.broker_config import BrokerConfig
from odradek.broker.network.connection_limits import ConnectionLimits


def limits(max_connections: int, max_per_ip: int) -> ConnectionLimits:
    return ConnectionLimits(BrokerConfig(max_connections=max_connections, max_connections_per_ip=max_per_ip))


def test_connections_are_counted_by_address_and_in_total() -> None:
    three = limits(3, 2)
    assert three.acquire("a") is three.acquire("a") is None
    assert three.acquire("a") == "max.connections.per.ip is 2"
    assert three.acquire("b") is None
    assert three.acquire("c") == "max.connections is 3"
    three.release("a")
    assert three.acquire("c") is None


def test_nothing_is_kept_of_an_address_without_connections() -> None:
    default = ConnectionLimits(BrokerConfig())
    for address in map(str, range(1000)):
        assert default.acquire(address) is None
        default.release(address)
    assert default._by_address == {}


def test_a_limit_of_0_refuses_every_connection() -> None:
    assert limits(0, 5).acquire("a") == "max.connections is 0"
    assert limits(5, 0).acquire("a") == "max.connections.per.ip is 0"
