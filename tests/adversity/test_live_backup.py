"""A backup of a running broker under load: everything in it is of one moment, whatever comes and goes meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest
from odradek.broker import Broker
from odradek.protocol.errors import KafkaError
from odradek.storage.backup import restore
from odradek.storage.backup_places import BackupError
from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.histories.backup_load import Load, back_up, check, config_of
from odradek.tests.support.seeds import IS_SOAK, seeds
from odradek.tests.support.waiting import until

SEEDS = seeds([0], range(20))
TIMES = 3 if IS_SOAK else 1
# A backup copies some thirty pieces; beyond them it is not disturbed.
MAX_CHUNKS = 40
# What the broker of the load has other than by default.
SETTINGS = (
    "group_initial_rebalance_delay_ms", "offsets_topic_num_partitions", "transaction_state_log_num_partitions",
    "log_cleaner_backoff_ms", "log_retention_check_interval_ms",
)  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_backup_under_load_is_of_one_moment(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    async with Broker(config_of(tmp_path / "data")) as broker:
        load = Load(broker.address, random)
        writing = asyncio.ensure_future(load.run())
        turns: list[tuple[int, int]] = []
        try:
            for number in range(TIMES):
                await _until(load, load.done + random.randrange(10, 40), writing)
                before = load.done
                await back_up(broker.address, tmp_path / f"backup-{number}")
                turns.append((before, load.done + 1))
        finally:
            load.stopping.set()
            await writing
    assert not [each for each in (tmp_path / "data").iterdir() if each.name.startswith("backup.")]
    for number, (at_least, at_most) in enumerate(turns):
        await check(tmp_path / f"backup-{number}", tmp_path / f"restored-{number}", at_least, at_most)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_kill_under_a_backup_leaves_it_whole_or_none(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    settings = {name: value for name, value in asdict(config_of(tmp_path)).items() if name in SETTINGS}
    process = BrokerProcess(tmp_path, **settings)
    process.start()
    load = Load(process.address, random)
    writing = asyncio.ensure_future(load.run())
    turns: list[tuple[int, int, int]] = []
    try:
        for number in range(TIMES):
            await _until(load, load.done + random.randrange(10, 40), writing)
            before, fatal = load.done, random.randrange(MAX_CHUNKS)
            try:
                await back_up(process.address, tmp_path / f"backup-{number}", _KillAt(process, fatal))
            except KafkaError:
                # The start has removed what was to be copied.
                with pytest.raises(BackupError, match="no whole backup"):
                    restore(tmp_path / f"backup-{number}", [tmp_path / "none"], lambda _: None)
                assert not (tmp_path / "none").exists()
            else:
                turns.append((number, before, load.done + 1))
        await back_up(process.address, tmp_path / "last")
    finally:
        load.stopping.set()
        await writing
        process.kill()
    for number, at_least, at_most in turns:
        await check(tmp_path / f"backup-{number}", tmp_path / f"restored-{number}", at_least, at_most)
    await check(tmp_path / "last", tmp_path / "restored-last", 0, load.done + 1)


class _KillAt:
    """Kills the broker and starts it again when so many pieces are copied."""

    def __init__(self, process: BrokerProcess, fatal: int) -> None:
        self._process, self._left = process, fatal

    def __call__(self, size: int) -> None:
        self._left -= 1
        if self._left == 0:
            self._process.kill()
            self._process.start()


async def _until(load: Load, turns: int, writing: asyncio.Future[None]) -> None:
    await until(lambda: load.done >= turns or writing.done())
    if writing.done():
        writing.result()
