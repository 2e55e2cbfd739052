"""The watchdog: it reports what holds the loop, and sleeps while there are no requests."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.network.watchdog import Watchdog

WAIT_S = 20


class Reports(logging.Handler):
    """The lines that the watchdog logs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._came = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self._came:
            self.lines.append(record.getMessage())
            self._came.notify_all()

    def wait_for(self, text: str) -> str:
        """Block until a line has this text; a busy machine may hold the loop at other places before."""
        with self._came:
            assert self._came.wait_for(lambda: any(text in line for line in self.lines), WAIT_S)
        return next(line for line in self.lines if text in line)


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


async def test_it_reports_what_holds_the_loop_with_the_stack(
    reports: Reports, watchdog: Watchdog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hold_everybody() -> str:
        return reports.wait_for("hold_everybody")

    monkeypatch.setattr("odradek.broker.network.watchdog.REPORT_INTERVAL_MS", 0)
    watchdog.start()
    await _asleep(watchdog)
    watchdog.note()
    assert "is held for more than 5 ms" in hold_everybody()
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


async def test_a_client_that_blocks_the_loop_of_its_broker_is_named_with_the_remedy(
    reports: Reports, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def block_until_the_broker_answers() -> str:
        return reports.wait_for("block_until_the_broker_answers")

    monkeypatch.setattr("odradek.broker.network.watchdog.REPORT_INTERVAL_MS", 0)
    monkeypatch.setattr("odradek.broker.network.watchdog.PROGRAM_HELD_MS", 50)
    monkeypatch.setattr("odradek.broker.network.watchdog.PROGRAM_INTERVAL_MS", 5)
    config = BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=(str(tmp_path),))
    async with Broker(config):
        assert "by `with Broker(...)` instead of `async with Broker(...)`" in block_until_the_broker_answers()
    watched = [each for each in threading.enumerate() if each.name == "odradek-watchdog"]
    for each in watched:
        await asyncio.to_thread(each.join, WAIT_S)
    assert not any(each.is_alive() for each in watched)


async def test_a_loop_that_ends_after_a_look_is_not_reported(reports: Reports) -> None:
    class EndedLoop(CountingLoop):
        def call_soon_threadsafe(self, callback: Callable[[], object]) -> None:
            self.looked_again.set()

    each, loop = Watchdog(held_ms=60_000, interval_ms=1, sleeps=False), EndedLoop()
    thread = threading.Thread(target=each._run, args=(loop, threading.get_ident()), daemon=True)
    thread.start()
    assert await asyncio.to_thread(loop.looked_again.wait, WAIT_S)
    each.stop()
    await asyncio.to_thread(thread.join, WAIT_S)
    assert not thread.is_alive() and reports.lines == []
