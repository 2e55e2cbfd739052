"""`odradek log verify` on a broker's data directory, sound, damaged, and in use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from odradek.broker import Broker, BrokerConfig
from odradek.cli import main
from odradek.protocol.errors import ErrorCode
from odradek.storage.checkpoints import CLEAN_SHUTDOWN, CLEANER_OFFSET, LOG_START, RECOVERY_POINT
from odradek.storage.log import Log, LogConfig
from odradek.tests.storage.batches import append, batch
from odradek.tests.support.clients.raw import Raw, batch_of

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
    assert "2 partitions, " in verify(data).stderr and "no damage found" in verify(data).stderr
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
        (str(log_of(data, 1)), 2 * SIZE, SIZE, "stays, and is served"),
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


async def test_damage_that_no_repair_mends_is_written_down_and_reported_once(data: Path) -> None:
    damage(log_of(data, 1), 2 * SIZE + 30)
    damage(log_of(data, 0), 3 * SIZE + 8)
    before = [log_of(data, index).read_bytes() for index in range(2)]
    result = verify(data, "--repair")
    assert result.exit_code == 1
    assert "2 problems found, 2 cannot be repaired" in result.stderr
    again = verify(data, "--repair")
    assert (again.exit_code, again.stdout) == (0, "")
    assert "no new damage found, 2 found earlier and unchanged" in again.stderr
    # A check without repair names all that is wrong.
    result = verify(data)
    assert (result.exit_code, result.stdout.count("known, readers get an error")) == (1, 2)
    assert [log_of(data, index).read_bytes() for index in range(2)] == before
    damage(log_of(data, 1), 5 * SIZE + 30)
    result = verify(data, "--repair")
    assert (result.exit_code, result.stdout.count("\n")) == (1, 1)
    assert "1 new problem found, 1 cannot be repaired, 2 found earlier and unchanged" in result.stderr
    # Other bytes in the same place are no damage that is known.
    damage(log_of(data, 1), 2 * SIZE + 34)
    assert verify(data, "--repair").exit_code == 1


async def test_the_broker_names_what_a_repair_has_written_down(
    data: Path, config: BrokerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    path = log_of(data, 1)
    damage(path, 2 * SIZE + 30)
    for repaired in (False, True):
        if repaired:
            verify(data, "--repair")
        caplog.clear()
        async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
            errors = [(await raw.fetch("t", offset, 1)).error_code for offset in range(10)]
        # Only its CRC is wrong: without the repair the batch is served as it lies on the disk, as Kafka does.
        assert errors == [ErrorCode.CORRUPT_MESSAGE if repaired and offset == 2 else 0 for offset in range(10)]
        assert (f"{path} is damaged at {2 * SIZE}" in caplog.text) == repaired


@pytest.mark.parametrize(
    ("name", "at_start"),
    [
        (RECOVERY_POINT, "every log is checked from its start"),
        (LOG_START, "every log begins with its first segment"),
        (CLEANER_OFFSET, "every log is cleaned from its start"),
    ],
)
async def test_damaged_checkpoints_are_named_and_written_again(data: Path, name: str, at_start: str) -> None:
    path = data / name
    path.write_text("0\n7\n")
    result = verify(data)
    assert result.exit_code == 1
    assert f"{path}\t2\t" in result.stdout and at_start in result.stdout and "1 problem found" in result.stderr
    assert verify(data, "--repair").exit_code == 0
    assert verify(data).exit_code == 0


@pytest.mark.parametrize("points", ["0\n7\n", None], ids=["damaged", "lost"])
async def test_a_repair_of_one_partition_says_nothing_of_the_others_where_recovery_points_are_gone(
    data: Path, config: BrokerConfig, points: str | None
) -> None:
    (data / RECOVERY_POINT).unlink()
    if points is not None:
        (data / RECOVERY_POINT).write_text(points)
    (data / CLEAN_SHUTDOWN).unlink()
    damage(log_of(data, 1), 3 * SIZE + 8)
    assert verify(data / "t-0", "--repair").exit_code == 0
    # Power was cut: a partition that the file does not name would be one that was made since.
    (data / ".lock").write_text("pid 1\nan earlier boot\n")
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert (await raw.produce("t", batch_of(b"x"), 1)).base_offset == 10


async def test_gaps_are_announced_and_are_no_fault(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    log = Log.open(directory, LogConfig(segment_bytes=250), clean=False, now_ms=1000)
    for offset in (0, 1, 5, 6, 7, 20):
        append(log, batch(offset))
    log.close()
    result = verify(directory)
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"{directory}: no batch holds offset 2 up to 5, and there is 1 more such gap" in result.stderr


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
