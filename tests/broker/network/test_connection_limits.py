"""Connection limits, in total and by address."""

from __future__ import annotations

import resource

from odradek.broker.configs.broker_config import BrokerConfig
from odradek.broker.network.connection_limits import ConnectionLimits


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


def test_a_limit_of_0_refuses_every_connection() -> None:
    assert limits(0, 5).acquire("a", 0) == "max.connections is 0"
    assert limits(5, 0).acquire("a", 0) == "max.connections.per.ip is 0"


def test_connections_leave_a_tenth_of_the_descriptors_to_the_logs() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    default = ConnectionLimits(BrokerConfig())
    assert default.acquire("a", most - most // 10 - 1) is None
    refused = default.acquire("a", most - most // 10)
    assert refused is not None and refused.startswith(f"{most - most // 10} of {most} descriptors are in use")
