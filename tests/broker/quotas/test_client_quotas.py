"""What clients use, counted against their quotas on a clock that stands still."""

from __future__ import annotations

import pytest
from odradek.broker.configs.broker_config import BrokerConfig
from odradek.broker.quotas.client_quotas import ClientQuotas
from odradek.broker.quotas.entities import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    DEFAULT,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Entity,
)
from odradek.broker.quotas.rates import MAX_MS
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.tests.support.fakes.clock import FakeClock


def quotas(clock: FakeClock, entity: Entity, **values: float) -> ClientQuotas:
    return ClientQuotas({entity: values}, BrokerConfig(), clock)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_without_a_quota_nothing_is_counted(clock: FakeClock) -> None:
    none = ClientQuotas({}, BrokerConfig(), clock)
    assert none.produced("u", "c", 10**12) == none.worked("u", "c", 10**12) == none.fetches("u", "c", 10**12) == 0
    assert none.most_fetched_bytes("u", "c", 77) == 77
    none.mutations("u", "c", True).take(10**9)
    assert all(len(each) == 0 for each in none._rates.values())


def test_each_client_id_of_a_default_has_its_own(clock: FakeClock) -> None:
    counted = quotas(clock, Entity(None, DEFAULT), **{PRODUCER_BYTE_RATE: 100})
    assert counted.produced("u", "a", 2000) == 10_000
    assert counted.produced("u", "b", 500) == 0
    # Another user of the same id shares it.
    assert counted.produced("v", "a", 0) == 10_000


def test_all_client_ids_of_a_user_share(clock: FakeClock) -> None:
    counted = quotas(clock, Entity("u"), **{PRODUCER_BYTE_RATE: 100})
    assert counted.produced("u", "a", 1000) == 0
    assert counted.produced("u", "b", 1000) == 10_000


def test_a_change_counts_at_once_and_what_was_used_counts_still(clock: FakeClock) -> None:
    counted = quotas(clock, Entity("u"), **{PRODUCER_BYTE_RATE: 1000})
    assert counted.produced("u", "c", 2000) == 0
    counted.change([(Entity("u"), {PRODUCER_BYTE_RATE: 100.0})])
    assert counted.produced("u", "c", 0) == 10_000
    counted.change([(Entity("u"), {})])
    assert counted.produced("u", "c", 10**9) == 0
    assert PRODUCER_BYTE_RATE not in counted


def test_the_time_of_requests_costs_at_most_one_sample(clock: FakeClock) -> None:
    counted = quotas(clock, Entity("u"), **{REQUEST_PERCENTAGE: 1})
    assert counted.worked("u", "c", 100_000_000) == 0
    assert counted.worked("u", "c", 1_000_000) == 100
    assert counted.worked("u", "c", 10**10) == 1000


def test_a_fetch_that_waits_is_not_counted(clock: FakeClock) -> None:
    counted = quotas(clock, Entity("u"), **{CONSUMER_BYTE_RATE: 100})
    assert counted.most_fetched_bytes("u", "c", 10**6) == 1000
    assert counted.fetches("u", "c", 3000) == 20_000
    assert counted.fetches("u", "c", 1000) == 0
    assert counted.fetches("u", "c", 100) == 1000


def test_a_fetch_waits_for_the_time_of_requests_too(clock: FakeClock) -> None:
    counted = quotas(clock, Entity("u"), **{REQUEST_PERCENTAGE: 1})
    assert counted.fetches("u", "c", 10) == 0
    counted.worked("u", "c", 150_000_000)
    assert counted.fetches("u", "c", 10) == 1000


def test_a_wait_fits_its_field(clock: FakeClock) -> None:
    assert quotas(clock, Entity("u"), **{PRODUCER_BYTE_RATE: 1}).produced("u", "c", 10**9) == MAX_MS


def test_mutations_of_clients_that_know_the_error_are_refused(clock: FakeClock) -> None:
    counted = quotas(clock, Entity("u"), **{CONTROLLER_MUTATION_RATE: 1})
    request = counted.mutations("u", "c", True)
    # 11 may be saved up, and one request may go below zero.
    request.take(10)
    request.take(10)
    assert request.throttle_ms == 0
    with pytest.raises(KafkaError) as caught:
        request.take(1)
    assert caught.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert request.throttle_ms == 9000
    clock.advance(2000)
    assert request.throttle_ms == 7000
    clock.advance(7000)
    counted.mutations("u", "c", True).take(1)


def test_mutations_of_older_clients_are_done_and_cost_a_wait(clock: FakeClock) -> None:
    counted = quotas(clock, Entity("u"), **{CONTROLLER_MUTATION_RATE: 2})
    request = counted.mutations("u", "c", False)
    request.take(22)
    assert request.throttle_ms == 0
    request.take(8)
    assert request.throttle_ms == 4000


def test_connections_of_an_address(clock: FakeClock) -> None:
    counted = quotas(clock, Entity(ip="127.0.0.1"), **{CONNECTION_CREATION_RATE: 2})
    assert [counted.connected("127.0.0.1") for _ in range(20)] == [0] * 20
    assert counted.connected("127.0.0.1") == 500
    # One that is refused does not count.
    assert counted.connected("127.0.0.1") == 500
    assert counted.connected("127.0.0.2") == 0


def test_the_configs_say_over_how_many_samples_rates_are_counted(clock: FakeClock) -> None:
    config = BrokerConfig(quota_window_num=3, quota_window_size_seconds=2)
    counted = ClientQuotas({Entity("u"): {PRODUCER_BYTE_RATE: 100, REQUEST_PERCENTAGE: 1}}, config, clock)
    assert counted.produced("u", "c", 400) == 0
    assert counted.produced("u", "c", 100) == 1000
    assert counted.worked("u", "c", 10**12) == 2000
    clock.advance(6000)
    assert counted.produced("u", "c", 400) == 0


def test_the_configs_say_how_many_mutations_may_be_saved_up(clock: FakeClock) -> None:
    config = BrokerConfig(controller_quota_window_num=2, controller_quota_window_size_seconds=3)
    counted = ClientQuotas({Entity("u"): {CONTROLLER_MUTATION_RATE: 1}}, config, clock)
    request = counted.mutations("u", "c", False)
    request.take(6)
    assert request.throttle_ms == 0
    request.take(2)
    assert request.throttle_ms == 2000


@pytest.mark.parametrize("quota", [0, -1, 1e-320])
def test_a_quota_that_allows_nothing_has_clients_wait_and_breaks_no_request(clock: FakeClock, quota: float) -> None:
    """A broker of Kafka 3.9 writes 0 to ZooKeeper, and every broker of the cluster reads it."""
    keys = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
    counted = quotas(clock, Entity("u"), **dict.fromkeys(keys, quota))
    assert counted.produced("u", "c", 1) == MAX_MS
    assert counted.fetches("u", "c", 1) == MAX_MS
    assert counted.most_fetched_bytes("u", "c", 100) == 0
    assert counted.worked("u", "c", 10**6) == 1000
    request = counted.mutations("u", "c", False)
    request.take(1)
    assert request.throttle_ms == MAX_MS
    of_address = quotas(clock, Entity(ip="127.0.0.1"), **{CONNECTION_CREATION_RATE: quota})
    assert of_address.connected("127.0.0.1") == 1000
