"""The check of an archive: each offset once and none beyond the state, and with the topic beside it: the same records.

check         by the bounds in the manifests; rows are read where these meet
check_rows    every row beside the topic's record, as far as the log still has it
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from ..arrow.brokers import Brokers
from ..arrow.connection import ReadOptions
from ..arrow.direct_read import range_reader
from ..arrow.fetch import OffsetRange
from ..record import EARLIEST, TopicPartition
from .data_files import DataFile, files_of, partition_rows
from .layout import COLUMNS, SCHEMA, arrow_schema
from .rows import TableRows
from .state import check_topic, state_of, topic_in

_PARQUET: Any = pyarrow.parquet
_COMPUTE: Any = pyarrow.compute
# Of each partition: one mistake may concern every row.
_MAX_FINDINGS = 10


def check(table: Any) -> Iterator[str]:
    """Yield what is wrong with the offsets of a table. Raises ArchiveError where it cannot be looked at."""
    state = state_of(table)
    files = files_of(table)
    for each in files:
        bounds = each.bounds
        for partition in range(bounds.partition, bounds.last_partition + 1):
            if bounds.last >= state.offsets.get(partition, 0) and bounds.partition == bounds.last_partition:
                yield f"{each.path} has offset {bounds.last} of partition {partition}, beyond the state of the table"
    for group in _meeting(files):
        yield from _doubles(table, group)


def _meeting(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """Yield files whose bounds of partition and offset meet: their rows may, too."""
    mixed = any(each.bounds.partition != each.bounds.last_partition for each in files)
    group: list[DataFile] = []
    place, end = -1, -1
    for each in sorted(files, key=lambda file: (0 if mixed else file.bounds.partition, file.bounds.first)):
        at = 0 if mixed else each.bounds.partition
        if at != place or each.bounds.first > end:
            if len(group) > 1:
                yield group
            group, place, end = [], at, -1
        group.append(each)
        end = max(end, each.bounds.last)
    if len(group) > 1:
        yield group


def _doubles(table: Any, group: Sequence[DataFile]) -> Iterator[str]:
    parts = [_offsets(table, each.path) for each in group]
    rows = pa.concat_tables(parts).group_by(["partition", "offset"]).aggregate([([], "count_all")])
    for row in rows.filter(_COMPUTE.greater(rows["count_all"], 1)).slice(0, 10).to_pylist():
        yield f"offset {row['offset']} of partition {row['partition']} is there {row['count_all']} times"


def _offsets(table: Any, path: str) -> Any:
    with table.io.new_input(path).open() as source:
        return _PARQUET.read_table(source, columns=["partition", "offset"])


# -- Beside the topic


def check_rows(table: Any, topic: str, reading: ReadOptions, *, is_compacted: bool = False) -> Iterator[str]:
    """Yield where the rows of a table differ from a topic's committed records, from the first row of each partition on.

    Records that retention has removed cannot be compared. Compaction of the topic removes records of the middle, too.
    """
    reading = reading.committed(fail_on_data_loss=False)
    brokers = Brokers(reading.client)
    view = brokers.retry(lambda: brokers.view([topic]))
    view.check_topic(topic)
    topic_id = view.topic_id(topic)
    check_topic(table.metadata, topic_in(view, topic))
    files, offsets = files_of(table), state_of(table).offsets
    earliest = brokers.log_ends([TopicPartition(topic, each) for each in offsets], EARLIEST)
    for partition, end in offsets.items():
        start = min((each.bounds.first for each in files if each.bounds.partition == partition), default=end)
        start = min(max(start, earliest[TopicPartition(topic, partition)]), end)
        wanted = OffsetRange(topic, topic_id, partition, start, end)
        rows = _Rows(partition_rows(table, files, partition, COLUMNS, start))
        found = _differences(_records(wanted, reading, brokers), rows, end, is_compacted=is_compacted)
        for text in islice(found, _MAX_FINDINGS):
            yield f"{topic}-{partition}: {text}"


def _records(wanted: OffsetRange, reading: ReadOptions, brokers: Brokers) -> Iterator[Any]:
    """Yield the records of a range as rows of a table."""
    rows = TableRows(arrow_schema(SCHEMA), wanted.topic, wanted.partition, wanted.start, wanted.end)
    sections = range_reader(wanted, reading, brokers).sections()
    try:
        for section in sections:
            yield from rows.feed(section)
    finally:
        sections.close()
    yield from rows.rest()


class _Rows:
    """Rows in the order of offsets, which are taken up to an offset."""

    def __init__(self, tables: Iterator[Any]) -> None:
        self._tables = tables
        self._held: Any = None

    def below(self, offset: int) -> Any:
        """Return the next rows whose offsets are below this one."""
        parts: list[Any] = [arrow_schema(SCHEMA).empty_table()]
        while True:
            if self._held is None or not len(self._held):
                self._held = next(self._tables, None)
                if self._held is None:
                    return pa.concat_tables(parts)
            count = _COMPUTE.sum(_COMPUTE.less(self._held["offset"], offset)).as_py() or 0
            parts.append(self._held.slice(0, count).cast(arrow_schema(SCHEMA)))
            self._held = self._held.slice(count)
            if len(self._held):
                return pa.concat_tables(parts)


def _differences(records: Iterator[Any], rows: _Rows, end: int, *, is_compacted: bool) -> Iterator[str]:
    for batch in records:
        theirs = pa.Table.from_batches([batch])
        ours = rows.below(batch.column(1)[-1].as_py() + 1)
        if not ours.equals(theirs):
            yield from _different_rows(ours.to_pylist(), theirs.to_pylist(), is_compacted=is_compacted)
    yield from _different_rows(rows.below(end).to_pylist(), [], is_compacted=is_compacted)


def _different_rows(ours: list[Any], theirs: list[Any], *, is_compacted: bool) -> Iterator[str]:
    in_table, in_topic = ({each["offset"]: each for each in side} for side in (ours, theirs))
    for offset in sorted(in_table.keys() | in_topic.keys()):
        row, record = in_table.get(offset), in_topic.get(offset)
        if row is None:
            yield f"offset {offset} is in the topic, and not in the table"
        elif record is None:
            if not is_compacted:
                yield f"offset {offset} is in the table, and not in the topic"
        elif row != record:
            names = ", ".join(name for name in COLUMNS if row[name] != record[name])
            yield f"offset {offset} has another {names} in the table than in the topic"
