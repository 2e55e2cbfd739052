"""From record batches to Arrow columns: by the compiled kernel where numba is installed, else in pure Python.

    key binary | value binary | topic string | partition int32 | offset int64 | timestamp timestamp[us, UTC]
    | timestampType int32 | headers list<struct<key: string, value: binary>>

These are the columns of the Spark source. The two ways yield the same table; a test compares them. pyarrow comes with
`pip install odradek[tables]`, numba too.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow and numba have no types.

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ..protocol.records.batch import iter_headers, iter_records
from ..protocol.records.record import Record
from .errors import InvalidOption
from .record import TopicPartition

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
DEFAULT_COLUMNS = COLUMNS[:-1]
# Rows of one Arrow batch: enough for vector code, little memory at a time.
_MAX_ROWS = 65_536
# The same of a table that stays and that has got so many bytes: its columns fill large pages of memory.
_LARGE_TABLE_BYTES = 4 << 20
_LARGE_ROWS, _LARGE_BYTES = 524_288, 64 << 20
_NO_END = 2**63 - 1
_LISTS = f"{__package__}.spark.byte_lists"


@cache  # a look into the folders of packages takes half a millisecond, and each table asks
def has_kernel() -> bool:
    """Whether the compiled kernel can be used."""
    return find_spec("numba") is not None


def load_kernel() -> None:
    """Import what the compiled kernel needs, if it is installed: half a second, which belongs into a thread."""
    if has_kernel() and find_spec("pyarrow") is not None:
        import_module(_LISTS)


def is_kernel_loaded() -> bool:
    """Whether the compiled kernel can be used at once."""
    return _LISTS in sys.modules


def bytes_of(records: memoryview, start: int, name: str) -> list[bytes | None]:
    """Return one column of whole batches, "key" or "value", from offset `start` on, by machine code that is loaded."""
    found: list[bytes | None] = import_module(_LISTS).byte_list(records, start, of_keys=name == "key")
    return found


def numbers_of(column: Any) -> list[int]:
    """Return an Arrow column of int64 without nulls as a list. (`to_numpy` of pyarrow imports pandas.)"""
    found: list[int] = []
    for chunk in column.chunks:
        found += memoryview(chunk.buffers()[1]).cast("q")[chunk.offset : chunk.offset + len(chunk)].tolist()
    return found


class ArrowColumns:
    """Fills columns with the records of one partition whose offsets are below `end`."""

    def __init__(
        self,
        columns: Sequence[str],
        partition: TopicPartition,
        end: int | None = None,
        *,
        compiled: bool | None = None,
        max_rows: int = _MAX_ROWS,
        kept: bool = False,
    ) -> None:
        """Fill these columns. `kept`: the table stays in memory, and may be large."""
        unknown = set(columns) - set(COLUMNS)
        if unknown or not columns:
            raise InvalidOption(f"columns must be of {', '.join(COLUMNS)}, not {sorted(unknown)}")
        try:
            import pyarrow
        except ImportError as error:
            raise InvalidOption("Arrow tables need pyarrow: pip install 'odradek[tables]'") from error
        self._arrow: Any = pyarrow
        self._names = tuple(columns)
        self._partition = partition
        self._end = _NO_END if end is None else end
        # Of one Arrow batch. The kernel makes room for so many at once.
        self._max_rows = min(max(max_rows, 1), _MAX_ROWS)
        self._kept = kept
        self._added_bytes = 0
        # Whether the open columns are those of a large table.
        self._is_large = False
        self._compiled = has_kernel() if compiled is None else compiled
        self._schema: Any = _schema(self._names)
        self._batches: list[Any] = []
        self._records: list[Record] = []
        self._types: list[int] = []
        # One decoder for each first offset: nearly always one for all batches.
        self._decoder: Any = None
        self._decoder_start = -1

    def add(self, data: memoryview, start: int) -> None:
        """Add the records of whole batches from offset `start` on. Their CRCs are not checked. Raises RecordError."""
        if self._compiled:
            self._add_compiled(data, start)
        else:
            self._add_records(data, start)

    def table_of(self, batches: Sequence[Any]) -> Any:
        """Return a `pyarrow.Table` of Arrow batches that another decoder has made of these columns."""
        return self._arrow.Table.from_batches(batches, schema=self._schema)

    def table(self) -> Any:
        """Return a `pyarrow.Table` with what was added."""
        self._close_decoder()
        if self._records:
            self._batches.append(self._flush())
        table = self._arrow.Table.from_batches(self._batches, schema=self._schema)
        self._batches = []
        return table

    def _add_compiled(self, data: memoryview, start: int) -> None:
        from .spark.decoder import scan

        self._added_bytes += len(data)
        is_large = self._kept and self._added_bytes >= _LARGE_TABLE_BYTES
        if self._decoder is None or start != self._decoder_start or is_large != self._is_large:
            self._close_decoder()
            self._decoder_start, self._is_large = start, is_large
            self._decoder = self._new_decoder(start)
        source, table, _ = scan(data)
        self._batches += self._decoder.feed(source, table)

    def _new_decoder(self, start: int) -> Any:
        from .spark.arrow_memory import large_pages
        from .spark.columns import Column
        from .spark.decoder import ArrowDecoder

        columns = [Column(name) for name in self._names]
        sizes: dict[str, Any] = {"max_rows": self._max_rows}
        if self._is_large:
            sizes = {"max_rows": _LARGE_ROWS, "max_bytes": _LARGE_BYTES, "memory": large_pages}
        return ArrowDecoder(columns, *self._partition, start, self._end, check_crcs=False, **sizes)

    def _close_decoder(self) -> None:
        if self._decoder is not None and (rest := self._decoder.rest()) is not None:
            self._batches.append(rest)

    def _add_records(self, data: memoryview, start: int) -> None:
        for at, header in iter_headers(data):
            for record in iter_records(data, at, header, False):
                if start <= record.offset < self._end:
                    self._records.append(record)
                    self._types.append(int(header.timestamp_type))
            if len(self._records) >= _MAX_ROWS:
                self._batches.append(self._flush())

    def _flush(self) -> Any:
        records, self._records = self._records, []
        types, self._types = self._types, []
        topic, number = self._partition
        values: dict[str, Any] = {
            "key": lambda: [record.key for record in records],
            "value": lambda: [record.value for record in records],
            "topic": lambda: [topic] * len(records),
            "partition": lambda: [number] * len(records),
            "offset": lambda: [record.offset for record in records],
            "timestamp": lambda: [record.timestamp_ms * 1000 for record in records],
            "timestampType": lambda: types,
            "headers": lambda: [
                [{"key": key, "value": value} for key, value in record.headers] or None for record in records
            ],
        }
        arrays = [self._arrow.array(values[name](), self._schema.field(name).type) for name in self._names]
        return self._arrow.RecordBatch.from_arrays(arrays, schema=self._schema)


@cache  # each poll's table asks
def _schema(columns: tuple[str, ...]) -> Any:
    arrow: Any = import_module("pyarrow")
    types = {
        "key": arrow.binary(),
        "value": arrow.binary(),
        "topic": arrow.string(),
        "partition": arrow.int32(),
        "offset": arrow.int64(),
        "timestamp": arrow.timestamp("us", tz="UTC"),
        "timestampType": arrow.int32(),
    }
    entry = arrow.struct([arrow.field("key", arrow.string()), arrow.field("value", arrow.binary())])
    types["headers"] = arrow.list_(arrow.field("element", entry))
    return arrow.schema([arrow.field(name, types[name]) for name in columns])
