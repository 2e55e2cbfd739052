"""Which quota applies: Kafka's order of eight, and who shares it."""

from __future__ import annotations

import pytest
from odradek.broker.quotas.bounds import Bound, Bounds
from odradek.broker.quotas.entities import DEFAULT, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE, Entity

BOTH, USER, CLIENT = ("u", "c"), ("u", None), (None, "c")
# The first one wins, with those who share it.
ORDER = [
    (Entity("u", "c"), BOTH),
    (Entity("u", DEFAULT), BOTH),
    (Entity("u"), USER),
    (Entity(DEFAULT, "c"), BOTH),
    (Entity(DEFAULT, DEFAULT), BOTH),
    (Entity(DEFAULT), USER),
    (Entity(None, "c"), CLIENT),
    (Entity(None, DEFAULT), CLIENT),
]


@pytest.mark.parametrize("first", range(8))
def test_the_first_of_eight_applies(first: int) -> None:
    bounds = Bounds({entity: {PRODUCER_BYTE_RATE: float(at)} for at, (entity, _) in enumerate(ORDER) if at >= first})
    assert bounds.of_client(PRODUCER_BYTE_RATE, "u", "c") == Bound(float(first), ORDER[first][1])


def test_a_quota_of_another_key_does_not_stand_in_the_way() -> None:
    bounds = Bounds({Entity("u", "c"): {REQUEST_PERCENTAGE: 1.0}, Entity("u"): {PRODUCER_BYTE_RATE: 2.0}})
    assert bounds.of_client(PRODUCER_BYTE_RATE, "u", "c") == Bound(2.0, USER)


def test_others_have_no_limit() -> None:
    bounds = Bounds({Entity("u", "c"): {PRODUCER_BYTE_RATE: 1.0}})
    for user, client_id in (("u", "d"), ("v", "c"), ("u", "")):
        assert bounds.of_client(PRODUCER_BYTE_RATE, user, client_id) is None


def test_a_key_is_gone_with_its_last_quota() -> None:
    bounds = Bounds({Entity("u"): {PRODUCER_BYTE_RATE: 1.0}, Entity("v"): {PRODUCER_BYTE_RATE: 1.0}})
    bounds.put(Entity("u"), {})
    assert PRODUCER_BYTE_RATE in bounds
    bounds.put(Entity("v"), {})
    assert PRODUCER_BYTE_RATE not in bounds


def test_addresses_are_compared_as_connections_have_them() -> None:
    bounds = Bounds({Entity(ip="::1"): {"rate": 1.0}, Entity(ip="127.1"): {"rate": 2.0}, Entity(ip=""): {"rate": 3.0}})
    assert [bounds.of_host("rate", host) for host in ("0:0:0:0:0:0:0:1", "127.0.0.1", "10.0.0.1")] == [1.0, 2.0, 3.0]
    assert bounds.of_host("other", "127.0.0.1") is None
