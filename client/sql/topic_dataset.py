"""A topic as an Arrow dataset: DuckDB names the columns and the filter of a scan, and gets batches as they are read.

    offset int64 | partition int32 | timestamp timestamp[us, UTC] | key | value | topic string | headers list

Key and value are text, or bytes where the user asks for that. Behind them come the columns that `Fields` make of
values. Offsets that cannot match the filter are not read, nor
columns that nobody needs. What is read goes through the filter row by row. A scan holds one section and one Arrow batch
at a time.

A filter is an Arrow expression, which nobody can look into. But Arrow says of a fragment with a guarantee, such as
`partition = 1 and offset < 500`, whether the filter can match anything in it. A binary search over such guarantees
finds the bounds, whatever the filter is made of. Where Arrow does not know, it says yes, and more is read.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUntypedBaseClass=false, reportUnknownLambdaType=false
# pyarrow has no types.

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from ..arrow.brokers import Brokers
from ..arrow.connection import ReadOptions
from ..arrow.decoder import range_batches, schema_of
from ..arrow.fetch import OffsetRange, whole_topic
from ..errors import InvalidOption
from ..record import TopicPartition
from .fields import COLUMNS, JsonFields
from .registered_values import RegisteredValues

if TYPE_CHECKING:
    from ..archive.union import Cut

_BYTES = ("key", "value")
# Later than any timestamp that people have, in milliseconds: the year 10889.
_LAST_MS = 1 << 48
_TYPES = {"partition": pa.int32(), "offset": pa.int64(), "timestamp": pa.timestamp("us", tz="UTC")}


class NotText(InvalidOption):
    """A key or value is no UTF-8, and the user has not asked for bytes."""


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets [start, end) of a partition, of which those before the first record at `from_ms` cannot match."""

    partition: int
    start: int
    end: int
    from_ms: int = 0


class TopicDataset(ds.Dataset):
    """The records of a topic up to its end as it is when a query begins. DuckDB calls `scanner` for each scan."""

    def __init__(
        self,
        topic: str,
        options: ReadOptions,
        *,
        is_binary: bool,
        decoders: Mapping[str, RegisteredValues] | None = None,
        look: Callable[[], Cut] | None = None,
    ) -> None:
        """`decoders` make the texts of keys and values, by column. `look` cuts the topic where its archive ends."""
        # The base class has an initialiser that fails: datasets come from factories. Nothing of it is used here.
        self.topic = topic
        self._options = options
        self._is_binary = is_binary
        self._decoders = decoders or {}
        # Further columns.
        self.fields: JsonFields | RegisteredValues | None = None
        self._look = look
        self._halves: tuple[Cut | None, list[OffsetRange]] | None = None
        # Two scans of one query may begin in two threads, and see the same ends.
        self._looking = Lock()
        # What a scan has failed with: DuckDB would make a text of it.
        self.failure: Exception | None = None
        # The offsets that scans of the last query were to read, newest last.
        self.scanned: list[Span] = []

    def begin(self) -> None:
        """Begin a query: its scans read up to the ends that the log has at the first one."""
        self._halves, self.failure, self.scanned = None, None, []

    @property
    def schema(self) -> Any:
        plain = list(_schema(COLUMNS, is_binary=self._is_binary))
        return pa.schema([*plain, *(() if self.fields is None else self.fields.schema)])

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> TopicScan:
        """Return a scan of these columns, of the rows that match `filter`. Other options change no row."""
        return TopicScan(self, list(columns or self.schema.names), filter)

    def batches(self, columns: Sequence[str], filter: Any) -> Iterator[Any]:
        """Yield Arrow batches with these columns, of rows that match `filter`."""
        try:
            named = {*columns, *(() if filter is None else columns_in(filter, self.schema))}
            needed = [name for name in self.schema.names if name in named] or [COLUMNS[0]]
            for batch in self._read(needed, filter):
                found = batch if filter is None else batch.filter(filter)
                if found.num_rows:
                    yield found.select(columns)
        except Exception as error:
            self.failure = error
            raise

    def _read(self, needed: Sequence[str], filter: Any) -> Iterator[Any]:
        """Yield Arrow batches with these columns, of the offsets that can match: first those of the archive."""
        with self._looking:
            if self._halves is None:
                self._halves = self._looked_up()
            cut, hot = self._halves
        options = self._options if cut is None or cut.reading is None else cut.reading
        stored = [name for name in COLUMNS if name in needed or (name == "value" and not {*needed} <= {*COLUMNS})]
        if cut is not None:
            for wanted, from_ms in self._wanted(cut.cold, filter):
                for batch in cut.cold_batches(wanted, stored, from_ms):
                    yield self._made(batch, needed, wanted)
        for wanted, _ in self._wanted(hot, filter, is_hot=True):
            for batch in range_batches(wanted, options, stored):
                yield self._made(batch, needed, wanted)

    def _looked_up(self) -> tuple[Cut | None, list[OffsetRange]]:
        if self._look is None:
            return None, whole_topic(self.topic, Brokers(self._options.client))
        cut = self._look()
        return cut, cut.hot

    def _wanted(
        self, ranges: Sequence[OffsetRange], filter: Any, *, is_hot: bool = False
    ) -> list[tuple[OffsetRange, int]]:
        """Return the ranges without the offsets that cannot match, and the time before which no record can."""
        by_partition = {each.partition: each for each in ranges if each.size}
        spans = [Span(each.partition, each.start, each.end) for each in by_partition.values()]
        if filter is not None:
            spans = prune(filter, self.schema, spans)
            spans = self._later(spans) if is_hot else spans
        self.scanned += spans
        return [(replace(by_partition[span.partition], start=span.start, end=span.end), span.from_ms) for span in spans]

    def _later(self, spans: list[Span]) -> list[Span]:
        """Return the spans from the first record at or after their time on. Later ones may still be earlier."""
        times = {TopicPartition(self.topic, span.partition): span.from_ms for span in spans if span.from_ms}
        if not times:
            return spans
        brokers = Brokers(self._options.client)
        found = brokers.retry(lambda: brokers.offsets_at(times))
        begun: list[Span] = []
        for span in spans:
            first = found.get(TopicPartition(self.topic, span.partition), span.start)
            start = span.end if first < 0 else max(span.start, first)
            if start < span.end:
                begun.append(Span(span.partition, start, span.end))
        return begun

    def _made(self, batch: Any, needed: Sequence[str], wanted: OffsetRange) -> Any:
        """Return a batch of stored columns as these columns."""
        plain, made = ([name for name in needed if (name in COLUMNS) == is_plain] for is_plain in (True, False))
        columns = {name: self._text(name, batch.column(name), wanted) for name in plain}
        if made:
            assert self.fields is not None
            values = batch.column("value")
            if not self.fields.reads_bytes:
                values = columns["value"] if "value" in columns else self._text("value", values, wanted)
            columns |= zip(made, self.fields.arrays(values, made), strict=True)
        schema = self.schema
        arrays = [columns[name] for name in needed]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([schema.field(name) for name in needed]))

    def _text(self, name: str, column: Any, wanted: OffsetRange) -> Any:
        """Return keys or values as text, unless bytes were asked for, and other columns as they are. Raises NotText."""
        if name not in _BYTES or self._is_binary:
            return column
        if name in self._decoders:
            return self._decoders[name].texts(column)
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid:
            where = f"{wanted.topic}-{wanted.partition}"
            raise NotText(f"{where} has a key or value that is no UTF-8 text: give --binary to have bytes") from None


class TopicScan:
    """One scan, with the two members of an Arrow scanner that DuckDB uses."""

    def __init__(self, dataset: TopicDataset, columns: list[str], filter: Any) -> None:
        self._dataset = dataset
        self._columns = columns
        self._filter = filter
        self.projected_schema: Any = pa.schema([dataset.schema.field(name) for name in columns])

    def to_reader(self) -> Any:
        """Return a `pyarrow.RecordBatchReader`, which reads as it is read."""
        return pa.RecordBatchReader.from_batches(
            self.projected_schema, self._dataset.batches(self._columns, self._filter)
        )


def _schema(columns: Sequence[str], *, is_binary: bool) -> Any:
    plain = schema_of(tuple(columns))
    if is_binary:
        return plain
    return pa.schema([pa.field(each.name, pa.string()) if each.name in _BYTES else each for each in plain])


# -- What a filter can match


def columns_in(expression: Any, schema: Any) -> set[str]:
    """Return the columns that an expression names: it cannot be bound without them."""
    text = str(expression)
    return {name for name in schema.names if name in text and not _binds(expression, schema, name)}


def _binds(expression: Any, schema: Any, without: str) -> bool:
    """Tell whether an expression can be evaluated without a column."""
    try:
        pa.schema([each for each in schema if each.name != without]).empty_table().filter(expression)
    except pa.ArrowInvalid:
        return False
    return True


def prune(expression: Any, schema: Any, spans: Sequence[Span]) -> list[Span]:
    """Return what of `spans` can match `expression`. `schema` has all columns that it names."""
    possible = _Filter(expression, schema)
    left = [span for span, may in zip(spans, possible.may([_of(each) for each in spans]), strict=True) if may]
    if possible.names("offset"):
        starts = _first(left, [(each.start, each.end) for each in left], possible, _up_to("offset"))
        left = [replace(span, start=at) for span, at in zip(left, starts, strict=True) if at < span.end]
        ends = _first(left, [(each.start, each.end) for each in left], possible, _from("offset"), may=False)
        left = [replace(span, end=at) for span, at in zip(left, ends, strict=True) if at > span.start]
    if possible.names("timestamp"):
        times = _first(left, [(0, _LAST_MS)] * len(left), possible, _up_to("timestamp"))
        left = [replace(span, from_ms=at) for span, at in zip(left, times, strict=True) if at < _LAST_MS]
    return left


class _Filter:
    """Whether an expression can match rows that fulfil a guarantee."""

    def __init__(self, expression: Any, schema: Any) -> None:
        self._expression = expression
        self._columns = columns_in(expression, schema)
        self._schema = schema
        self._format = ds.IpcFileFormat()
        self._files = fs.LocalFileSystem()

    def names(self, column: str) -> bool:
        """Return whether the expression names a column."""
        return column in self._columns

    def may(self, guarantees: Sequence[Any]) -> list[bool]:
        """Return for each guarantee whether rows that fulfil it may match. No file is opened."""
        fragments = [
            self._format.make_fragment(str(number), filesystem=self._files, partition_expression=each)
            for number, each in enumerate(guarantees)
        ]
        every = ds.FileSystemDataset(fragments, self._schema, self._format, self._files)
        found = {int(each.path) for each in every.get_fragments(filter=self._expression)}
        return [number in found for number in range(len(fragments))]


_Guarantee = Callable[[Span, int], Any]


def _value(column: str, number: int) -> Any:
    return pa.scalar(number * 1000 if column == "timestamp" else number, _TYPES[column])


def _of(span: Span) -> Any:
    return ds.field("partition") == _value("partition", span.partition)


def _up_to(column: str) -> _Guarantee:
    return lambda span, at: _of(span) & (ds.field(column) <= _value(column, at))


def _from(column: str) -> _Guarantee:
    return lambda span, at: _of(span) & (ds.field(column) >= _value(column, at))


def _first(
    spans: Sequence[Span],
    bounds: Sequence[tuple[int, int]],
    possible: _Filter,
    guarantee: _Guarantee,
    *,
    may: bool = True,
) -> list[int]:
    """Return for each span the first number in its bounds whose guarantee may hold, or may not; the end where none."""
    low, high = [first for first, _ in bounds], [end for _, end in bounds]
    while any(first < end for first, end in zip(low, high, strict=True)):
        middle = [(first + end) // 2 for first, end in zip(low, high, strict=True)]
        found = possible.may([guarantee(span, at) for span, at in zip(spans, middle, strict=True)])
        for number, at in enumerate(middle):
            if low[number] < high[number]:
                if found[number] == may:
                    high[number] = at
                else:
                    low[number] = at + 1
    return low
