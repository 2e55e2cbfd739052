"""The log has a bounded number of lines about clients that are refused, then their number."""

from __future__ import annotations

import logging

import pytest
from odradek.broker.network.line_limit import MAX_LOG_LINES, WINDOW_MS, Rejections
from odradek.broker.timers import Timers
from odradek.tests.support.fakes.clock import FakeClock

LOG = logging.getLogger("odradek.broker.network.test")


@pytest.fixture
async def clock() -> FakeClock:
    return FakeClock()


async def test_lines_past_the_bound_are_counted(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    timers = Timers(clock)
    rejections = Rejections(clock, timers)
    for number in range(MAX_LOG_LINES + 7):
        rejections.warn(LOG, "%s: closed", number)
    assert [each.getMessage() for each in caplog.records] == [f"{number}: closed" for number in range(MAX_LOG_LINES)]
    clock.advance(WINDOW_MS)
    timers.fire_due()
    assert caplog.messages[MAX_LOG_LINES:] == ["7 more clients were refused or closed within 10 s"]
    rejections.warn(LOG, "the next window")
    assert caplog.messages[MAX_LOG_LINES + 1 :] == ["the next window"]
    timers.close()


async def test_few_lines_are_written_as_they_come(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    timers = Timers(clock)
    rejections = Rejections(clock, timers)
    for _ in range(20):
        rejections.warn(LOG, "closed", extra={"connection": "c"})
        clock.advance(WINDOW_MS // 10)
    assert caplog.messages == ["closed"] * 20 and caplog.records[0].__dict__["connection"] == "c"
    timers.close()
