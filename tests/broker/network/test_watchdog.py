"""The watchdog: it reports what holds the loop, and sleeps while there are no requests."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator

import pytest
from odradek.broker.network.watchdog import Watchdog

WAIT_S = 20


class Reports(logging.Handler):
    """The lines that the watchdog logs, and an event for the first."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.came = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self.came.set()


class CountingLoop:
    """A loop that is never held, and counts how often it is asked."""

    def __init__(self) -> None:
        self.looks = 0
        self.looked_again = threading.Event()

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> None:
        self.looks += 1
        callback()
        if self.looks > 4:
            self.looked_again.set()


@pytest.fixture
def reports() -> Iterator[Reports]:
    handler = Reports()
    logger = logging.getLogger("odradek.broker.network.watchdog")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


@pytest.fixture
def watchdog() -> Iterator[Watchdog]:
    each = Watchdog(held_ms=5, interval_ms=1)
    yield each
    each.stop()


async def _asleep(watchdog: Watchdog) -> None:
    assert await asyncio.to_thread(watchdog.asleep.wait, WAIT_S)


async def test_it_reports_what_holds_the_loop_with_the_stack(reports: Reports, watchdog: Watchdog) -> None:
    def hold_everybody() -> None:
        assert reports.came.wait(WAIT_S)

    watchdog.start()
    await _asleep(watchdog)
    watchdog.note()
    hold_everybody()
    assert "is held for more than 5 ms" in reports.lines[0]
    assert "hold_everybody" in reports.lines[0]
    watchdog.note()
    await _asleep(watchdog)
    assert "was held for" in reports.lines[-1]


async def test_a_second_turn_soon_afterwards_is_counted_alone(
    reports: Reports, watchdog: Watchdog, monkeypatch: pytest.MonkeyPatch
) -> None:
    watchdog._report(threading.get_ident())
    watchdog._report(threading.get_ident())
    assert len(reports.lines) == 1
    monkeypatch.setattr("odradek.broker.network.watchdog.REPORT_INTERVAL_MS", 0)
    watchdog._report(threading.get_ident())
    assert "(1 more times since the last report)" in reports.lines[1]


async def test_it_asks_the_loop_only_while_requests_come(watchdog: Watchdog) -> None:
    loop = CountingLoop()
    thread = threading.Thread(target=watchdog._run, args=(loop, threading.get_ident()), daemon=True)
    thread.start()
    await _asleep(watchdog)
    looks = loop.looks
    assert looks == 4
    watchdog.note()
    await asyncio.to_thread(loop.looked_again.wait, WAIT_S)
    assert loop.looks > looks
    await _asleep(watchdog)
    watchdog.stop()
    await asyncio.to_thread(thread.join, WAIT_S)
    assert not thread.is_alive()
