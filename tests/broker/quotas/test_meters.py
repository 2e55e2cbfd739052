"""Meters are bounded in number, and forgotten when nobody uses them."""

from __future__ import annotations

import sys

from odradek.broker.quotas import client_quotas
from odradek.broker.quotas.client_quotas import IDLE_MS, MAX_METERS, Meters


def test_invented_ids_push_out_the_oldest_ones() -> None:
    known: Meters[list[int]] = Meters(list)
    mine = known.of("mine", 0)
    for number in range(2 * MAX_METERS):
        known.of(number, 0)
        assert known.of("mine", 0) is mine
    assert len(known) == MAX_METERS


def test_idle_meters_go() -> None:
    known: Meters[list[int]] = Meters(list)
    for number in range(100):
        known.of(number, 0)
    known.of("used", IDLE_MS - 1)
    known.of("new", IDLE_MS)
    assert len(known) == 2


def test_the_bound_holds_for_hours_of_new_ids() -> None:
    known: Meters[list[int]] = Meters(list)
    for number in range(client_quotas.MAX_METERS + 10):
        known.of(number, number)
    assert len(known) == MAX_METERS


def test_the_ids_that_clients_invent_are_not_kept() -> None:
    """Each may have 32 KiB."""
    known: Meters[list[int]] = Meters(list)
    client_id = "x" * 32_000
    before = sys.getrefcount(client_id)
    meter = known.of((None, client_id), 0)
    assert sys.getrefcount(client_id) == before
    assert known.of((None, client_id), 0) is meter
    assert known.of((client_id, None), 0) is not meter
