"""Hot and cold as one table: each row once, whatever goes on meanwhile, and words where a half is missing."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="pip install 'odradek[archive]'")
pytest.importorskip("duckdb", reason="pip install 'odradek[sql]'")
pytest.importorskip("polars", reason="pip install 'odradek[polars]'")

import polars as pl
from odradek.client import NewTopic, Producer, read_topic
from odradek.client.archive import Archive, ArchiveError, union, upkeep
from odradek.client.arrow.brokers import Brokers
from odradek.client.arrow.connection import ReadOptions
from odradek.client.arrow.tables import COLUMNS
from odradek.client.errors import ErrorCode, InvalidOption, KafkaError, NoBrokerReachable, UnknownTopic
from odradek.client.record import LATEST, TopicPartition
from odradek.client.sql.topic_tables import TopicTables
from odradek.tests.support.clients.archive_world import FOLDER, World, files_in

AWAY = "127.0.0.1:1"


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Where the fixture `catalog` has its tables."""
    return str(tmp_path / FOLDER)


def read(world: World, topic: str, place: Any, **options: Any) -> Any:
    given = {"bootstrap_servers": world.address, "archive": place, **options}
    return asyncio.run(read_topic(topic, **given))


def sql(world: World, place: str, query: str, **options: Any) -> tuple[list[Any], list[Any]]:
    """The rows of a query, and the spans that its scans read."""
    given = {"kafka.bootstrap.servers": world.address, "path": "fetch"}
    with TopicTables(given, archive=place, **options) as tables:
        rows = [row for portion in tables.run(query)[1] for row in portion]
        return rows, [
            (each.partition, each.start, each.end) for set_ in tables.datasets.values() for each in set_.scanned
        ]


@pytest.mark.filterwarnings("ignore:Iceberg scan planning")
def test_both_halves_are_the_topic_as_it_is(world: World, catalog: Any, place: str) -> None:
    world.fill("halves", 20, partitions=2)
    world.archiver(catalog, "halves").round()

    async def more() -> None:
        async with Producer(world.address) as producer:
            await producer.send("halves", b"late", partition=0, headers=[("h", b"1"), ("h", None)])

    asyncio.run(more())
    world.fill("halves", 10, partitions=2, new=False)
    whole = asyncio.run(read_topic("halves", bootstrap_servers=world.address, columns=COLUMNS))
    assert read(world, "halves", place, columns=COLUMNS).equals(whole)
    frame = read(world, "halves", place, columns=COLUMNS, format="lazy")
    assert frame.sort("partition", "offset").collect().equals(pl.from_arrow(whole))
    late = frame.filter(pl.col("offset") >= 9, pl.col("partition") == 0).select("value", "headers")
    assert late.collect()["value"].to_list() == [b"18", b"late", b"0", b"2", b"4", b"6", b"8"]
    parts = {"start": {0: 9, 1: "earliest"}, "end": {0: "latest", 1: 3}, "columns": ["offset"]}
    assert read(world, "halves", place, **parts)["offset"].to_pylist() == [*range(9, 16), 0, 1, 2]
    assert read(world, "halves", place, partitions=[1], start=14, columns=["value"]).to_pylist() == [{"value": b"9"}]
    assert len(read(world, "halves", place, start=datetime(2000, 1, 1, tzinfo=UTC))) == 31
    assert len(read(world, "halves", place, start=datetime(2100, 1, 1, tzinfo=UTC))) == 0
    judged = pl.scan_iceberg(catalog.load_table(("odradek", "halves"))).select("partition", "offset").collect()
    assert sorted(judged.rows()) == [(number, at) for number in range(2) for at in range(10)], "another reader"
    with pytest.raises(UnknownTopic, match="no partition 7"):
        read(world, "halves", place, partitions=[7])


def test_a_leader_that_moves_while_the_halves_are_cut_is_asked_for_again(
    world: World, catalog: Any, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.fill("moves", 4)
    world.archiver(catalog, "moves").round()
    offsets, asked = Brokers.offsets, list[Any]()

    def of_the_new_leader(brokers: Brokers, places: Any, at: int, view: Any = None) -> Any:
        asked.append(view)
        if view is asked[0]:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leader has moved")
        return offsets(brokers, places, at, view)

    monkeypatch.setattr(Brokers, "offsets", of_the_new_leader)
    client = world.reading.client
    numbers = {**client.numbers, "default.api.timeout.ms": 5_000, "retry.backoff.ms": 1, "retry.backoff.max.ms": 1}
    found = union.cut(place, "moves", ReadOptions(replace(client, numbers=numbers)))
    assert [(each.start, each.end) for each in (*found.cold, *found.hot)] == [(0, 4), (4, 4)]
    assert len(asked) == 4, "each end is asked for once more"


def test_a_time_begins_in_the_archive(world: World, catalog: Any, place: str) -> None:
    async def fill(admin: Any) -> None:
        await admin.create_topics([NewTopic("times", 1)])
        async with Producer(world.address) as producer:
            for at in (1_000, 3_000, 2_000, 4_000):
                await producer.send("times", b"%d" % at, timestamp_ms=at)

    world.admin(fill)
    world.archiver(catalog, "times").round()
    found = read(world, "times", place, start=datetime.fromtimestamp(2, UTC), columns=["value"])
    assert found["value"].to_pylist() == [b"3000", b"2000", b"4000"]


def test_a_time_before_1970_begins_with_the_first_record_of_a_log_without_files(
    world: World, catalog: Any, place: str
) -> None:
    world.fill("hot", 1)
    world.archiver(catalog, "hot", start=LATEST).round()
    world.fill("hot", 2, new=False)
    for ms in (-1, -2, -86_400_000):
        start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
        assert read(world, "hot", place, start=start, columns=["offset"])["offset"].to_pylist() == [1, 2]


def test_sql_reads_both_halves_and_no_more_than_it_needs(world: World, catalog: Any, place: str) -> None:
    world.fill("asked", 20, partitions=2)
    world.archiver(catalog, "asked").round()
    world.fill("asked", 20, partitions=2, new=False)
    assert sql(world, place, "select count(*), count(distinct (partition, asked.offset)) from asked")[0] == [(40, 40)]
    rows, spans = sql(world, place, "select value from asked where partition = 1 and asked.offset between 8 and 11")
    assert [each for (each,) in rows] == ["17", "19", "1", "3"]
    assert spans[-2:] == [(1, 8, 10), (1, 10, 12)]
    assert sql(world, place, "select count(*) from asked where timestamp > '2100-01-01'")[0] == [(0,)]
    world.fill("plain", 3)
    assert sql(world, place, "select count(*) from plain")[0] == [(3,)], "a topic without a table"


def test_without_a_broker_the_archive_alone_can_be_read_and_the_union_says_so(
    world: World, catalog: Any, place: str
) -> None:
    world.fill("away", 4)
    world.archiver(catalog, "away").round()
    world.fill("away", 2, new=False)
    with pytest.raises(NoBrokerReachable, match=r"has away up to 0:4.*can be read alone \(archive_only\)"):
        read(world, "away", place, bootstrap_servers=AWAY)
    assert len(read(world, "away", place, bootstrap_servers=AWAY, archive_only=True)) == 4
    assert len(read(world, "away", place, format="lazy", archive_only=True).collect()) == 4
    nowhere = World(AWAY)
    assert sql(nowhere, place, "select count(*) from away", archive_only=True)[0] == [(4,)]
    with pytest.raises(InvalidOption, match="need an archive"):
        asyncio.run(read_topic("away", archive_only=True))


def test_an_archive_of_another_topic_of_that_name_is_rejected(world: World, catalog: Any, place: str) -> None:
    world.fill("new", 2)
    world.archiver(catalog, "new").round()
    world.admin(lambda admin: admin.delete_topics("new"))
    world.fill("new", 2)
    with pytest.raises(ArchiveError, match="an earlier topic 'new'"):
        read(world, "new", place)
    with pytest.raises(ArchiveError, match=r"there is no table odradek\.none"):
        read(world, "none", place)
    with pytest.raises(ArchiveError, match="holds 'new', not 'other'"):
        read(world, "other", Archive(place, table="odradek.new"), archive_only=True)


def test_each_row_is_there_once_while_all_goes_on(world: World, catalog: Any, place: str) -> None:
    """Rounds of a producer, an archiver, its upkeep and retention, and reads between and within them."""
    world.fill("busy", 2, partitions=2)
    archiver = world.archiver(catalog, "busy")
    archiver.round()
    count = 1
    for step in range(6):
        world.fill("busy", 2, partitions=2, new=False)
        count += 1
        if step % 2:
            archiver.round()
            gone = {TopicPartition("busy", number): count - 1 for number in range(2)}
            world.admin(lambda admin, gone=gone: admin.delete_records(gone))
        if step % 3 == 2:
            upkeep.compact(catalog, archiver.name, min_files=2)
            upkeep.expire(catalog, archiver.name, keep_ms=-1, keep_snapshots=1)
        rows = read(world, "busy", place, columns=["partition", "offset"]).to_pylist()
        assert [(each["partition"], each["offset"]) for each in rows] == [
            (p, at) for p in range(2) for at in range(count)
        ]
        assert sql(world, place, "select count(*) from busy")[0] == [(2 * count,)]


def test_a_read_begins_again_where_files_go_and_where_retention_was_faster(
    world: World, catalog: Any, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.fill("raced", 4, partitions=2)
    archiver = world.archiver(catalog, "raced")
    archiver.round()
    files = files_in(catalog.load_table(archiver.name))
    plain, looks = union.files_of, [0]

    def others_go_on(table: Any) -> Any:
        """Between the look at the table and that at the log, all is archived, compacted, expired and removed."""
        found = plain(table)
        looks[0] += 1
        if looks[0] == 1:
            world.fill("raced", 4, partitions=2, new=False)
            archiver.round()
            upkeep.compact(catalog, archiver.name, min_files=2)
            upkeep.expire(catalog, archiver.name, keep_ms=-1, keep_snapshots=1)
            world.admin(lambda admin: admin.delete_records({TopicPartition("raced", 0): 4}))
        return found

    monkeypatch.setattr(union, "files_of", others_go_on)
    assert len(read(world, "raced", place)) == 8
    assert looks[0] == 2 and not any(Path(each.removeprefix("file://")).exists() for each in files)
    looks[0] = -10
    monkeypatch.setattr(union, "files_of", lambda table: plain(table) if looks[0] else [])
    assert json.dumps(sql(world, place, "select sum(raced.offset)::int from raced")[0]) == "[[12]]"
