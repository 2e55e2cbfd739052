"""An archiver over a broker: each committed record once, and words where a table and a topic do not fit."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="pip install 'odradek[archive]'")

import pyarrow.parquet as pq
from odradek.client import Admin, NewTopic, Producer
from odradek.client.archive import ArchiveError, errors_of_place, run
from odradek.client.archive.parquet_files import parsed_name
from odradek.client.archive.places import catalog_of
from odradek.client.archive.state import state_of
from odradek.client.archive.status import partitions_of
from odradek.client.arrow.brokers import Brokers
from odradek.client.arrow.fetch import OffsetRange
from odradek.client.core.metadata import ClusterView
from odradek.client.errors import InvalidOption, KafkaError, RequestTimedOut, UnknownTopic
from odradek.client.record import LATEST, TopicPartition
from odradek.tests.support.clients.archive_world import World, data_files, files_in, offsets_in, whole


def test_rounds_take_what_is_new(world: World, catalog: Any) -> None:
    world.fill("rounds", 30, partitions=3)
    archiver = world.archiver(catalog, "rounds")
    first = archiver.round()
    assert (first.rows, first.files, first.lag, first.is_committed) == (30, 3, 0, True)
    assert not archiver.round().is_committed, "an empty round writes no snapshot"
    world.fill("rounds", 6, partitions=3, new=False)
    assert archiver.round().rows == 6
    table = catalog.load_table(archiver.name)
    assert offsets_in(table) == whole(3, 12)
    assert state_of(table).offsets == dict.fromkeys(range(3), 12)
    assert [each.summary["added-records"] for each in table.metadata.snapshots] == ["30", "6"]


def test_a_file_holds_one_partition_and_says_what_it_goes_on_from(world: World, catalog: Any) -> None:
    world.fill("named", 8, partitions=2)
    archiver = world.archiver(catalog, "named")
    archiver.round()
    for path in files_in(catalog.load_table(archiver.name)):
        name = parsed_name(path)
        assert name is not None and name.begin == 0
        rows = pq.read_table(path.removeprefix("file://"), columns=["partition", "offset"]).to_pydict()
        assert set(rows["partition"]) == {name.partition}
        assert rows["offset"] == sorted(rows["offset"])


def test_a_backlog_comes_in_several_commits(world: World, catalog: Any) -> None:
    world.fill("backlog", 40, partitions=4)
    archiver = world.archiver(catalog, "backlog", commit_bytes=1)
    lags = [archiver.round().lag for _ in range(4)]
    assert lags == [30, 20, 10, 0]
    assert offsets_in(catalog.load_table(archiver.name)) == whole(4, 10)


def test_a_stopped_round_commits_what_it_has_read(world: World, catalog: Any) -> None:
    world.fill("stopped", 40, partitions=4)
    archiver = world.archiver(catalog, "stopped")
    done: list[int] = []

    def stop(at: int, _: int) -> None:
        done.append(at)
        archiver.stop()

    assert archiver.round(stop).is_committed
    assert len(offsets_in(catalog.load_table(archiver.name))) == 1
    assert world.archiver(catalog, "stopped").round().lag == 0
    assert offsets_in(catalog.load_table(archiver.name)) == whole(4, 10)


def test_another_topic_of_the_same_name_is_rejected(world: World, catalog: Any) -> None:
    world.fill("again", 3)
    world.archiver(catalog, "again").round()
    world.admin(lambda admin: admin.delete_topics("again"))
    world.fill("again", 5)
    with pytest.raises(ArchiveError, match="an earlier topic 'again'"):
        world.archiver(catalog, "again").round()
    assert world.archiver(catalog, "again", table=("odradek", "again_2")).round().rows == 5


def test_two_topics_that_meet_in_one_table_name_are_rejected(world: World, catalog: Any) -> None:
    world.fill("a.b", 3)
    world.fill("a-b", 3)
    world.archiver(catalog, "a.b").round()
    with pytest.raises(ArchiveError, match=r"holds the topic 'a\.b', not 'a-b'"):
        world.archiver(catalog, "a-b").round()


def test_a_table_of_others_is_rejected(world: World, catalog: Any) -> None:
    from odradek.client.archive.layout import SCHEMA

    world.fill("foreign", 1)
    catalog.create_namespace_if_not_exists(("odradek",))
    catalog.create_table(("odradek", "foreign"), SCHEMA)
    with pytest.raises(ArchiveError, match="is no archive of a topic"):
        world.archiver(catalog, "foreign").round()


def test_a_state_ahead_of_the_log_is_rejected(world: World, catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world.fill("ahead", 5)
    archiver = world.archiver(catalog, "ahead")
    archiver.round()
    brokers = archiver._brokers
    monkeypatch.setattr(brokers, "offsets", lambda places, at, _: dict.fromkeys(places, 3 if at == LATEST else 0))
    with pytest.raises(ArchiveError, match=r"has ahead-0 up to 5, but its log ends at 3"):
        archiver.round()


def test_records_that_retention_removed_first_are_an_error_or_a_warning(world: World, catalog: Any) -> None:
    world.fill("lost", 5)
    world.archiver(catalog, "lost").round()
    world.fill("lost", 10, new=False)
    world.admin(lambda admin: admin.delete_records({TopicPartition("lost", 0): 9}))
    with pytest.raises(ArchiveError, match="begins at 9, and the archive ends at 5"):
        world.archiver(catalog, "lost").round()
    assert world.archiver(catalog, "lost", fail_on_data_loss=False).round().rows == 6
    assert offsets_in(catalog.load_table(("odradek", "lost"))) == {0: [*range(5), *range(9, 15)]}


def test_a_topic_that_is_not_there_makes_no_table(world: World, catalog: Any) -> None:
    with pytest.raises(UnknownTopic):
        world.archiver(catalog, "missing").round()
    assert not catalog.table_exists(("odradek", "missing"))


def test_a_directory_without_an_archive_is_said_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="there is no archive"):
        catalog_of(str(tmp_path / "nothing"))
    assert not (tmp_path / "nothing").exists() and not data_files(tmp_path)


@pytest.mark.parametrize("name", ["a#b", "a?b", "a%20b"])
def test_a_directory_that_would_be_another_one_as_a_location_is_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidOption, match=f"has {re.escape(name[1])} in its name"):
        catalog_of(str(tmp_path / name), create=True)
    assert not list(tmp_path.iterdir())


def test_an_error_without_words_is_said_by_its_name() -> None:
    with pytest.raises(ArchiveError, match="the archive cannot be used: TimeoutError"), errors_of_place():
        raise TimeoutError


def test_an_archive_begins_at_a_time(world: World, catalog: Any) -> None:
    world.fill("timed", 4, partitions=2)
    archiver = world.archiver(catalog, "timed", start_ms=2**42)
    assert not archiver.round().rows, "no record is so late"
    world.fill("timed", 4, partitions=2, new=False)
    assert archiver.round().rows == 4
    earlier = world.archiver(catalog, "timed", start_ms=1, table=("odradek", "all"))
    assert earlier.round().rows == 8
    values = {each.name: each.value for each in earlier.metrics() if each.tags == {"topic": "timed"}}
    assert values.pop("bytes-total") > 0
    assert values == {"commits-total": 1, "rows-total": 8, "uncertain-answers-total": 0, "lag-offsets": 0}


def test_large_values_and_an_archive_that_begins_at_the_end(world: World, catalog: Any) -> None:
    world.fill("large", 3, size=900_000)
    archiver = world.archiver(catalog, "large", start=LATEST)
    assert not archiver.round().rows, "the table begins behind what is there"
    world.fill("large", 2, new=False, size=900_000)
    assert archiver.round().rows == 2
    assert offsets_in(catalog.load_table(archiver.name)) == {0: [3, 4]}
    world.admin(lambda admin: admin.create_partitions({"large": 2}))
    world.fill("large", 4, partitions=2, new=False)
    assert archiver.round().rows == 4, "a partition that comes later is archived from its first record on"
    assert offsets_in(catalog.load_table(archiver.name)) == {0: [3, 4, 5, 6], 1: [0, 1]}


def test_a_round_that_ends_early_keeps_where_the_other_partitions_begin(world: World, catalog: Any) -> None:
    world.fill("early", 12, partitions=3, size=1000)
    archiver = world.archiver(catalog, "early", start=2, commit_bytes=1)
    while archiver.round().lag:
        pass
    assert offsets_in(catalog.load_table(archiver.name)) == {each: [2, 3] for each in range(3)}


def test_a_commit_names_few_files_however_many_partitions_and_days_there_are(world: World, catalog: Any) -> None:
    """Each file that a commit names takes memory. Late records are among them, and the last round begins in a batch."""
    days = [0, 1, 2, 3, 1, 0, 4, 5, 6, 7, 2, 8]

    async def work() -> None:
        async with Admin(world.address) as admin, Producer(world.address, linger_ms=1000) as producer:
            await admin.create_topics([NewTopic("days", 3, configs={"retention.ms": "-1"})])
            sent = [
                await producer.send("days", b"v", partition=partition, timestamp_ms=86_400_000 * day)
                for partition in range(3) for day in days
            ]  # fmt: skip
            await producer.flush()
            await asyncio.gather(*sent)

    asyncio.run(work())
    archiver = world.archiver(catalog, "days", commit_files=4)
    rounds = [archiver.round()]
    while rounds[-1].lag:
        rounds.append(archiver.round())
        table = catalog.load_table(archiver.name)
        found, reached = offsets_in(table), state_of(table).offsets
        assert found == {each: list(range(reached[each])) for each in found}, "each state is that of its files"
    assert offsets_in(table) == whole(3, len(days))
    assert max(each.files for each in rounds) == 4 and len(rounds) < 12


def test_a_partition_without_a_leader_holds_up_no_other_one(
    world: World, catalog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.fill("led", 4, partitions=2)
    world.archiver(catalog, "led").round()
    world.fill("led", 2, partitions=2, new=False)
    look = Brokers.view

    def view(self: Brokers, topics: Any) -> ClusterView:
        found = look(self, topics)
        (info,) = found.topics.values()
        left = (info.partitions[0], replace(info.partitions[1], leader=-1))
        return replace(found, topics={"led": replace(info, partitions=left)})

    archiver = world.archiver(catalog, "led")
    archiver._brokers.pause = lambda *_: False  # type: ignore[method-assign]
    with monkeypatch.context() as patched:
        patched.setattr(Brokers, "view", view)
        found = [(each.archived, each.end, each.lag) for each in partitions_of(catalog, "led", None, world.reading)]
        assert found == [(2, 3, 1), (2, None, None)]
        with pytest.raises(KafkaError, match="led-1 has no leader"):
            archiver.round()
    assert offsets_in(catalog.load_table(archiver.name)) == {0: [0, 1, 2], 1: [0, 1]}
    assert archiver.round().rows == 1
    assert offsets_in(catalog.load_table(archiver.name)) == whole(2, 3)


def test_a_leader_that_is_lost_while_its_partition_is_read_takes_no_other_one_along(
    world: World, catalog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.fill("leader-lost", 3, partitions=2)
    plain = run.write_range

    def lost(wanted: OffsetRange, *given: Any) -> Any:
        if wanted.partition == 1:
            raise RequestTimedOut("nothing came")
        return plain(wanted, *given)

    archiver = world.archiver(catalog, "leader-lost")
    with monkeypatch.context() as patched:
        patched.setattr(run, "write_range", lost)
        with pytest.raises(RequestTimedOut):
            archiver.round()
    assert offsets_in(catalog.load_table(archiver.name)) == {0: [0, 1]}
    assert archiver.round().rows == 1
