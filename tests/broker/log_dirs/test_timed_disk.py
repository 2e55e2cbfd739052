"""Slow writes are logged with file and seconds, and not each of very many."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.log_dirs.timed_disk import REPORT_INTERVAL_S, TimedDisk
from odradek.storage.errors import DiskError
from odradek.tests.support.fakes.clock import FakeClock


class SteppingClock(FakeClock):
    """A clock that moves by `step_ms` whenever it is read."""

    step_ms = 0

    def monotonic_s(self) -> float:
        self.advance(self.step_ms)
        return self.time_ms / 1000


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_a_write_of_a_second_is_logged_with_its_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = SteppingClock()
    disk = TimedDisk()
    disk.now_s = clock.monotonic_s
    file = disk.open(tmp_path / "x.log", create=True)
    clock.step_ms = 999
    # Of this logger alone: threads of earlier tests may still have something to say.
    with caplog.at_level(logging.DEBUG, TimedDisk.__module__):
        disk.write(file, b"quick", 0)
    assert lines(caplog) == []
    assert [each.getMessage() for each in caplog.records] == [f"a write of 5 bytes to {file.path} took 999.0 ms"]
    clock.step_ms = 2500
    for _ in range(2):
        disk.write(file, b"slow", 5)
    (line,) = lines(caplog)
    assert line == f"a write of 4 bytes to {file.path} took 2.5 s: the disk is slow or has too much to write"
    clock.advance(int(REPORT_INTERVAL_S * 1000))
    disk.write(file, b"slow", 5)
    assert lines(caplog)[1].endswith("; 1 more since the last report")
    assert file.path.read_bytes() == b"quickslow"


def test_a_slow_write_that_fails_is_logged_as_well(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = SteppingClock()
    disk = TimedDisk()
    disk.now_s = clock.monotonic_s
    (tmp_path / "x.log").write_bytes(b"")
    file = disk.open(tmp_path / "x.log", writable=False)
    clock.step_ms = 1000
    with pytest.raises(DiskError):
        disk.write(file, b"never", 0)
    assert str(file.path) in lines(caplog)[0]


def test_slow_writes_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = SteppingClock()
    disk = TimedDisk()
    disk.now_s = clock.monotonic_s
    file = disk.open(tmp_path / "x.log", create=True)
    caplog.set_level(logging.INFO)
    disk.report_waits()
    assert caplog.messages == []
    for clock.step_ms in (0, 2, 4, 6, 49, 1500):
        disk.write(file, b"x", 0)
    caplog.clear()
    disk.report_waits()
    said = "of all writes 5 took 1 ms or more, 3 took 5 ms or more, 1 took 50 ms or more; the longest took 1500.0 ms"
    assert caplog.messages == [said]


async def test_a_broker_says_when_it_stops_how_many_writes_were_slow(
    config: BrokerConfig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    # On a busy machine writes of the broker's own are slow, too.
    monkeypatch.setattr(TimedDisk, "now_s", staticmethod(lambda: 0.0))
    async with Broker(config) as broker:
        broker._disk.waited(Path("x"), 1, 0.006)
    assert any("1 took 5 ms or more" in each for each in caplog.messages)
