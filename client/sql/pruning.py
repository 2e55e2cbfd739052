"""From a filter to the offsets and times that can match it: what need not be read.

A filter is an Arrow expression, which nobody can look into. But Arrow says of a fragment with a guarantee, such as
`partition = 1 and offset < 500`, whether the filter can match anything in it. A binary search over such guarantees
finds the bounds, whatever the filter is made of. Where Arrow does not know, it says yes, and more is read.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownLambdaType=false
# pyarrow has no types.

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

# Later than any timestamp that people have, in milliseconds: the year 10889.
_LAST_MS = 1 << 48
_TYPES = {"partition": pa.int32(), "offset": pa.int64(), "timestamp": pa.timestamp("us", tz="UTC")}


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets [start, end) of a partition, of which those before the first record at `from_ms` cannot match."""

    partition: int
    start: int
    end: int
    from_ms: int = 0


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
        self._text = str(expression)
        self._schema = schema
        self._format = ds.IpcFileFormat()
        self._files = fs.LocalFileSystem()

    def names(self, column: str) -> bool:
        """Return whether the expression may name a column."""
        return column in self._text

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
