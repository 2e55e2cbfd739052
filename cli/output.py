"""Rows on standard output, in the form that suits the reader.

A terminal gets a table with a header, cut to its width; `--wide` shows all of each cell. Where cells would be cut to
nothing, the last columns are left out, which is said: columns stand in the order in which they are needed. A pipe gets
tab-separated values, one row a line (for cut and awk), under a header with `--header`. `--json` prints one JSON object
a line.

Rows are printed as they come: the first ones decide the widths of a table, so a file of any length is shown in bounded
memory.

Numbers of bytes and milliseconds have units in a table only: a column's name says what it counts. Times are ISO 8601
with the zone, in local time; --utc and --epoch choose another form:

2026-11-21T10:05:52.123+01:00      2026-11-21T09:05:52.123Z with --utc      1795251952123 with --epoch
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, chain, count
from typing import Any, cast
from unicodedata import category, east_asian_width

import click

from ..client.core.record_json import as_json, iso_text, moment_of, utc_text
from .values import Number, size_text, time_text

# The rows that decide the widths of a table's columns.
_ROWS_TO_MEASURE = 200
# The widest column of a table that is not cut. A longer value only moves the rest of its own line.
_MAX_WIDTH = 60
# Columns are cut to this width. Where the table is still too wide, the last ones are left out, but for so many, which
# are cut further.
_LEAST_WIDTH = 8
_LEAST_COLUMNS = 2
_SMALLEST_WIDTH = 4
_GAP = "  "
# Where the choices of --json, --header, --wide, --utc and --epoch are kept in a click context.
_CHOICES = "odradek.rows"

Row = Mapping[str, Any]


def _choice(name: str, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return an option that `chosen` knows."""

    def note(context: click.Context, parameter: click.Parameter, given: bool) -> None:
        choices: set[str | None] = context.meta.setdefault(_CHOICES, set())
        if given:
            choices.add(parameter.name)
        if choices >= {"utc", "epoch"}:
            raise click.UsageError("only one of --utc and --epoch")

    return click.option(f"--{name}", is_flag=True, expose_value=False, callback=note, help=text)


json_option = _choice("json", "One JSON object a line.")


def row_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command that prints rows --json, --header and --wide, which `Rows` acts on."""
    function = _choice("wide", "Cut no cell of a table.")(function)
    return json_option(_choice("header", "Begin tab-separated values with a header.")(function))


def chosen(name: str) -> bool:
    """Return whether the command that runs was given "json", "header", "wide", "utc" or "epoch"."""
    context = click.get_current_context(silent=True)
    return context is not None and name in context.meta.get(_CHOICES, ())


def print_rows(columns: Sequence[str], rows: Iterable[Row | Sequence[Any]]) -> None:
    """Print rows, each with its values by column name, or in the order of the columns."""
    with Rows(columns) as printed:
        for row in rows:
            printed.add(row)


class Rows:
    """Prints rows. Use it as `with Rows(columns) as rows: rows.add({...})`, with values by column name, or in order."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._names = _distinct(columns)
        self._terminal = sys.stdout.isatty()
        self._as_json = chosen("json")
        self._waiting: list[list[str]] = []
        self._widths: list[int] | None = None
        self._is_wide = chosen("wide")
        if chosen("header") and not self._terminal and not self._as_json:
            click.echo("\t".join(columns))

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()

    def add(self, row: Row | Sequence[Any]) -> None:
        # By their places: columns of a query may have the same name.
        values = [row.get(column) for column in self._columns] if isinstance(row, Mapping) else row
        if self._as_json:
            click.echo(as_json(row if isinstance(row, Mapping) else dict(zip(self._names, values, strict=True))))
        elif not self._terminal:
            click.echo("\t".join(map(as_text, values)))
        else:
            self._waiting.append([_cell(column, each) for column, each in zip(self._columns, values, strict=True)])
            if self._widths is not None or len(self._waiting) >= _ROWS_TO_MEASURE:
                self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        if self._widths is None:
            titles = [_title(column) for column in self._columns]
            columns = zip(titles, *self._waiting, strict=True)
            self._widths = self._fitted([max(map(_width, column)) for column in columns])
            left_out = titles[len(self._widths) :]
            if left_out:
                text = f"this terminal has no room for {', '.join(left_out).lower()}: --wide and --json show them"
                click.secho(text, dim=True, err=True)
            click.secho(self._line(titles), bold=True)
        for row in self._waiting:
            click.echo(self._line(row))
        self._waiting.clear()

    def _fitted(self, widths: list[int]) -> list[int]:
        """Return the widths of the columns that fit the terminal: the widest ones give way first, then the last."""
        if self._is_wide:
            return [min(width, _MAX_WIDTH) for width in widths]
        columns = shutil.get_terminal_size().columns
        count = len(widths)
        while count > _LEAST_COLUMNS and _narrowest(widths[:count]) > columns:
            count -= 1
        fitted, room = widths[:count], columns - len(_GAP) * (count - 1)
        while sum(fitted) > room and max(fitted) > _SMALLEST_WIDTH:
            widest = max(fitted)
            fitted[fitted.index(widest)] = widest - 1
        return fitted

    def _line(self, cells: Sequence[str]) -> str:
        assert self._widths is not None
        cells = cells[: len(self._widths)]
        if not self._is_wide:
            cells = [_cut(cell, width) for cell, width in zip(cells, self._widths, strict=True)]
        padded = [cell + " " * (width - _width(cell)) for cell, width in zip(cells, self._widths, strict=True)]
        return _GAP.join(padded).rstrip()


def _distinct(names: Sequence[str]) -> list[str]:
    """Return names for an object of JSON: of columns with the same name, all but the first get a number."""
    made: dict[str, None] = {}
    for name in names:
        numbered = (f"{name}_{number}" for number in count(1))
        made[next(each for each in chain([name], numbered) if each not in made)] = None
    return list(made)


def _narrowest(widths: Sequence[int]) -> int:
    """Return how wide a table is whose columns are cut as far as may be."""
    return sum(min(width, _LEAST_WIDTH) for width in widths) + len(_GAP) * (len(widths) - 1)


def _cut(cell: str, width: int) -> str:
    """Return a cell without its middle, if it is too wide: names differ at their ends."""
    if _width(cell) <= width:
        return cell
    end = (width - 1) // 2
    return _begin(cell, width - 1 - end) + "…" + _begin(cell[::-1], end)[::-1]


def _begin(text: str, width: int) -> str:
    """Return the characters of a text that are in its first columns."""
    widths = accumulate(map(_width, text))
    return "".join(char for char, sum_of in zip(text, widths, strict=True) if sum_of <= width)


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes: two for a wide character, none for a mark over another."""
    if text.isascii():
        return len(text)
    return sum(0 if category(c) in ("Mn", "Me") else 2 if east_asian_width(c) in ("W", "F") else 1 for c in text)


def _title(column: str) -> str:
    if column == "records":
        # A difference of offsets, and compaction and the markers of transactions leave fewer.
        return "MAX RECORDS"
    return column.removesuffix("_bytes").removesuffix("_ms").upper().replace("_", " ")


def _cell(column: str, value: object) -> str:
    """Return the text of a table's cell: sizes and durations with their unit."""
    if isinstance(value, int) and value >= 0:
        if column.endswith("_bytes"):
            return size_text(value)
        if column.endswith("_ms"):
            return time_text(value)
    return as_text(value)


def as_text(value: object) -> str:
    """Return a value as one printable line: bytes as text, the rest of them escaped; `-` for None."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        value = as_json(cast("Row", value))
    if isinstance(value, (list, tuple)):
        return ",".join(as_text(each) for each in cast("Sequence[object]", value))
    text = str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


# Clears the screen of a terminal and goes to its top.
_CLEAR = "\033[H\033[2J"
_DEFAULT_S = 2.0

watch_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--watch", "every_s", metavar="SECONDS", type=Number(min=0.1), is_flag=False, flag_value=_DEFAULT_S,
    help=f"Print it again every SECONDS ({_DEFAULT_S:g} if none are given) until Ctrl-C.",
)  # fmt: skip


def watch(every_s: float | None, show: Callable[[], None]) -> None:
    """Call `show` once, or every `every_s` seconds if that is given. A terminal is cleared in between."""
    while True:
        if every_s is not None and sys.stdout.isatty():
            click.echo(_CLEAR, nl=False)
        show()
        if every_s is None:
            return
        sys.stdout.flush()
        time.sleep(every_s)


TimeText = Callable[[int], "str | int"]


def time_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --utc and --epoch; `time_format` knows what was chosen."""
    function = _choice("epoch", "Times in milliseconds since 1970.")(function)
    return _choice("utc", "Times in UTC, not in local time.")(function)


def time_format() -> TimeText:
    """Return the function that writes a time, given in milliseconds, in the form that the user chose.

    It returns a time that no calendar shows, such as -1 for none, as it is.
    """
    if chosen("epoch"):
        return lambda time_ms: time_ms
    return utc_text if chosen("utc") else local_text


def local_text(time_ms: int) -> str | int:
    """Return a time as ISO 8601 with the offset of the local zone at that time."""
    moment = moment_of(time_ms)
    return time_ms if moment is None else iso_text(moment.astimezone(), time_ms)
