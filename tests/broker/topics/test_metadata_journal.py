"""The broker's own state: what it says after a restart, whatever cut it short."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.log_dirs.data_dir import StartError
from odradek.broker.topics import metadata_journal as module
from odradek.broker.topics.metadata_journal import PRODUCER_ID_BLOCK, Metadata, TopicRecord, UnknownMetadata
from odradek.storage import checkpoints
from odradek.storage.errors import StorageError
from odradek.storage.journal import Journal
from odradek.storage.known_logs import CleanStop
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.disks.disk import FaultyDisk, PowerCut

ID = b"\x07" * 16


def state(metadata: Metadata) -> tuple[object, ...]:
    return metadata.cluster_id, metadata.leader_epoch, dict(metadata.topics), dict(metadata.broker_configs)


def change(metadata: Metadata, step: int) -> None:
    """One of many changes, told apart by their number."""
    match step % 5:
        case 0:
            metadata.put_topic(TopicRecord(f"t{step}", ID, step + 1, {"segment.ms": str(step)}))
        case 1:
            metadata.raise_leader_epoch()
        case 2:
            metadata.put_topic(TopicRecord("often", ID, step, {}))
        case 3:
            metadata.put_broker_configs("" if step % 3 else "1", {"message.max.bytes": str(step)} if step % 4 else {})
        case _:
            metadata.delete_topic(f"t{step - 4}")


def test_topics_configs_and_ids_survive_a_restart(tmp_path: Path) -> None:
    first = Metadata(tmp_path)
    first.set_cluster_id("here")
    for step in range(10):
        change(first, step)
    first.close()
    again = Metadata(tmp_path)
    assert state(again) == state(first)
    assert again.leader_epoch == 2
    assert again.topics["often"].partitions == 7
    again.close()


def test_snapshots_keep_the_journal_short_and_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SNAPSHOT_RECORDS", 7)
    first = Metadata(tmp_path)
    first.set_cluster_id("here")
    for step in range(100):
        change(first, step)
        again_size = sum(each.stat().st_size for each in tmp_path.glob("*.journal"))
        assert again_size < 1000
    next_id = first.new_producer_id()
    again = Metadata(tmp_path)
    assert state(again) == state(first)
    assert again.new_producer_id() > next_id
    assert len(list(tmp_path.iterdir())) == 2


def test_producer_ids_are_never_given_twice(tmp_path: Path) -> None:
    given: list[int] = []
    for count in (1, PRODUCER_ID_BLOCK - 1, PRODUCER_ID_BLOCK, PRODUCER_ID_BLOCK + 1, 3):
        metadata = Metadata(tmp_path)
        given += [metadata.new_producer_id() for _ in range(count)]
    assert len(set(given)) == len(given)
    assert given == sorted(given)


def test_producer_ids_cost_a_write_a_block(tmp_path: Path) -> None:
    disk = FaultyDisk()
    metadata = Metadata(tmp_path, disk)
    metadata.new_producer_id()
    before = disk.steps
    for _ in range(PRODUCER_ID_BLOCK - 1):
        metadata.new_producer_id()
    assert disk.steps == before


def test_a_power_cut_at_any_step_leaves_the_state_before_or_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SNAPSHOT_RECORDS", 4)
    disk = FaultyDisk()
    metadata = Metadata(tmp_path / "whole", disk)
    states = [state(metadata)]
    begun = disk.steps
    for step in range(10):
        change(metadata, step)
        states.append(state(metadata))
    for cut in {*disk.marks, disk.steps - 1}:
        if cut < begun:
            continue
        disk = FaultyDisk()
        metadata = Metadata(tmp_path / str(cut), disk)
        disk.stop_after(cut - begun)
        done = 0
        with pytest.raises(PowerCut):
            for step in range(10):
                change(metadata, step)
                done += 1
        disk.lose(seed=cut)
        assert state(Metadata(tmp_path / str(cut), disk)) in states[done : done + 2]


def test_a_full_disk_refuses_the_change_and_takes_the_next(tmp_path: Path) -> None:
    disk = FaultyDisk()
    metadata = Metadata(tmp_path, disk)
    metadata.put_topic(TopicRecord("a", ID, 1))
    disk.room_bytes = 10
    with pytest.raises(StorageError, match="No space left"):
        metadata.put_topic(TopicRecord("b", ID, 1))
    assert list(metadata.topics) == ["a"]
    disk.room_bytes = None
    metadata.put_topic(TopicRecord("c", ID, 1))
    assert list(Metadata(tmp_path, disk).topics) == ["a", "c"]


def test_a_snapshot_that_fails_fails_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SNAPSHOT_RECORDS", 3)
    disk = FaultyDisk()
    metadata = Metadata(tmp_path, disk)
    metadata.put_topic(TopicRecord("a", ID, 1))
    metadata.put_topic(TopicRecord("b", ID, 1))
    disk.room_bytes = 100  # the third record fits, a snapshot of all does not
    metadata.put_topic(TopicRecord("c", ID, 1))
    disk.room_bytes = None
    for step in range(5):
        change(metadata, step)
    assert state(Metadata(tmp_path, disk)) == state(metadata)


def test_after_a_failed_fsync_every_change_is_rejected(tmp_path: Path) -> None:
    disk = FaultyDisk()
    metadata = Metadata(tmp_path, disk)
    disk.fsync_fails = True
    with pytest.raises(StorageError):
        metadata.put_topic(TopicRecord("a", ID, 1))
    disk.fsync_fails = False
    with pytest.raises(StorageError, match="no more writes"):
        metadata.put_topic(TopicRecord("b", ID, 1))
    assert metadata.topics == {}


def test_a_record_of_a_newer_odradek_stops_the_start(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, "metadata")
    journal.append([{"type": "tiered_topic", "name": "x"}])
    journal.close()
    with pytest.raises(UnknownMetadata, match="tiered_topic"):
        Metadata(tmp_path)


# -- after a clean stop


@pytest.fixture
def stopped(config: BrokerConfig, tmp_path: Path) -> tuple[Path, int, bytes]:
    """Stop a broker with a topic; return its journal, where the last frame begins, and its content."""
    data = tmp_path / "data"

    async def run() -> int:
        async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
            before = (data / "metadata-0000000000.journal").stat().st_size
            await raw.create_topic("flights")
            return before

    begin = asyncio.run(run())
    path = data / "metadata-0000000000.journal"
    return path, begin, path.read_bytes()


def damages(whole: bytes, begin: int) -> Iterator[bytes]:
    """Yield the journal with each bit of the last frame's head flipped, some of its payload, zeros, and cut."""
    for position in [*range(begin, begin + 8), *range(begin + 8, len(whole), 17)]:
        for bit in range(8):
            yield whole[:position] + bytes([whole[position] ^ 1 << bit]) + whole[position + 1 :]
    yield whole[:begin] + bytes(len(whole) - begin)
    for size in (0, 4, begin, begin + 5, len(whole) - 1):
        yield whole[:size]


def test_no_damage_after_a_clean_stop_is_taken_for_a_torn_end(
    config: BrokerConfig, tmp_path: Path, stopped: tuple[Path, int, bytes]
) -> None:
    path, begin, whole = stopped
    marker = (tmp_path / "data" / ".kafka_cleanshutdown").read_bytes()
    for damaged in damages(whole, begin):
        path.write_bytes(damaged)
        # A second start is refused as well: the first has not forgotten the clean stop.
        for _ in range(2):
            with pytest.raises(StartError, match=r"metadata-0000000000\.journal.*the last stop was clean and left"):
                asyncio.run(Broker(config).start())
        assert (path.read_bytes(), (path.parent / ".kafka_cleanshutdown").read_bytes()) == (damaged, marker)
    path.write_bytes(whole)
    assert "flights" in topics_of(config)


def test_what_the_error_advises_gives_the_last_change_up(
    config: BrokerConfig, stopped: tuple[Path, int, bytes]
) -> None:
    path, begin, whole = stopped
    path.write_bytes(whole[:begin])
    (path.parent / ".kafka_cleanshutdown").unlink()
    assert topics_of(config) == []


def test_a_journal_that_is_gone_after_a_clean_stop_is_missed(
    config: BrokerConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "SNAPSHOT_RECORDS", 2)
    assert topics_of(config) == []
    data = tmp_path / "data"
    for each in data.glob("metadata-*"):
        each.unlink()
    with pytest.raises(StartError, match="the last stop was clean and left"):
        asyncio.run(Broker(config).start())


def test_the_marker_of_an_earlier_version_has_no_end_to_check(
    config: BrokerConfig, stopped: tuple[Path, int, bytes]
) -> None:
    path, _, whole = stopped
    checkpoints.write_clean_shutdown(path.parent, CleanStop({}))
    assert topics_of(config) == ["flights"]
    assert path.read_bytes().startswith(whole)


def topics_of(config: BrokerConfig) -> list[str]:
    async def run() -> list[str]:
        async with Broker(config) as broker:
            return list(broker.services.metadata.topics)

    return asyncio.run(run())
