"""Fetches from a file system in memory, and on a system that cannot tell what is cached."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.storage import page_cache
from odradek.storage.files import Disk, File
from odradek.tests.support.clients.raw import Raw, batch_of

BATCHES = 20


class CountingDisk(Disk):
    """Counts the reads that may wait for the disk."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self, file: File, size: int, position: int) -> bytes:
        self.reads += 1
        return super().read(file, size, position)


@pytest.fixture
def shm() -> Iterator[Path]:
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("/dev/shm is not there")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)


async def fetch_all(config: BrokerConfig, disk: CountingDisk) -> int:
    """Write and fetch batches one by one; return how many reads of that might have waited."""
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", segment_bytes=str(1 << 20))
        for at in range(BATCHES):
            assert (await raw.produce("t", batch_of(b"%d" % at + bytes(100_000)))).error_code == 0
        before = disk.reads
        for at in range(BATCHES):
            fetched = await raw.fetch("t", at)
            assert fetched.error_code == 0
            assert b"%d" % at + bytes(100_000) in bytes(fetched.records)
        return disk.reads - before


async def test_a_fetch_from_tmpfs_waits_no_more_than_one_from_the_page_cache(
    config: BrokerConfig, shm: Path, on_disk: Path
) -> None:
    in_page_cache = await fetch_all(replace(config, log_dirs=(str(on_disk / "data"),)), CountingDisk())
    assert await fetch_all(replace(config, log_dirs=(str(shm / "data"),)), CountingDisk()) == in_page_cache < BATCHES


async def test_a_system_that_cannot_tell_what_is_cached_serves_fetches(
    config: BrokerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as macOS: every read goes to a thread."""
    monkeypatch.delattr(os, "RWF_NOWAIT", raising=False)
    monkeypatch.setattr(page_cache, "NOWAIT", None)
    assert await fetch_all(config, CountingDisk()) >= BATCHES
