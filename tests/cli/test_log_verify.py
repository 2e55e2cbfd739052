"""`odradek log verify` on a broker's data directory, sound, damaged, and in use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from odradek.broker import Broker, BrokerConfig
from odradek.cli import main
from odradek.storage.checkpoints import CLEAN_SHUTDOWN
from odradek.tests.support.raw import Raw, batch_of

SIZE = len(batch_of(b"x" * 20))


def verify(path: Path, *args: str) -> Result:
    return CliRunner().invoke(main, ["log", "verify", str(path), *args])


@pytest.fixture
def config(tmp_path: Path) -> BrokerConfig:
    return BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=(str(tmp_path / "data"),))


@pytest.fixture
async def data(config: BrokerConfig, tmp_path: Path) -> Path:
    """Two partitions of ten batches each, left by a clean stop."""
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 2)
        for _ in range(10):
            for index in range(2):
                await raw.produce("t", batch_of(b"x" * 20), index)
    return tmp_path / "data"


def log_of(data: Path, index: int) -> Path:
    return data / f"t-{index}" / f"{0:020d}.log"


def damage(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(b"\xff\xff")


def contents(data: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in data.rglob("*") if path.is_file() and path.name != ".lock"}


async def test_a_sound_directory_is_status_0_and_untouched(data: Path) -> None:
    before = contents(data)
    for path in (data, data / "t-1"):
        result = verify(path)
        assert (result.exit_code, result.stdout) == (0, "")
    assert "2 partitions, " in verify(data).stderr and "nothing found" in verify(data).stderr
    assert contents(data) == before


async def test_what_is_damaged_is_a_row_and_status_1(data: Path) -> None:
    damage(log_of(data, 1), 2 * SIZE + 30)
    damage(log_of(data, 0).with_suffix(".timeindex"), 0)
    before = contents(data)
    result = verify(data, "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 1
    assert [(row["file"], row["position"], row["size"], row["at_start"]) for row in rows] == [
        (str(log_of(data, 0).with_suffix(".timeindex")), 0, 12, "built again"),
        (str(log_of(data, 1)), 2 * SIZE, SIZE, "stays, and is refused to readers"),
    ]
    assert verify(data / "t-1").stdout.count("\n") == 1
    assert contents(data) == before


async def test_a_repair_cuts_the_tail_and_says_so(data: Path, config: BrokerConfig) -> None:
    with log_of(data, 0).open("ab") as file:
        file.write(b"torn by a power cut")
    log_of(data, 1).with_suffix(".timeindex").unlink()
    assert verify(data).exit_code == 1
    result = verify(data, "--repair")
    assert result.exit_code == 0
    assert f"{log_of(data, 0)}: cut at {10 * SIZE}, 19 bytes taken off" in result.stderr
    assert verify(data).exit_code == 0
    assert (data / CLEAN_SHUTDOWN).exists()
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert (await raw.produce("t", batch_of(b"x"))).base_offset == 10


async def test_damage_that_no_repair_mends_stays_status_1(data: Path) -> None:
    damage(log_of(data, 1), 2 * SIZE + 30)
    before = log_of(data, 1).read_bytes()
    result = verify(data, "--repair")
    assert result.exit_code == 1
    assert "1 of them stay" in result.stderr
    assert log_of(data, 1).read_bytes() == before


@pytest.mark.parametrize("option", [[], ["--repair"]])
async def test_a_directory_that_a_broker_uses_is_refused(data: Path, config: BrokerConfig, option: list[str]) -> None:
    async with Broker(config):
        for path in (data, data / "t-0"):
            result = verify(path, *option)
            assert result.exit_code == 1
            assert "stop the broker first" in result.stderr and result.stderr.count("\n") == 1


def test_what_is_no_such_directory_is_refused_in_a_line(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        result = verify(path)
        assert result.exit_code == 1
        assert result.stderr.startswith("odradek: ") and result.stderr.count("\n") == 1


async def test_a_folder_without_its_data_directory_loses_nothing_of_closed_segments(data: Path, tmp_path: Path) -> None:
    folder = (data / "t-0").rename(tmp_path / "t-0")
    assert verify(folder).exit_code == 0
    with (folder / f"{0:020d}.log").open("ab") as file:
        file.write(b"torn")
    assert verify(folder, "--repair").exit_code == 0
    assert verify(folder).exit_code == 0
    assert (folder / f"{0:020d}.log").stat().st_size == 10 * SIZE
