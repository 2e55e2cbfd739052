"""`odradek log import` of what a real Kafka 4.3.1 wrote: golden/kafka-4.3.1/data.

Partition 0 of topic `kept`: offsets 0-9 plain, 10-14 zstd, 15 plain and committed (16), 17 aborted (18), 19-22 plain;
two segments; its log starts at 3. Partition 1: offsets 0-5.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from odradek.broker import Broker, BrokerConfig
from odradek.broker.topics.topic_import import Importer, plan
from odradek.cli import main
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.records.batch import decode_batch, iter_headers
from odradek.storage.checkpoints import (
    CLEANER_OFFSET,
    MetaProperties,
    read_offsets,
    read_partition_metadata,
    write_meta_properties,
    write_offsets,
)
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.disks.disk import FaultyDisk, PowerCut

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.3.1" / "data"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy that may be damaged."""
    return Path(shutil.copytree(GOLDEN, tmp_path / "kafka"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def config_of(data: Path) -> BrokerConfig:
    return BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=(str(data),))


def run(data: Path, *sources: Path) -> Result:
    return CliRunner().invoke(main, ["log", "import", "--data-dir", str(data), *map(str, sources)])


def rejection(data: Path, *sources: Path) -> str:
    result = run(data, *sources)
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith("odradek: ") and result.stderr.count("\n") == 1
    return result.stderr


async def records(raw: Raw, partition: int, start: int, **rest: int) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of all from `start` on; of markers too."""
    found: list[tuple[int, bytes | None, bytes | None]] = []
    offset = start
    while (answer := await raw.fetch("kept", offset, partition, **rest)).records:
        assert answer.error_code == 0
        data = bytes(answer.records)
        for position, header in iter_headers(data):
            found += [
                (each.offset, each.key, each.value) for each in decode_batch(data, position) if not header.is_control
            ]
            offset = header.next_offset
    return found


def sent(first: int, count: int, number: int) -> list[tuple[int, bytes, bytes]]:
    return [(first + n, b"key %d" % (number + n), b"value %d " % (number + n) * 3) for n in range(count)]


def test_kafkas_own_directory_is_no_place_to_import_to(source: Path) -> None:
    write_meta_properties(source, MetaProperties("cluster", 1, "directory"))
    before = sorted(source.rglob("*"))
    assert "lies in" in rejection(source, source)
    assert "no metadata of ours" in rejection(source, GOLDEN)
    assert sorted(source.rglob("*")) == before


def test_a_directory_is_not_imported_into_itself(data: Path, tmp_path: Path) -> None:
    assert run(data, GOLDEN).exit_code == 0
    before = {each: each.stat().st_mtime_ns for each in data.rglob("*.log")}
    (tmp_path / "link").symlink_to(data)
    for source in (data, data / "kept-0", data / "." / "kept-1", tmp_path / "link", tmp_path / "link" / "kept-0"):
        said = rejection(data, source)
        assert "the directory to import into" in said and "another data directory" in said
        assert "delete" not in said
    assert {each: each.stat().st_mtime_ns for each in data.rglob("*.log")} == before


async def test_a_kafkas_topics_are_served_with_their_offsets(data: Path) -> None:
    result = run(data, GOLDEN)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split("\t")[1:] for line in result.stdout.splitlines()] == [["3", "23"], ["0", "6"]]
    transactions = [(15, b"c", b"committed"), (17, b"a", b"aborted")]
    expected = [*sent(0, 15, 0)[3:], *transactions, *sent(19, 4, 1_000_000)]
    async with Broker(config_of(data)) as broker, await Raw.connect(broker.address) as raw:
        assert await records(raw, 0, 3) == expected
        assert await records(raw, 1, 0) == sent(0, 6, 100)
        assert (await raw.fetch("kept", 2)).error_code == 1
        (aborted,) = (await raw.fetch("kept", 16, isolation_level=1)).aborted_transactions
        assert aborted.first_offset == 17
        topic = broker.topics.get("kept")
        assert topic is not None and topic.id == read_partition_metadata(GOLDEN / "kept-0")
        assert (await raw.produce("kept", batch_of(b"new"))).base_offset == 23


async def test_a_new_producer_is_none_that_the_logs_know(data: Path) -> None:
    run(data, GOLDEN)
    async with Broker(config_of(data)) as broker, await Raw.connect(broker.address) as raw:
        known = [each for partition in broker.topics.partitions() for each, _ in partition.log.producers.items()]
        answer = await raw.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None, 1000))
        assert known and answer.producer_id > max(known)
        batch = batch_of(b"x", producer_id=answer.producer_id, producer_epoch=0, base_sequence=0)
        assert (await raw.produce("kept", batch)).base_offset == 23


async def test_a_directory_that_has_topics_gets_more(source: Path, data: Path) -> None:
    async with Broker(config_of(data)) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        await raw.produce("t", batch_of(b"mine"))
    assert run(data, source / "kept-1").exit_code == 0
    assert (data / ".kafka_cleanshutdown").exists()
    async with Broker(config_of(data)) as broker, await Raw.connect(broker.address) as raw:
        assert [len(each.partitions) for each in broker.topics.all()] == [2, 1]
        assert (await raw.fetch("t", 0)).records
        assert await records(raw, 1, 0) == sent(0, 6, 100)
        assert (await raw.produce("kept", batch_of(b"x"), 0)).base_offset == 0


def test_a_partition_without_a_folder_begins_empty_and_that_is_said(source: Path, data: Path) -> None:
    result = run(data, source / "kept-1")
    assert "kept: no folder for 0: begins empty there" in result.stderr


def test_a_torn_end_is_left_out_and_said(source: Path, data: Path) -> None:
    newest = source / "kept-0" / f"{16:020d}.log"
    whole = newest.stat().st_size
    with newest.open("ab") as file:
        file.write(bytes(100))
    result = run(data, source)
    assert result.exit_code == 0
    assert f"{newest}: 100 bytes from {whole} on are left out: zeros" in result.stderr
    assert newest.stat().st_size == whole + 100
    assert (data / "kept-0" / newest.name).stat().st_size == whole


def test_indexes_that_a_killed_kafka_leaves_are_built_again(source: Path, data: Path) -> None:
    for suffix in (".index", ".timeindex"):
        (source / "kept-0" / f"{16:020d}{suffix}").write_bytes(bytes(10 << 20))
        (source / "kept-0" / f"{0:020d}{suffix}").write_bytes(b"\x7f" * 24)
    assert run(data, source).exit_code == 0
    assert CliRunner().invoke(main, ["log", "verify", str(data)]).exit_code == 0
    assert (data / "kept-0" / f"{0:020d}.timeindex").stat().st_size < 100


def test_damage_refuses_all_and_leaves_nothing(source: Path, data: Path) -> None:
    path = source / "kept-0" / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[70] ^= 1
    path.write_bytes(content)
    assert f"{path} at 0: " in rejection(data, source / "kept-1", source / "kept-0")
    assert [each.name for each in data.iterdir() if each.is_dir()] == []
    assert run(data, source / "kept-1").exit_code == 0


def test_what_cannot_be_imported_is_refused_in_a_line(source: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "__consumer_offsets-3").mkdir()
    shutil.copytree(source / "kept-0", tmp_path / "__consumer_offsets-3", dirs_exist_ok=True)
    shutil.copytree(source / "kept-0", tmp_path / "again" / "kept-0")
    (tmp_path / "empty-0").mkdir()
    assert "is not a directory" in rejection(data, tmp_path / "missing")
    assert "no partition's folder" in rejection(data, tmp_path / "empty-0")
    assert "no partition's folder" in rejection(data, tmp_path)
    assert "belongs to the broker" in rejection(data, tmp_path / "__consumer_offsets-3")
    assert "are the same partition" in rejection(data, source / "kept-0", tmp_path / "again" / "kept-0")
    assert run(data, source).exit_code == 0
    assert "topic kept is there already" in rejection(data, source)


async def test_a_directory_in_use_is_refused(data: Path) -> None:
    async with Broker(config_of(data)):
        assert "in use by another process" in rejection(data, GOLDEN)


async def test_a_crash_at_any_step_leaves_all_or_nothing(tmp_path: Path) -> None:
    folders = [GOLDEN, shutil.copytree(next(GOLDEN.glob("kept-0")), tmp_path / "also-0")]
    counted = FaultyDisk()
    with Importer(tmp_path / "count", counted) as importer:
        importer.run(plan(folders), 0, lambda _: None, lambda _: None)
    seen: set[int] = set()
    for steps in (*range(0, counted.steps, 97), *range(counted.steps - 300, counted.steps + 1, 20)):
        data, disk = tmp_path / str(steps), FaultyDisk()
        disk.stop_after(steps)
        with suppress(PowerCut), Importer(data, disk) as importer:
            importer.run(plan(folders), 0, lambda _: None, lambda _: None)
        disk.kill()
        async with Broker(config_of(data)) as broker:
            ends = [partition.log.log_end_offset for partition in broker.topics.partitions()]
        assert ends in ([], [23, 23, 6])
        seen.add(len(ends))
        left = [each.name for each in data.iterdir() if each.is_dir() and not each.name.endswith("-stray")]
        assert sorted(left) == (["also-0", "kept-0", "kept-1"] if ends else [])
    assert seen == {0, 3}


async def test_an_import_forgets_how_far_a_deleted_topic_of_its_name_was_clean(source: Path, data: Path) -> None:
    async with Broker(config_of(data)):
        pass
    write_offsets(data / CLEANER_OFFSET, {("kept", 0): 5, ("other", 0): 5})
    assert run(data, source).exit_code == 0
    assert read_offsets(data / CLEANER_OFFSET) == {("other", 0): 5}
