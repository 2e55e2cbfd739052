"""Fetches from a file system in memory, and on a system that cannot tell what is cached."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.storage import system_calls
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.disks.ruled_disk import RuledDisk

BATCHES = 20


@pytest.fixture
def shm() -> Iterator[Path]:
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("/dev/shm is not there")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)


async def fetch_all(config: BrokerConfig) -> int:
    """Write and fetch batches one by one; return how many reads of that might have waited."""
    asked = Counter[str]()
    disk = RuledDisk(lambda operation, _: asked.update([operation]))
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", segment_bytes=str(1 << 20))
        for at in range(BATCHES):
            assert (await raw.produce("t", batch_of(b"%d" % at + bytes(100_000)))).error_code == 0
        before = asked["read"]
        for at in range(BATCHES):
            fetched = await raw.fetch("t", at)
            assert fetched.error_code == 0
            assert b"%d" % at + bytes(100_000) in bytes(fetched.records)
        return asked["read"] - before


async def test_a_fetch_from_tmpfs_waits_no_more_than_one_from_the_page_cache(
    config: BrokerConfig, shm: Path, on_disk: Path
) -> None:
    in_page_cache = await fetch_all(replace(config, log_dirs=(str(on_disk / "data"),)))
    assert await fetch_all(replace(config, log_dirs=(str(shm / "data"),))) == in_page_cache < BATCHES


async def test_a_system_that_cannot_tell_what_is_cached_serves_fetches(
    config: BrokerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as macOS: every read goes to a thread."""
    monkeypatch.delattr(os, "RWF_NOWAIT", raising=False)
    monkeypatch.setattr(system_calls, "NOWAIT", None)
    assert await fetch_all(config) >= BATCHES
