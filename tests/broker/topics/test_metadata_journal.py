"""The broker's own state: what it says after a restart, whatever cut it short."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.broker.topics import metadata_journal as module
from odradek.broker.topics.metadata_journal import PRODUCER_ID_BLOCK, Metadata, TopicRecord, UnknownMetadata
from odradek.storage.errors import StorageError
from odradek.storage.journal import Journal
from odradek.tests.support.disk import FaultyDisk, PowerCut

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
