"""The layout of an archive's table: its columns, its partitions by day, and its properties.

    partition int | offset long | timestamp timestamptz | timestamp_type int      required
    key binary | value binary | headers list<struct<key string, value binary, raw_key binary>> | _timestamp_ms long
    value_ struct | _error string                                                 where values have types (typed.py)

A null key or value stays null. `headers` is null where a record has none; their order, duplicates and null values
stay. Iceberg's readers want text to be UTF-8: a header key that is none has U+FFFD for each bad byte in `key`, and its
bytes in `raw_key`. Iceberg's days end with the year 9999: a time outside of the years 1 to 9999 is moved to the nearest
one inside, and `_timestamp_ms` has what the record said.

A file holds one partition of the topic and one day, in the order of offsets. The table is partitioned by the day alone:
the bounds of `partition` and `offset` in the manifests leave out files as well as a second partition field would.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.fs
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform
from pyiceberg.types import (
    BinaryType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from ..schemas.casts import by_field_id, projected, with_leaves
from . import ArchiveError
from .day_files import TablePlace
from .parquet_files import DAY_FIELD
from .rows import ERROR, TYPED

LAYOUT_VERSION = "1"
NAMESPACE = "odradek"

_HEADER = StructType(
    NestedField(9, "key", StringType(), required=True),
    NestedField(10, "value", BinaryType(), required=False),
    NestedField(11, "raw_key", BinaryType(), required=False),
)
SCHEMA = Schema(
    NestedField(1, "partition", IntegerType(), required=True),
    NestedField(2, "offset", LongType(), required=True),
    NestedField(3, "timestamp", TimestamptzType(), required=True),
    NestedField(4, "timestamp_type", IntegerType(), required=True),
    NestedField(5, "key", BinaryType(), required=False),
    NestedField(6, "value", BinaryType(), required=False),
    NestedField(7, "headers", ListType(12, _HEADER, element_required=True), required=False),
    NestedField(8, "_timestamp_ms", LongType(), required=False),
)
SPEC = PartitionSpec(PartitionField(3, 1000, DayTransform(), DAY_FIELD))
COLUMNS = tuple(field.name for field in SCHEMA.fields)

# A commit a minute for a day: without these each commit costs more than the one before.
COMMIT_PROPERTIES = {
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
}
PROPERTIES = {
    # Otherwise each manifest holds the first bytes of keys and values.
    "write.metadata.metrics.default": "none",
    **{
        f"write.metadata.metrics.column.{name}": "full"
        for name in ("partition", "offset", "timestamp", "timestamp_type")
    },
    **COMMIT_PROPERTIES,
    # A commit that merges manifests, and upkeep, read a manifest at a time: this one has some 2,000 files.
    "commit.manifest.target-size-bytes": "524288",
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",
}


def table_name(topic: str) -> tuple[str, str]:
    """Return the namespace and the name of a topic's table. SQL has no `.` and `-` in names."""
    return NAMESPACE, re.sub(r"[^A-Za-z0-9_]", "_", topic)


def place_of(table: Any) -> TablePlace:
    """Return where the files of a table go to. Raises ArchiveError for stores that pyarrow does not know."""
    io, location = table.io, data_folder(table)
    if not isinstance(io, PyArrowFileIO):
        raise ArchiveError(f"the files at {location} are written by pyarrow alone: py-io-impl names another one")
    scheme, host, root = io.parse_location(location, io.properties)
    files = pyarrow.fs.LocalFileSystem() if scheme == "file" else io.fs_by_scheme(scheme, host)
    return TablePlace(files, root, location, arrow_schema(table.schema()))


def data_folder(table: Any) -> str:
    """Return where the data files of a table are, and those of no other one, also of one at the same location."""
    return f"{table.metadata.location}/data/{table.metadata.table_uuid}"


def arrow_schema(schema: Schema) -> Any:
    """Return the Arrow schema of the columns that an archiver writes, with the field ids of the table."""
    held = plain_arrow(schema)
    return pa.schema([held.field(name) for name in (*COLUMNS, TYPED, ERROR) if name in held.names])


def plain_arrow(schema: Schema) -> Any:
    """Return all columns of a table as Arrow has them, with texts and lists of the usual size."""
    usual: dict[Any, Any] = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    fields = schema_to_pyarrow(schema)
    return pa.schema([each.with_type(with_leaves(each.type, lambda kind: usual.get(kind, kind))) for each in fields])


def of_table(rows: Any, schema: Any) -> Any:
    """Return rows of an archiver's file as its table has them now: by field ids, with nulls for later columns."""
    held = {by_field_id(number, each): rows[number].combine_chunks() for number, each in enumerate(rows.schema)}
    return pa.Table.from_arrays(projected(held, schema, len(rows), by_field_id), schema=schema)
