"""Rows on standard output, in the form that suits the reader.

A terminal gets a table with a header. A pipe gets tab-separated values without a header, one row a line (for cut and
awk). `--json` prints one JSON object a line. Rows are printed as they come: the first ones decide the widths of a
table, so a file of any length is shown in bounded memory.
"""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import click

# The rows that decide the widths of a table's columns.
_ROWS_TO_MEASURE = 200
# The widest column of a table. A longer value only moves the rest of its own line.
_MAX_WIDTH = 60

json_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a line."
)

Row = Mapping[str, Any]


class Rows:
    """Prints rows. Use it as `with Rows(columns, as_json) as rows: rows.add({...})`, with values by column name."""

    def __init__(self, columns: Sequence[str], as_json: bool) -> None:
        self._columns = columns
        self._terminal = sys.stdout.isatty()
        self._as_json = as_json
        self._waiting: list[list[str]] = []
        self._widths: list[int] | None = None

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()

    def add(self, row: Row) -> None:
        if self._as_json:
            click.echo(as_json(row))
        elif not self._terminal:
            click.echo("\t".join(as_text(row.get(column)) for column in self._columns))
        else:
            self._waiting.append([as_text(row.get(column)) for column in self._columns])
            if self._widths is not None or len(self._waiting) >= _ROWS_TO_MEASURE:
                self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        if self._widths is None:
            titles = [column.upper().replace("_", " ") for column in self._columns]
            columns = zip(titles, *self._waiting, strict=True)
            self._widths = [min(max(map(len, column)), _MAX_WIDTH) for column in columns]
            click.secho(self._line(titles), bold=True)
        for row in self._waiting:
            click.echo(self._line(row))
        self._waiting.clear()

    def _line(self, cells: Sequence[str]) -> str:
        assert self._widths is not None
        return "  ".join(cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True)).rstrip()


def as_text(value: object) -> str:
    """Return a value as one printable line: bytes as text, the rest of them escaped; `-` for None."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    if isinstance(value, (list, tuple)):
        return ",".join(as_text(each) for each in cast("Sequence[object]", value))
    text = str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


def as_json(row: Row) -> str:
    """Return a row as a JSON object. Bytes that are not UTF-8 become `{"base64": "..."}`."""
    import json

    return json.dumps(row, default=_json_value, ensure_ascii=False)


def _json_value(value: object) -> object:
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return {"base64": b64encode(value).decode("ascii")}
    return str(value)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
