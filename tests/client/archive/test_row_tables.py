"""Tables of a pipeline's own rows: each batch once whatever fails, columns that follow, and what is refused."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg", reason="pip install 'odradek[archive]'")

from odradek.client.archive import ArchiveError, day_files, once, row_files, row_tables, upkeep
from odradek.client.archive.layout import place_of
from odradek.client.archive.row_files import Batch, RowFiles, RowTypeError
from odradek.client.archive.row_tables import RowsRejected, commit_rows, last_batch, open_rows, rows_schema
from odradek.tests.support.clients.archive_world import World, data_files, files_in
from odradek.tests.support.fakes.faulty_catalog import KINDS, FaultyCatalog
from odradek.tests.support.histories.archive_history import Killed, killed_at
from odradek.tests.support.seeds import seeds

NAME = ("air", "delays")
QUERIES = [str(UUID(int=number)) for number in (7, 8)]
IDS = pa.schema([("id", pa.int64())])
STEPS = (
    (row_tables, "open_rows"), (RowFiles, "_write"), (RowFiles, "_close"), (row_tables, "commit_files"),
    (row_tables, "last_batch"), (once.Once, "_fate"),
)  # fmt: skip


def written(catalog: Any, rows: pa.RecordBatch, batch: Batch | None = None, day: str | None = None) -> list[str]:
    """The files of a task."""
    table, held = row_tables.open_rows(catalog, NAME, rows.schema, day)
    files = RowFiles(place_of(table)._replace(schema=rows_schema(table)), batch, held)
    files.add(rows)
    return files.finish()


def ids(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": [*values]}, schema=IDS)


def held(catalog: Any, column: str = "id") -> list[Any]:
    return sorted(catalog.load_table(NAME).scan().to_arrow()[column].to_pylist())


def test_a_batch_that_comes_again_is_committed_once_and_one_before_it_is_refused(catalog: Any) -> None:
    for number in (0, 1, 1):
        done = commit_rows(
            catalog, NAME, written(catalog, ids(number), Batch(QUERIES[0], number)), Batch(QUERIES[0], number)
        )
    assert done is None
    assert commit_rows(catalog, NAME, written(catalog, ids(5), Batch(QUERIES[1], 0)), Batch(QUERIES[1], 0)) == 3
    assert held(catalog) == [0, 1, 5]
    with pytest.raises(ArchiveError, match="batch 1 after it: was the checkpoint restored from an older copy"):
        commit_rows(catalog, NAME, written(catalog, ids(0)), Batch(QUERIES[0], 0))


@pytest.mark.parametrize("batch", [None, Batch(QUERIES[0], 0)])
def test_files_of_a_table_that_was_dropped_and_made_again_are_refused(catalog: Any, batch: Batch | None) -> None:
    """The columns of the new table have other ids, so its readers would find other values, or nulls."""
    paths = written(catalog, ids(1), batch)
    catalog.drop_table(NAME)
    open_rows(catalog, NAME, pa.schema([("other", pa.int64()), ("id", pa.int64())]))
    with pytest.raises(ArchiveError, match=r"air\.delays was dropped and made again since"):
        commit_rows(catalog, NAME, paths, batch)
    assert not held(catalog)
    commit_rows(catalog, NAME, written(catalog, ids(2), batch), batch)
    assert held(catalog) == [2]


def test_the_batch_is_known_without_its_snapshot_and_goes_with_a_rollback(catalog: Any) -> None:
    for number in range(4):
        commit_rows(catalog, NAME, written(catalog, ids(number)), Batch(QUERIES[number % 2], number))
    table = catalog.load_table(NAME)
    first, *_, last = table.metadata.snapshots
    table.maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
    table = catalog.load_table(NAME)
    assert [last_batch(table.metadata, each) for each in QUERIES] == [2, 3]
    table.manage_snapshots().rollback_to_snapshot(last.parent_snapshot_id).commit()
    assert [last_batch(catalog.load_table(NAME).metadata, each) for each in QUERIES] == [2, 1]
    commit_rows(catalog, NAME, written(catalog, ids(3)), Batch(QUERIES[1], 3))
    assert held(catalog) == [0, 1, 2, 3]
    with catalog.load_table(NAME).transaction() as damaged:
        damaged.set_properties({f"odradek.batch.{QUERIES[1]}x": "{}"})
    with pytest.raises(ArchiveError, match=r"has no readable odradek\.batch"):
        last_batch(catalog.load_table(NAME).metadata, f"{QUERIES[1]}x")


@pytest.mark.parametrize("seed", seeds(range(1), range(500)))
def test_each_row_is_there_once_whatever_dies_and_answers(
    catalog: Any, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two queries play their batches until they are told that these are committed, beside writes without a query."""
    monkeypatch.setattr("odradek.client.archive.once._FIRST_PAUSE_S", 0.0)
    chance, faulty, made = random.Random(seed), FaultyCatalog(catalog), 0
    waiting = dict.fromkeys(QUERIES, 0)
    for _ in range(8):
        query = chance.choice(QUERIES)
        batch = Batch(query, waiting[query])
        while True:
            faulty.kinds = chance.choices(["", *KINDS], k=chance.randint(0, 3))
            faulty.failing_looks = chance.randint(0, 1)
            try:
                with killed_at(chance.randint(1, 30), STEPS):
                    paths = written(faulty, ids(made), batch) + written(faulty, ids(made + 1), batch)
                    written(faulty, ids(made), batch)  # an attempt that Spark does not know of any more
                    row_tables.commit_rows(faulty, NAME, paths, batch, 5.0)
                if chance.random() < 0.7:
                    break
            except (Killed, ConnectionError):
                continue
        made, waiting[query] = made + 2, waiting[query] + 1
        if chance.random() < 0.3:
            upkeep.expire(catalog, NAME, keep_snapshots=chance.randint(1, 4))
        assert held(catalog) == list(range(made))
    upkeep.expire(catalog, NAME, keep_snapshots=1)
    assert {f"file://{each}" for each in data_files(tmp_path)} == files_in(catalog.load_table(NAME))


def test_columns_come_later_get_wider_and_stay_in_their_own_types(catalog: Any) -> None:
    commit_rows(catalog, NAME, written(catalog, pa.RecordBatch.from_pydict({"id": pa.array([1], pa.int32())})))
    nested = {
        "at": datetime(2013, 1, 1, tzinfo=UTC), "who": {"name": "AA", "seats": [1, 2]}, "tags": [("a", 1)],
    }  # fmt: skip
    kinds = pa.struct([("name", pa.string()), ("seats", pa.list_(pa.int32()))])
    schema = pa.schema([("tags", pa.map_(pa.string(), pa.int64())), ("who", kinds), ("id", pa.int64()),
                        ("at", pa.timestamp("us", "UTC"))])  # fmt: skip
    commit_rows(
        catalog, NAME, written(catalog, pa.RecordBatch.from_pylist([{"id": 2**40, **nested}, {"id": 3}], schema))
    )
    commit_rows(catalog, NAME, written(catalog, pa.RecordBatch.from_pydict({"id": pa.array([4], pa.int16())})))
    rows = catalog.load_table(NAME).scan().to_arrow().to_pylist()
    none = dict.fromkeys(nested)
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": 1, **none}, {"id": 3, **none}, {"id": 4, **none}, {"id": 2**40, **nested},
    ]  # fmt: skip


def test_files_hold_a_day_each_where_the_table_has_days(catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    times = [None if day == 3 else datetime(2013, 1, 1 + day, 5, tzinfo=UTC) for day in range(5)] * 2
    rows = pa.RecordBatch.from_pydict({"at": pa.array(times, pa.timestamp("us", "UTC")), "id": list(range(10))})
    monkeypatch.setattr(day_files, "OPEN_FILES", 2)
    monkeypatch.setattr(day_files, "PENDING_BYTES", 100)
    paths = written(catalog, rows, day="at")
    commit_rows(catalog, NAME, paths)
    assert held(catalog) == list(range(10))
    days = {task.file.partition[0] for task in catalog.load_table(NAME).scan().plan_files()}
    assert days == {None, *(15706 + day for day in (0, 1, 2, 4))}
    filtered = catalog.load_table(NAME).scan(row_filter="at >= '2013-01-05T00:00:00+00:00'")
    assert sorted(filtered.to_arrow()["id"].to_pylist()) == [4, 9]
    with pytest.raises(RowsRejected, match=r"is not partitioned by day\(id\)"):
        open_rows(catalog, NAME, rows.schema, "id")


def test_rows_that_do_not_fit_are_refused_before_anything_is_written(world: World, catalog: Any) -> None:
    world.fill("refused", 1)
    archiver = world.archiver(catalog, "refused", table=("air", "refused"))
    archiver.round()
    with pytest.raises(RowsRejected, match="is the archive of a topic"):
        open_rows(catalog, ("air", "refused"), IDS)
    with pytest.raises(RowsRejected, match="have no column at"):
        open_rows(catalog, NAME, IDS, "at")
    with pytest.raises(RowsRejected, match="cannot be made of these columns"):
        open_rows(catalog, NAME, pa.schema([("id", pa.duration("us"))]))
    with pytest.raises(RowsRejected, match="cannot be made of these columns"):
        open_rows(catalog, NAME, IDS, "id")
    assert not catalog.table_exists(NAME)
    open_rows(catalog, NAME, IDS)
    with pytest.raises(RowsRejected, match=r"do not fit air\.delays"):
        open_rows(catalog, NAME, pa.schema([("id", pa.string())]))
    with pytest.raises(RowsRejected, match="has the column id, and ID is the same one in SQL"):
        open_rows(catalog, NAME, pa.schema([("ID", pa.int64())]))
    table, _ = open_rows(catalog, NAME, IDS)
    required = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    with pytest.raises(RowTypeError, match="the column id of the table has no nulls"):
        row_files.fitted(pa.RecordBatch.from_pydict({"id": [None]}, schema=IDS), required)
    with table.update_spec() as spec:
        spec.add_identity("id")
    with pytest.raises(RowsRejected, match=r"rows are written by day\(COLUMN\)"):
        open_rows(catalog, NAME, IDS)
    assert not files_in(catalog.load_table(NAME))


def test_rows_as_deep_as_readers_go_are_written_and_deeper_ones_refused(catalog: Any) -> None:
    kind, value = pa.int64(), 1
    for _ in range(48):
        kind, value = pa.list_(kind), [value]
    rows = pa.RecordBatch.from_pylist([{"id": value}], pa.schema([("id", kind)]))
    commit_rows(catalog, NAME, written(catalog, rows))
    assert held(catalog) == [value]
    for deeper in (pa.struct([("a", kind)]), pa.list_(kind), pa.map_(pa.string(), kind)):
        with pytest.raises(RowsRejected, match="id has a part inside of more than 48 types"):
            open_rows(catalog, NAME, pa.schema([("id", deeper)]))


@pytest.mark.parametrize("day", [None, "at"])
def test_times_that_no_commit_can_read_are_refused_by_the_task(catalog: Any, day: str | None) -> None:
    first, last, kind = -62_135_596_800_000_000, 253_402_300_799_999_999, pa.timestamp("us", "UTC")
    commit_rows(
        catalog,
        NAME,
        written(catalog, pa.RecordBatch.from_pydict({"at": pa.array([first, None, last], kind)}), day=day),
    )
    assert catalog.load_table(NAME).scan().to_arrow()["at"].cast(pa.int64()).null_count == 1
    for time in (first - 1, last + 1):
        rows = pa.RecordBatch.from_pydict({"at": pa.array([time], kind)})
        with pytest.raises(RowTypeError, match="outside of the years 1 to 9999"):
            written(catalog, rows, day=day)
    deep = pa.list_(pa.struct([("on", pa.date32())]))
    with pytest.raises(RowTypeError, match="outside of the years 1 to 9999"):
        row_files.fitted(
            pa.RecordBatch.from_arrays([pa.array([[{"on": 2_932_897}]], deep)], ["days"]), pa.schema([("days", deep)])
        )


def test_rows_of_many_days_that_wait_are_few_parts(catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(day_files, "PENDING_BYTES", 200 * 1100)
    days = pa.array([day * 86_400_000_000 for day in range(200)], pa.timestamp("us", "UTC"))
    rows = pa.RecordBatch.from_pydict({"at": days, "id": list(range(200))})
    table, held_by = open_rows(catalog, NAME, rows.schema, "at")
    files = RowFiles(place_of(table)._replace(schema=rows_schema(table)), None, held_by)
    for _ in range(10):
        files.add(rows)
        assert sum(len(day.pending) for day in files._days.values()) <= 214
    files.abandon()
