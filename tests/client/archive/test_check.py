"""A check beside the topic: rows that differ, that are missing, and that nobody wrote are named."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="pip install 'odradek[archive]'")

import pyarrow as pa
import pyarrow.parquet as pq
from odradek.client.archive import data_files
from odradek.client.archive.check import check_rows
from odradek.client.archive.data_files import DataFile, partition_rows
from odradek.client.archive.layout import SCHEMA, arrow_schema
from odradek.client.archive.parquet_files import parquet_writer
from odradek.client.archive.state import Bounds
from odradek.client.record import TopicPartition
from odradek.tests.support.clients.archive_world import World, files_in


def changed(path: str, *values: tuple[int, bytes]) -> None:
    """Write the rows of a file again, with these values at these offsets and without the others."""
    name = path.removeprefix("file://")
    rows = pq.read_table(name).cast(arrow_schema(SCHEMA)).to_pylist()
    by_offset = dict(values)
    kept = [{**row, "value": by_offset[row["offset"]]} for row in rows if row["offset"] in by_offset]
    table = pa.Table.from_pylist(kept, schema=arrow_schema(SCHEMA))
    with open(name, "wb") as stream, parquet_writer(stream, arrow_schema(SCHEMA)) as writer:
        writer.write_table(table)


def test_a_check_beside_the_topic_names_what_differs(world: World, catalog: Any) -> None:
    world.fill("beside", 5)
    archiver = world.archiver(catalog, "beside")
    archiver.round()
    table = catalog.load_table(archiver.name)
    assert list(check_rows(table, "beside", world.reading)) == []
    changed(min(files_in(table)), (0, b"0"), (1, b"x"), (3, b"3"))
    assert list(check_rows(table, "beside", world.reading)) == [
        "beside-0: offset 1 has another value in the table than in the topic",
        "beside-0: offset 2 is in the topic, and not in the table",
        "beside-0: offset 4 is in the topic, and not in the table",
    ]


def test_rows_that_the_log_has_no_more_are_left_out(world: World, catalog: Any) -> None:
    world.fill("gone", 6)
    archiver = world.archiver(catalog, "gone")
    archiver.round()
    world.admin(lambda admin: admin.delete_records({TopicPartition("gone", 0): 4}))
    table = catalog.load_table(archiver.name)
    changed(min(files_in(table)), *((at, b"x") for at in range(5)))
    assert len(list(check_rows(table, "gone", world.reading))) == 2


def test_rows_of_files_that_overlap_come_in_the_order_of_offsets(
    world: World, catalog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Late records: each of two days has every second offset."""
    world.fill("late", 1)
    archiver = world.archiver(catalog, "late")
    archiver.round()
    table = catalog.load_table(archiver.name)
    folder = table.metadata.location.removeprefix("file://") + "/data"
    files: list[DataFile] = []
    for start in range(2):
        rows = [{"partition": 0, "offset": at, "value": b"%d" % at} for at in range(start, 40, 2)]
        path = f"{folder}/{start}.parquet"
        schema = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.binary())])
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, row_group_size=3)
        entry = type("Entry", (), {"file_path": f"file://{path}"})()
        files.append(DataFile(entry, Bounds(0, 0, start, 39), 0))
    for held in (0, 1 << 30):
        monkeypatch.setattr(data_files, "_HELD_BYTES", held)
        found = [row for part in partition_rows(table, files, 0, ["offset", "value"]) for row in part.to_pylist()]
        assert found == [{"offset": at, "value": b"%d" % at} for at in range(40)]
