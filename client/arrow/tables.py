"""Records of one partition as a `pyarrow.Table`: what polls and `read_topic` return, with the columns of decoder.py.

This module needs no pyarrow (`pip install odradek[tables]`) until a table is made.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ... import how_to_install
from ..errors import InvalidOption
from ..record import TopicPartition

if TYPE_CHECKING:
    from .decoder import ArrowDecoder

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
DEFAULT_COLUMNS = COLUMNS[:-1]
# Rows of one Arrow batch: enough for vector code, little memory at a time.
_MAX_ROWS = 65_536
# The same of a table that stays and that has got so many bytes: its columns fill large pages of memory.
_LARGE_TABLE_BYTES = 4 << 20
_LARGE_ROWS, _LARGE_BYTES = 524_288, 64 << 20
_NO_END = 2**63 - 1


def check_columns(columns: Sequence[str]) -> None:
    """Raise InvalidOption unless a table can have these columns."""
    wanted = set() if isinstance(columns, str) else set(columns)
    if not wanted or not wanted <= {*COLUMNS} or len(wanted) != len(columns):
        raise InvalidOption(f"columns is a list of {', '.join(COLUMNS)}, each once, not {columns!r:.100}")


class ArrowColumns:
    """Fills columns with the records of one partition whose offsets are below `end`."""

    def __init__(
        self,
        columns: Sequence[str],
        partition: TopicPartition,
        end: int | None = None,
        *,
        max_rows: int = _MAX_ROWS,
        kept: bool = False,
    ) -> None:
        """Fill these columns. `kept`: the table stays in memory, and may be large."""
        check_columns(columns)
        try:
            import pyarrow

            from . import batches, decoder
        except ImportError as error:
            raise InvalidOption(f"Arrow tables need pyarrow and numpy: {how_to_install('tables')}") from error
        self._arrow: Any = pyarrow
        self._scan, self._new_decoder = batches.scan, decoder.ArrowDecoder
        self._partition = partition
        self._end = _NO_END if end is None else end
        # Of one Arrow batch. The kernel makes room for so many at once.
        self._max_rows = min(max(max_rows, 1), _MAX_ROWS)
        self._kept = kept
        self._added_bytes = 0
        self._schema: Any = decoder.schema_of(tuple(columns))
        self._batches: list[Any] = []
        # One decoder for each first offset: nearly always one for all batches. And another one for a large table.
        self._decoder: ArrowDecoder | None = None
        self._decodes: tuple[int, bool] | None = None

    def add(self, data: memoryview, start: int) -> None:
        """Add the records of whole batches from offset `start` on. Their CRCs are not checked. Raises RecordError."""
        self._added_bytes += len(data)
        wanted = start, self._kept and self._added_bytes >= _LARGE_TABLE_BYTES
        decoder = self._decoder
        if decoder is None or self._decodes != wanted:
            self._close_decoder()
            decoder = self._decoder = self._opened(*wanted)
            self._decodes = wanted
        source, table, _ = self._scan(data)
        self._batches += decoder.feed(source, table)

    def table_of(self, batches: Sequence[Any]) -> Any:
        """Return a `pyarrow.Table` of Arrow batches that another decoder has made of these columns."""
        return self._arrow.Table.from_batches(batches, schema=self._schema)

    def table(self) -> Any:
        """Return a `pyarrow.Table` with what was added."""
        self._close_decoder()
        table = self.table_of(self._batches)
        self._batches = []
        return table

    def _opened(self, start: int, is_large: bool) -> ArrowDecoder:
        from .columns import large_pages

        sizes: dict[str, Any] = {"max_rows": self._max_rows}
        if is_large:
            sizes = {"max_rows": _LARGE_ROWS, "max_bytes": _LARGE_BYTES, "memory": large_pages}
        return self._new_decoder(self._schema, *self._partition, start, self._end, check_crcs=False, **sizes)

    def _close_decoder(self) -> None:
        if self._decoder is not None and (rest := self._decoder.rest()) is not None:
            self._batches.append(rest)
