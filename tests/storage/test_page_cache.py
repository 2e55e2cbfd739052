"""Whether a part of a file is in the page cache."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from odradek.storage import page_cache
from odradek.storage.files import DISK


def test_it_tells_of_every_page_of_a_range(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"x" * 1_000_000)
    file = DISK.open(path)
    if not page_cache.is_cached(file.fd, 0, 1_000_000):
        pytest.skip("this system does not tell what is in the page cache (Linux 6.5)")
    for position, size in ((0, 1), (4095, 2), (4096, 4096), (999_999, 1), (1, 999_999)):
        assert page_cache.is_cached(file.fd, position, size)
    assert not page_cache.is_cached(file.fd, 0, 1_100_000)
    os.fdatasync(file.fd)  # fsync does nothing in the tests (conftest.py)
    DISK.forget(file, 500_000, 500_000)
    if not page_cache.is_cached(file.fd, 900_000, 10):
        assert not page_cache.is_cached(file.fd, 0, 1_000_000)
        assert page_cache.is_cached(file.fd, 0, 100_000)


def test_a_system_that_cannot_tell_has_nothing_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"x" * 1000)
    file = DISK.open(path)
    monkeypatch.setattr(page_cache, "_call", lambda *_: -1)
    assert not page_cache.is_cached(file.fd, 0, 1000)
    monkeypatch.setattr(page_cache, "_call", None)
    assert not page_cache.is_cached(file.fd, 0, 1000)
    assert DISK.send(file, 1000, 0, -1) is None
