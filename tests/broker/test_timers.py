"""The timers: order, cancellation, and the size of the heap."""

from __future__ import annotations

import asyncio
import logging

import pytest
from odradek.broker.clock import Clock
from odradek.broker.timers import Timers
from odradek.tests.support.brokers.slices import end_slices_after
from odradek.tests.support.fakes.clock import FakeClock


async def test_fires_in_order_of_deadline_then_of_creation() -> None:
    clock, fired = FakeClock(0), []
    timers = Timers(clock)
    for name, at_ms in (("c", 30), ("a", 10), ("b", 20), ("a2", 10)):
        timers.at(at_ms, lambda name=name: fired.append(name))
    clock.advance(20)
    timers.fire_due()
    assert fired == ["a", "a2", "b"]
    clock.advance(10)
    timers.fire_due()
    assert fired == ["a", "a2", "b", "c"]
    timers.close()


async def test_a_cancelled_timer_does_not_fire_and_may_be_cancelled_again() -> None:
    clock, fired = FakeClock(0), []
    timers = Timers(clock)
    handle = timers.at(5, lambda: fired.append("no"))
    handle.cancel()
    handle.cancel()
    clock.advance(10)
    timers.fire_due()
    assert fired == []
    assert not handle.active
    timers.close()


async def test_cancelled_timers_do_not_pile_up() -> None:
    timers = Timers(FakeClock(0))
    live = timers.at(10_000_000, lambda: None)
    for at_ms in range(10_000):
        timers.at(1_000_000 + at_ms, lambda: None).cancel()
    assert len(timers._heap) < 200
    assert live.active
    timers.close()


async def test_the_loop_wakes_for_a_timer_that_came_later_but_is_earlier() -> None:
    timers, done = Timers(Clock()), asyncio.get_running_loop().create_future()
    timers.after(60_000, lambda: None)
    timers.after(1, lambda: done.set_result("early"))
    assert await asyncio.wait_for(done, 5) == "early"
    timers.close()


async def test_a_timer_that_fails_is_logged_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    clock, fired = FakeClock(0), []
    timers = Timers(clock)
    timers.at(1, lambda: 1 / 0)
    timers.at(2, lambda: fired.append("after"))
    clock.advance(5)
    with caplog.at_level(logging.ERROR):
        timers.fire_due()
    assert fired == ["after"]
    assert "a timer failed" in caplog.text
    timers.close()


async def test_a_timer_that_renews_itself_at_once_does_not_hold_up_the_loop() -> None:
    clock, fired = FakeClock(0), []
    timers = Timers(clock)

    def again() -> None:
        fired.append("again")
        timers.at(0, again)

    timers.at(0, again)
    timers.fire_due()
    assert fired == ["again"]
    timers.close()


async def test_timers_that_are_due_together_fire_a_part_of_them_a_turn_and_in_order() -> None:
    clock, fired = FakeClock(0), list[int]()
    timers = Timers(clock)
    end_slices_after(10)
    for number in range(25):
        timers.at(number, lambda number=number: fired.append(number))
    clock.advance(25)
    sizes: list[int] = []
    for _ in range(3):
        timers.fire_due()
        sizes.append(len(fired))
    assert sizes == [11, 22, 25]
    assert fired == sorted(fired)
    timers.close()
