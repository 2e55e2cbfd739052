"""The layout of an archive's table: its columns, its partitions by day, and its properties.

    partition int | offset long | timestamp timestamptz | timestamp_type int      required
    key binary | value binary | headers list<struct<key string, value binary, raw_key binary>> | _timestamp_ms long

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
from pyiceberg.io.pyarrow import PyArrowFileIO
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

from . import ArchiveError
from .parquet_files import DAY_FIELD, TablePlace

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

PROPERTIES = {
    # Otherwise each manifest holds the first bytes of keys and values.
    "write.metadata.metrics.default": "none",
    **{
        f"write.metadata.metrics.column.{name}": "full"
        for name in ("partition", "offset", "timestamp", "timestamp_type")
    },
    # A commit a minute for a day: without these each commit costs more than the one before.
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",
}

_TYPES: dict[str, Any] = {
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_type": pa.int32(),
    "key": pa.binary(),
    "value": pa.binary(),
    "_timestamp_ms": pa.int64(),
}


def table_name(topic: str) -> tuple[str, str]:
    """Return the namespace and the name of a topic's table. SQL has no `.` and `-` in names."""
    return NAMESPACE, re.sub(r"[^A-Za-z0-9_]", "_", topic)


def place_of(table: Any) -> TablePlace:
    """Return where the files of a table go to. Raises ArchiveError for stores that pyarrow does not know."""
    io, location = table.io, table.metadata.location
    if not isinstance(io, PyArrowFileIO):
        raise ArchiveError(f"the files at {location} are written by pyarrow alone: py-io-impl names another one")
    scheme, host, root = io.parse_location(location, io.properties)
    files = pyarrow.fs.LocalFileSystem() if scheme == "file" else io.fs_by_scheme(scheme, host)
    return TablePlace(files, root, location, arrow_schema(table.schema()))


def arrow_schema(schema: Schema) -> Any:
    """Return the Arrow schema of the columns that an archiver writes, with the field ids of the table."""

    def field(path: str, name: str, kind: Any, *, required: bool) -> Any:
        number = str(schema.find_field(path).field_id)
        return pa.field(name, kind, nullable=not required, metadata={"PARQUET:field_id": number})

    entries = pa.struct(
        [
            field("headers.element.key", "key", pa.string(), required=True),
            field("headers.element.value", "value", pa.binary(), required=False),
            field("headers.element.raw_key", "raw_key", pa.binary(), required=False),
        ]
    )
    types = _TYPES | {"headers": pa.list_(field("headers.element", "element", entries, required=True))}
    return pa.schema([field(each.name, each.name, types[each.name], required=each.required) for each in SCHEMA.fields])
