"""Calls that are missing: what is read and forced to disk is the same, and hints are left out."""

from __future__ import annotations

import errno
import fcntl
import os
from functools import partial
from pathlib import Path

import pytest
from odradek.storage import system_calls


@pytest.fixture
def fd(tmp_path: Path) -> int:
    (tmp_path / "x").write_bytes(b"0123456789")
    return os.open(tmp_path / "x", os.O_RDWR)


def test_a_system_without_preadv_fills_what_there_is(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_calls, "READ_WITH_FLAGS", None)
    target = bytearray(6)
    assert system_calls.read_into(fd, target, 7) == 3
    assert target == b"789\0\0\0"
    assert system_calls.read_into(fd, memoryview(target)[2:4], 0) == 2
    assert target == b"78" + b"01" + b"\0\0"


def test_hints_are_left_out(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "posix_fadvise")
    system_calls.will_need(fd, 0)
    system_calls.forget(fd, 0, 10)


def record(calls: list[str], _: int) -> None:
    calls.append("fsync")


@pytest.mark.parametrize(
    ("failure", "synced"), [(None, ["full"]), (errno.ENOTSUP, ["full", "fsync"]), (errno.EIO, ["full"])]
)
def test_macos_empties_the_drives_cache(
    fd: int, monkeypatch: pytest.MonkeyPatch, failure: int | None, synced: list[str]
) -> None:
    calls: list[str] = []

    def control(_: int, command: int) -> None:
        assert command == 51
        calls.append("full")
        if failure is not None:
            raise OSError(failure, os.strerror(failure))

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", partial(record, calls))
    if failure == errno.EIO:
        with pytest.raises(OSError, match="Input/output"):
            system_calls.fsync(fd)
    else:
        system_calls.fsync(fd)
    assert calls == synced


def test_elsewhere_fsync_is_the_systems(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.delattr(fcntl, "F_FULLFSYNC", raising=False)
    monkeypatch.setattr(os, "fsync", calls.append)
    system_calls.fsync(fd)
    assert calls == [fd]
