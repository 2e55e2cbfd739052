"""Upkeep of an archive: what a check finds, what compaction keeps, and which files expiry may delete."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="pip install 'odradek[archive]'")

from odradek.client.archive import ArchiveError, upkeep
from odradek.client.archive.check import check
from odradek.client.archive.data_files import each_file, files_of
from odradek.client.archive.run import Archiver
from odradek.client.archive.state import state_of
from odradek.tests.support.clients.archive_world import World, data_files, files_in, offsets_in, whole
from odradek.tests.support.fakes.faulty_catalog import FaultyCatalog
from pyiceberg import table as table_module
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.snapshots import Operation


def archived(world: World, catalog: Any, topic: str, commits: int, *, new: bool = True) -> Archiver:
    """Archive a topic of two partitions in so many commits, of one record a partition each."""
    archiver = world.archiver(catalog, topic)
    for number in range(commits):
        world.fill(topic, 2, partitions=2, new=new and number == 0)
        assert archiver.round().is_committed
    return archiver


def test_a_check_names_offsets_that_are_there_twice(world: World, catalog: Any) -> None:
    archiver = archived(world, catalog, "twice", 2)
    table = catalog.load_table(archiver.name)
    table.add_files([min(files_in(table))], check_duplicate_files=False)
    assert any("is there 2 times" in each for each in check(catalog.load_table(archiver.name)))


def test_compaction_keeps_rows_and_state(world: World, catalog: Any) -> None:
    archiver = archived(world, catalog, "small", 5)
    state = state_of(catalog.load_table(archiver.name))
    assert upkeep.compact(catalog, archiver.name, min_files=3) == 10
    table = catalog.load_table(archiver.name)
    assert len(files_in(table)) == 2 and offsets_in(table) == whole(2, 5)
    assert state_of(table) == state
    assert list(check(table)) == []
    assert upkeep.compact(catalog, archiver.name, min_files=3) == 0
    world.fill("small", 2, partitions=2, new=False)
    assert archiver.round().rows == 2
    assert upkeep.compact(catalog, archiver.name, min_files=2) == 4, "compacted files are compacted again"
    assert offsets_in(catalog.load_table(archiver.name)) == whole(2, 6)


def test_a_compaction_takes_few_files_at_a_time(world: World, catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is in memory. Where none can be joined, the manifests are read once, whatever there is."""
    monkeypatch.setattr(upkeep, "_COMPACTED_FILES", 2)
    archiver = archived(world, catalog, "by-turns", 4)
    sizes = [each.entry.file_size_in_bytes for each in files_of(catalog.load_table(archiver.name))]
    looks: list[Any] = []
    monkeypatch.setattr(upkeep, "each_file", lambda table: looks.append(table) or each_file(table))
    assert upkeep.compact(catalog, archiver.name, min_files=3, target_bytes=5 * max(sizes) // 2) == 0 < len(looks) < 2
    assert upkeep.compact(catalog, archiver.name, min_files=2, target_bytes=3 * max(sizes)) == 2
    left = [7, 6, 5, 4, 3, 2]
    for files in left:
        table = catalog.load_table(archiver.name)
        assert offsets_in(table) == whole(2, 4) and not list(check(table))
        assert len(files_in(table)) == files
        assert upkeep.compact(catalog, archiver.name, min_files=2) == (2 if files > 2 else 0)


def test_a_compaction_that_comes_second_changes_nothing(world: World, catalog: Any) -> None:
    archiver = archived(world, catalog, "second", 3)
    world.fill("second", 2, partitions=2, new=False)
    faulty = FaultyCatalog(catalog)
    faulty.before = archiver.round
    assert upkeep.compact(faulty, archiver.name, min_files=2) == 0
    assert offsets_in(catalog.load_table(archiver.name)) == whole(2, 4)


def test_expiry_deletes_what_no_snapshot_names(world: World, catalog: Any, tmp_path: Path) -> None:
    archiver = archived(world, catalog, "expired", 4)
    upkeep.compact(catalog, archiver.name, min_files=2)
    assert len(data_files(tmp_path)) == 10
    assert upkeep.expire(catalog, archiver.name, keep_ms=-1, keep_snapshots=1)[0] == 4
    table = catalog.load_table(archiver.name)
    assert {str(each) for each in data_files(tmp_path)} == {each.removeprefix("file://") for each in files_in(table)}
    assert len(table.metadata.snapshots) == 1 and offsets_in(table) == whole(2, 4)
    assert len(list(tmp_path.rglob("snap-*.avro"))) == 1, "metadata stay flat"
    world.fill("expired", 2, partitions=2, new=False)
    assert archiver.round().rows == 2
    assert upkeep.expire(catalog, archiver.name, keep_snapshots=1) == (0, 0), "readers of the last day stay"


def test_a_day_of_commits_keeps_few_snapshots_and_each_file_for_a_day() -> None:
    """A commit a minute, and a compaction each 100: what it replaced stays, and appends go soon."""
    kinds = [Operation.OVERWRITE if at % 100 == 99 else Operation.APPEND for at in range(1_440)]
    snapshots = [
        SimpleNamespace(
            snapshot_id=at, parent_snapshot_id=at - 1, sequence_number=at, timestamp_ms=60_000 * at,
            summary=SimpleNamespace(operation=kind),
        )
        for at, kind in enumerate(kinds)
    ]  # fmt: skip
    metadata = SimpleNamespace(snapshots=snapshots, refs={"main": snapshots[-1]})
    gone = {each.snapshot_id for each in upkeep._old(metadata, 0, 10)}
    kept = [at for at in range(1_440) if at not in gone]
    assert kept == sorted({*range(1_430, 1_440), *(at for at in range(1_430) if at % 100 >= 98)})


def test_archivers_that_end_after_each_commit_keep_their_table_up(
    world: World, catalog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_COMMITS", 2)
    expired: list[int] = []
    monkeypatch.setattr(upkeep, "expire", lambda *_: expired.append(number))
    for number in range(4):
        upkeep.keep_up(archived(world, catalog, "by-cron", 1, new=not number))
    assert expired == [1, 3]


def test_a_commit_copies_the_metadata_a_few_times(world: World, catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy has every snapshot: with 20 of them each commit a day's last one took seconds."""
    archiver = archived(world, catalog, "copied", 1)
    world.fill("copied", 2, partitions=2, new=False)
    copies, plain = [0], table_module.update_table_metadata

    def counted(*request: Any, **options: Any) -> Any:
        copies[0] += 1
        return plain(*request, **options)

    monkeypatch.setattr(table_module, "update_table_metadata", counted)
    assert archiver.round().is_committed
    assert 0 < copies[0] <= 4
    for _ in range(4):
        world.fill("copied", 2, partitions=2, new=False)
        archiver.round()
    copies[0] = 0
    assert upkeep.expire(catalog, archiver.name, keep_snapshots=1)[0] == 5
    assert 0 < copies[0] <= 3, "and so does an expiry, however many snapshots go"


def test_expiry_deletes_left_over_files_only_once_no_commit_can_name_them(
    world: World, catalog: Any, tmp_path: Path
) -> None:
    world.fill("left-over", 4, partitions=2)
    faulty = FaultyCatalog(catalog)
    first, second = world.archiver(catalog, "left-over"), world.archiver(faulty, "left-over")

    def beside() -> None:
        first.round()
        assert len(data_files(tmp_path)) == 4

    faulty.before = beside
    assert second.round().is_overtaken
    foreign = data_files(tmp_path)[0].parent / "of-another-engine.parquet"
    foreign.write_bytes(b"")
    assert upkeep.expire(catalog, first.name) == (0, 2)
    table = catalog.load_table(first.name)
    assert len(files_in(table)) == 2 and offsets_in(table) == whole(2, 2)
    assert len(data_files(tmp_path)) == 3 and foreign.exists()


def test_expiry_keeps_the_files_of_another_table_at_the_same_location(world: World, catalog: Any) -> None:
    """A table that is renamed stays where it is, and the next one of its name is made there, too."""
    archiver = archived(world, catalog, "renamed", 2)
    upkeep.compact(catalog, archiver.name, min_files=2)
    old = ("odradek", "old")
    catalog.rename_table(archiver.name, old)
    assert archiver.round().rows == 4
    table, earlier = catalog.load_table(archiver.name), catalog.load_table(old)
    assert table.metadata.location == earlier.metadata.location
    assert upkeep.expire(catalog, archiver.name) == (0, 0)
    assert offsets_in(earlier) == offsets_in(table) == whole(2, 2)


def test_files_of_a_commit_that_is_under_way_stay(world: World, catalog: Any, tmp_path: Path) -> None:
    archiver = archived(world, catalog, "under-way", 1)
    world.fill("under-way", 2, partitions=2, new=False)
    faulty = FaultyCatalog(catalog)
    faulty.before = lambda: upkeep.expire(catalog, archiver.name, keep_ms=-1, keep_snapshots=1)
    assert world.archiver(faulty, "under-way").round().is_committed
    assert offsets_in(catalog.load_table(archiver.name)) == whole(2, 2)
    assert len(data_files(tmp_path)) == 4


@pytest.mark.parametrize("is_compaction", [False, True])
def test_a_commit_whose_snapshot_has_expired_comes_second(world: World, catalog: Any, is_compaction: bool) -> None:
    """A round may take so long that other archivers commit ten times, and expire what it began with."""
    topic = f"long-{is_compaction}"
    archiver = archived(world, catalog, topic, 2)
    world.fill(topic, 2, partitions=2, new=False)

    def others() -> None:
        assert archiver.round().is_committed
        upkeep.compact(catalog, archiver.name, min_files=2)
        upkeep.expire(catalog, archiver.name, keep_ms=-1, keep_snapshots=1)

    beside = FaultyCatalog(catalog)
    beside.beside = [others]
    if is_compaction:
        assert upkeep.compact(beside, archiver.name, min_files=2) == 0
    else:
        assert world.archiver(beside, topic).round().is_overtaken
    table = catalog.load_table(archiver.name)
    assert offsets_in(table) == whole(2, 3)
    Path(table.metadata.current_snapshot().manifest_list.removeprefix("file://")).unlink()
    world.fill(topic, 2, partitions=2, new=False)
    with pytest.raises(FileNotFoundError):  # of the head: that is no race
        archiver.round()


def test_an_expiry_beside_archivers_and_others_begins_again(
    world: World, catalog: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    archiver = archived(world, catalog, "expired-beside", 6)
    real = catalog.commit_table

    def archive() -> None:
        world.fill("expired-beside", 2, partitions=2, new=False)
        assert archiver.round().is_committed

    def lost(*request: Any, is_applied: bool = False) -> Any:
        """Another commit comes first, or so a proxy says."""
        monkeypatch.setattr(catalog, "commit_table", real)
        if is_applied:
            real(*request)
        archive()
        raise CommitFailedException("409")

    beside = FaultyCatalog(catalog)
    beside.beside = [
        lambda: upkeep.expire(catalog, archiver.name, keep_snapshots=2),
        lambda: monkeypatch.setattr(catalog, "commit_table", lost),
        lambda: monkeypatch.setattr(catalog, "commit_table", partial(lost, is_applied=True)),
    ]
    upkeep.expire(beside, archiver.name, keep_snapshots=1)
    assert caplog.text.count("came before the expiry, which begins again") == 3
    assert offsets_in(catalog.load_table(archiver.name)) == whole(2, 8)
    table = catalog.load_table(archiver.name)
    assert len(table.metadata.snapshots) == 1
    assert {f"file://{each}" for each in data_files(tmp_path)} == files_in(table)
    manifests = {each.manifest_path for each in table.metadata.current_snapshot().manifests(table.io)}
    assert {f"file://{each}" for each in tmp_path.rglob("*.avro")} == {
        *manifests, table.metadata.current_snapshot().manifest_list,
    }  # fmt: skip
    archive()
    monkeypatch.setattr(catalog, "commit_table", always)
    with pytest.raises(ArchiveError, match="come first all the time"):
        upkeep.expire(catalog, archiver.name, keep_snapshots=1)
    monkeypatch.setattr(upkeep, "_COMMITS", 1)
    monkeypatch.setattr(upkeep, "COMPACTS_EACH_MS", 1 << 62)
    monkeypatch.setattr(upkeep, "expire", partial(upkeep.expire, keep_snapshots=1))
    upkeep.keep_up(archiver)
    assert "nothing more is expired" in caplog.text, "the archiver goes on"


def always(*_: Any) -> None:
    """Another commit comes first each time."""
    raise CommitFailedException("409")
