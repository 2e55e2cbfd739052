"""How fast connections come in, on a clock that stands still."""

from __future__ import annotations

import pytest
from odradek.broker.configs.broker_config import BrokerConfig
from odradek.broker.quotas.client_quotas import ClientQuotas
from odradek.broker.quotas.connection_rates import AT_ONCE, MAX_MS, ConnectionRates
from odradek.broker.quotas.entities import CONNECTION_CREATION_RATE, Entity
from odradek.tests.support.fakes.clock import FakeClock

TWO = {"listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0"} | {
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
}
RATE = "max.connection.creation.rate"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def rates(clock: FakeClock, per_host: float | None = None, **configs: str) -> ConnectionRates:
    config, _ = BrokerConfig.parse(configs)
    quotas = {} if per_host is None else {Entity(ip="10.0.0.1"): {CONNECTION_CREATION_RATE: per_host}}
    return ConnectionRates(config, ClientQuotas(quotas, config, clock), clock)


def test_without_a_limit_nothing_is_counted(clock: FakeClock) -> None:
    free = rates(clock)
    assert {free.enter("PLAINTEXT", "10.0.0.1") for _ in range(1000)} == {AT_ONCE}
    assert free._rates == {}


def test_connections_above_the_rate_come_in_one_after_another(clock: FakeClock) -> None:
    limited = rates(clock, **{RATE: "10"})
    assert {limited.enter("PLAINTEXT", "10.0.0.1").delay_ms for _ in range(100)} == {0}
    assert [limited.enter("PLAINTEXT", "10.0.0.1").delay_ms for _ in range(3)] == [100, 200, 300]
    clock.advance(20_000)
    assert limited.enter("PLAINTEXT", "10.0.0.1") == AT_ONCE


def test_one_that_would_wait_for_too_long_is_closed(clock: FakeClock) -> None:
    slow = rates(clock, **{RATE: "1"})
    entries = [slow.enter("PLAINTEXT", "10.0.0.1") for _ in range(1000)]
    assert [each.delay_ms for each in entries[:21]] == [0] * 10 + [1000 * number for number in range(1, 11)] + [0]
    assert all(each.delay_ms <= MAX_MS for each in entries)
    assert all(each.rejection for each in entries[22:])
    clock.advance(5000)
    assert slow.enter("PLAINTEXT", "10.0.0.1").rejection == ""


def test_a_listener_has_a_rate_of_its_own(clock: FakeClock) -> None:
    limited = rates(clock, **TWO, **{f"listener.name.outside.{RATE}": "1"})
    assert {limited.enter("INSIDE", "10.0.0.1") for _ in range(100)} == {AT_ONCE}
    assert {limited.enter("OUTSIDE", "10.0.0.1") for _ in range(10)} == {AT_ONCE}
    assert limited.enter("OUTSIDE", "10.0.0.1").delay_ms == 1000


def test_brokers_do_not_wait_for_the_rate_of_the_whole_broker(clock: FakeClock) -> None:
    limited = rates(clock, **TWO, **{RATE: "1"})
    assert {limited.enter("INSIDE", "10.0.0.1") for _ in range(100)} == {AT_ONCE}
    assert [limited.enter("OUTSIDE", "10.0.0.1").delay_ms for _ in range(11)][-1] == 1000


def test_an_address_over_its_quota_is_held_and_closed_and_does_not_count(clock: FakeClock) -> None:
    limited = rates(clock, per_host=1, **{RATE: "2"})
    assert {limited.enter("PLAINTEXT", "10.0.0.1") for _ in range(10)} == {AT_ONCE}
    held = limited.enter("PLAINTEXT", "10.0.0.1")
    assert held.delay_ms == 1000 and "connection_creation_rate of 10.0.0.1" in held.rejection
    assert {limited.enter("PLAINTEXT", "10.0.0.2") for _ in range(10)} == {AT_ONCE}
    assert limited.enter("PLAINTEXT", "10.0.0.2").delay_ms == 500
