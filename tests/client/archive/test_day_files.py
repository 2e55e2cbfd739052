"""Files of one day each, within bounded memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="pip install 'odradek[archive]'")

import pyarrow.parquet
from odradek.client.archive import day_files
from odradek.client.archive.day_files import TablePlace, split
from odradek.client.archive.layout import SCHEMA, arrow_schema
from odradek.client.archive.parquet_files import PartitionFiles, _days_of
from odradek.client.archive.rows import TableRows
from odradek.protocol.records.record import Record
from odradek.tests.client.archive.test_rows import record, section
from pyarrow.fs import LocalFileSystem


def files_in(folder: Path, target_bytes: int = 1 << 20) -> PartitionFiles:
    place = TablePlace(LocalFileSystem(), str(folder), f"file://{folder}", arrow_schema(SCHEMA))
    return PartitionFiles(place, 0, 0, target_bytes)


def rows(*records: Record, base: int = 0) -> list[Any]:
    """The Arrow batches of a table's rows."""
    making = TableRows(arrow_schema(SCHEMA), "t", 0, 0, 10_000)
    return [*making.feed(section(*records, base=base)), *making.rest()]


def test_many_days_in_a_batch_are_split_in_order() -> None:
    records = [record(86_400_000 * day, value=b"%d" % day) for day in range(400)]
    parts = [each for batch in rows(*records, *records) for each in split(batch, _days_of(batch))]
    assert [number for number, _ in parts] == list(range(400))
    assert [part.column("offset").to_pylist() for _, part in parts] == [[at, at + 400] for at in range(400)]


def test_many_open_days_hold_few_rows_and_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch has a record of 1 KB of each day, so that no day ever has many rows of its own."""
    monkeypatch.setattr(day_files, "PENDING_BYTES", 1 << 17)
    monkeypatch.setattr(day_files, "OPEN_FILES", 4)
    files, days = files_in(tmp_path), [record(number * 86_400_000, value=bytes(1_000)) for number in range(50)]
    for round_ in range(8):
        for batch in rows(*days, base=50 * round_):
            files.add(batch)
        assert sum(day.pending_bytes for day in files._days.values()) <= 1 << 17
        assert sum(day.writer is not None for day in files._days.values()) <= 4
    done = files.finish()
    assert sum(each.rows for each in done) == 400 and len({each.path for each in done}) == len(done)


def test_rows_of_one_day_wait_no_longer_than_they_make_a_row_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(day_files, "GROUP_BYTES", 100_000)
    files = files_in(tmp_path)
    for number in range(30):
        for batch in rows(*[record(value=bytes(1_000))] * 10, base=10 * number):
            files.add(batch)
        assert files._pending_bytes < 100_000
    (done,) = files.finish()
    assert pyarrow.parquet.read_metadata(done.path.removeprefix("file://")).num_row_groups > 2


def test_a_late_record_of_a_batch_keeps_no_other_one_in_memory(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    for batch in rows(record(0), record(value=bytes(100_000))):
        files.add(batch)
    assert files._days[0].pending[0].get_total_buffer_size() < 10_000


def test_the_last_rows_may_fill_a_file(tmp_path: Path) -> None:
    files = files_in(tmp_path, target_bytes=1)
    for batch in rows(record(), record()):
        files.add(batch)
    assert [each.rows for each in files.finish()] == [2]
