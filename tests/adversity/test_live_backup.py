"""A backup of a running broker under load: everything in it is of one moment, whatever comes and goes meanwhile."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from random import Random

import pytest
from odradek.broker import Broker
from odradek.tests.support.backup_load import Load, back_up, check, config_of

# `make soak` tries twenty.
SEEDS = range(int(os.environ.get("ODRADEK_BACKUP_SEEDS", "1")))


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_backup_under_load_is_of_one_moment(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    async with Broker(config_of(tmp_path / "data")) as broker:
        load = Load(broker.address, random)
        writing = asyncio.ensure_future(load.run())
        turns: list[tuple[int, int]] = []
        try:
            for number in range(3):
                await _until(load, load.done + random.randrange(20, 80), writing)
                before = load.done
                await back_up(broker.address, tmp_path / f"backup-{number}")
                turns.append((before, load.done + 1))
        finally:
            load.stopping.set()
            await writing
    assert not [each for each in (tmp_path / "data").iterdir() if each.name.startswith("backup.")]
    for number, (at_least, at_most) in enumerate(turns):
        await check(tmp_path / f"backup-{number}", tmp_path / f"restored-{number}", at_least, at_most)


async def _until(load: Load, turns: int, writing: asyncio.Future[None]) -> None:
    while load.done < turns and not writing.done():
        await asyncio.sleep(0.001)
    if writing.done():
        writing.result()
