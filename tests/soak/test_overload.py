"""Overload by seed: 5,000 connections, a hundred thousand joins, and many times more batches than the disk takes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from odradek.tests.adversity.test_overload import MIB, many_files, overload
from odradek.tests.support.brokers.overload import Overload

__all__ = ["many_files"]
pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])


@pytest.mark.parametrize("seed", range(5))
async def test_much_more_than_a_broker_can_take(tmp_path: Path, seed: int) -> None:
    load = Overload(connections=5_000, producers=400, joins=1_000, rounds=10, seed=seed)
    await overload(tmp_path, load, fsync_s=0.05, memory_bytes=1_000 * MIB)


async def test_a_hundred_thousand_joins(tmp_path: Path) -> None:
    """ODRADEK_SOAK_JOINS says how many, 100,000 by default."""
    members = 500
    joins = int(os.environ.get("ODRADEK_SOAK_JOINS", "100000"))
    load = Overload(connections=5_000, producers=50, joins=members, rounds=10, seed=9, rejoins=joins // members - 2)
    await overload(tmp_path, load, fsync_s=0.05, memory_bytes=500 * MIB)
    assert load.joined.total() == joins
