"""An unmounted disk is not taken for a new data directory, and an operator can say that it is lost."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig, StartError
from odradek.protocol.errors import ErrorCode
from odradek.storage import checkpoints
from odradek.storage.journal import Journal
from odradek.tests.support.clients.raw import Raw, batch_of


@pytest.fixture
def dirs(tmp_path: Path) -> list[Path]:
    return [tmp_path / name for name in "abc"]


@pytest.fixture
async def config(config: BrokerConfig, dirs: list[Path]) -> BrokerConfig:
    """Three directories with a record in each of six partitions, and a clean stop."""
    config = replace(config, log_dirs=tuple(map(str, dirs)))
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 6)
        for index in range(6):
            await raw.produce("t", batch_of(b"x"), partition=index)
    return config


def unmount(path: Path, mount_point: str) -> Path:
    """Leave of a directory what is there without its disk. Return where its files are now."""
    away = path.with_name("away")
    path.rename(away)
    if mount_point == "empty":
        path.mkdir()
    elif mount_point == "lost+found":
        (path / "lost+found").mkdir(parents=True)
    return away


async def start_error(config: BrokerConfig) -> str:
    with pytest.raises(StartError) as caught:
        await Broker(config).start()
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def watermarks(config: BrokerConfig) -> list[int]:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        return [(await raw.fetch("t", 0, partition=index)).high_watermark for index in range(6)]


def forget_directories(path: Path) -> None:
    """Make the journal one of an earlier version, which knows no directories."""
    journal = Journal.open(path, "metadata")
    records = [{**each, "directories": {}} if each["type"] == "cluster" else each for each in journal.records]
    journal.snapshot(records)
    journal.close()


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("mount_point", ["none", "empty", "lost+found"])
async def test_the_mount_point_of_a_missing_disk_is_refused_and_left_as_it_was(
    config: BrokerConfig, dirs: list[Path], mount_point: str, is_known: bool
) -> None:
    if not is_known:
        forget_directories(dirs[0])
    away = unmount(dirs[1], mount_point)
    before = sorted(dirs[1].rglob("*"))
    line = await start_error(config)
    assert f"2 partitions (t-1, t-4) are in none of log.dirs, and the disk of {dirs[1]} is not there: mount it" in line
    assert sorted(dirs[1].rglob("*")) == before
    assert dirs[1].exists() is (mount_point != "none")
    shutil.rmtree(dirs[1], ignore_errors=True)
    away.rename(dirs[1])
    assert await watermarks(config) == [1] * 6


async def test_a_directory_that_log_dirs_no_longer_names_is_reported_as_missing(
    config: BrokerConfig, dirs: list[Path]
) -> None:
    fewer = replace(config, log_dirs=(str(dirs[0]), str(dirs[2])))
    assert f"the disk of {dirs[1]} is not there" in await start_error(fewer)
    assert await watermarks(config) == [1] * 6


async def test_an_old_directory_below_the_mount_point_does_not_replace_the_disk(
    config: BrokerConfig, dirs: list[Path]
) -> None:
    """A broker has started there before the disk was mounted: its meta.properties names the right cluster."""
    away = unmount(dirs[1], "empty")
    meta = checkpoints.read_meta_properties(dirs[0])
    assert meta is not None
    checkpoints.write_meta_properties(dirs[1], replace(meta, directory_id="of-the-mount-point"))
    assert f"the disk of {dirs[1]} is not there" in await start_error(config)
    shutil.rmtree(dirs[1])
    away.rename(dirs[1])
    assert await watermarks(config) == [1] * 6


async def test_a_moved_directory_is_known_by_its_id(config: BrokerConfig, dirs: list[Path]) -> None:
    moved = dirs[1].rename(dirs[1].with_name("moved"))
    assert await watermarks(replace(config, log_dirs=(str(dirs[0]), str(moved), str(dirs[2])))) == [1] * 6


async def test_a_new_directory_may_be_added(config: BrokerConfig, dirs: list[Path]) -> None:
    more = dirs[0].with_name("d")
    assert await watermarks(replace(config, log_dirs=(*config.log_dirs, str(more)))) == [1] * 6
    assert checkpoints.read_meta_properties(more) is not None


async def test_an_empty_directory_may_be_removed(config: BrokerConfig, dirs: list[Path]) -> None:
    more = dirs[0].with_name("d")
    await watermarks(replace(config, log_dirs=(*config.log_dirs, str(more))))
    assert await watermarks(config) == [1] * 6


async def test_an_operator_replaces_a_lost_disk(config: BrokerConfig, dirs: list[Path]) -> None:
    shutil.rmtree(dirs[1])
    await start_error(config)
    dirs[1].mkdir()
    shutil.copy(dirs[0] / checkpoints.META_PROPERTIES, dirs[1])
    assert sorted(await watermarks(config)) == [0, 0, 1, 1, 1, 1]
    ids = [meta.directory_id for each in dirs if (meta := checkpoints.read_meta_properties(each)) is not None]
    assert len(set(ids)) == 3
    # From now on it is missed like any other.
    unmount(dirs[1], "empty")
    assert f"the disk of {dirs[1]} is not there" in await start_error(config)


async def test_a_directory_that_was_offline_meanwhile_is_still_known(config: BrokerConfig, dirs: list[Path]) -> None:
    away = unmount(dirs[1], "none")
    dirs[1].write_bytes(b"")  # no directory: it is offline
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert (await raw.fetch("t", 0, partition=1)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    dirs[1].unlink()
    assert f"the disk of {dirs[1]} is not there" in await start_error(config)
    away.rename(dirs[1])
    assert await watermarks(config) == [1] * 6


async def test_a_new_topic_that_a_crash_cut_short_is_finished_with_a_new_directory(
    config: BrokerConfig, dirs: list[Path]
) -> None:
    shutil.rmtree(dirs[1] / "t-1")
    more = dirs[0].with_name("d")
    # Offset 0 of the one that was lost had been given away, as the checkpoint knows: its log begins behind it.
    assert sorted(await watermarks(replace(config, log_dirs=(*config.log_dirs, str(more))))) == [-1, 1, 1, 1, 1, 1]


async def test_a_directory_without_an_id_gets_one(config: BrokerConfig, dirs: list[Path]) -> None:
    """Brokers that wrote no ids yet left such directories; who reads a leader's files asks whose they are."""
    meta = checkpoints.read_meta_properties(dirs[0])
    assert meta is not None
    checkpoints.write_meta_properties(dirs[0], replace(meta, directory_id=""))
    assert await watermarks(config) == [1] * 6
    again = checkpoints.read_meta_properties(dirs[0])
    assert again is not None
    assert len(again.directory_id) == 22
