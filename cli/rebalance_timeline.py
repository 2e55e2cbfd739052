"""The output of `odradek groups explain`: a timeline of rebalances for people, rows for pipes and programs.

    BEGAN                          TOOK MS  JOINS MS  ASSIGNMENT MS  ENDING     GENERATION  MEMBERS
    2026-11-21T12:06:39.013+01:00  442      442       0              stable     2           2
        waited for: blue-09081787 442 ms came
        why: green-0eaa46e9 joined

Member ids are long. The members that a rebalance waited for, and its causes, have lines of their own, so that a line
fits into `WIDTH` columns.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from .output import as_text, chosen, print_rows, time_format

if TYPE_CHECKING:
    from ..client.core.descriptions import GroupRebalance

WIDTH = 100
# The columns of the timeline, with their widths.
_TIMELINE = {"began": 29, "took_ms": 8, "joins_ms": 8, "assignment_ms": 13, "ending": 9, "generation": 10, "members": 7}
_ROW = (*_TIMELINE, "waited_for", "why")
_INDENT = "    "


def show(rebalances: Iterable[GroupRebalance]) -> None:
    """Print rebalances as a timeline, or as rows if standard output is no terminal."""
    if sys.stdout.isatty() and not chosen("json"):
        _show_timeline(rebalances)
        return
    print_rows(_ROW, (_as_object(each) if chosen("json") else _as_row(each) for each in rebalances))


def _show_timeline(rebalances: Iterable[GroupRebalance]) -> None:
    click.secho(_line({name: name.upper().replace("_", " ") for name in _TIMELINE}), bold=True)
    for each in rebalances:
        row = _as_row(each)
        click.echo(_line(row))
        for waited in row["waited_for"] or ():
            _tell(f"waited for: {waited}")
        _tell(f"why: {row['why']}")


def _line(row: dict[str, Any]) -> str:
    return "  ".join(as_text(row[name]).ljust(width) for name, width in _TIMELINE.items()).rstrip()


def _tell(text: str) -> None:
    for line in textwrap.wrap(
        text, WIDTH, initial_indent=_INDENT, subsequent_indent=2 * _INDENT, break_on_hyphens=False
    ):
        click.echo(line)


def _as_object(each: GroupRebalance) -> dict[str, Any]:
    """Return all of a rebalance, with its times in the form that was chosen."""
    values = asdict(each)
    began_ms, ended_ms = values.pop("began_ms"), values.pop("ended_ms")
    time_text = time_format()
    return {"began": time_text(began_ms), "ended": None if ended_ms is None else time_text(ended_ms)} | values


def _as_row(each: GroupRebalance) -> dict[str, Any]:
    """Return a rebalance as one row, with its causes last."""
    return {
        "began": time_format()(each.began_ms),
        "took_ms": None if each.ended_ms is None else max(each.ended_ms - each.began_ms, 0),
        "joins_ms": each.joins_ms,
        "assignment_ms": each.assignment_ms,
        "ending": each.ending,
        "generation": each.generation if each.generation >= 0 else None,
        "members": each.members,
        "waited_for": [f"{wait.member_id} {wait.waited_ms} ms {wait.fate}" for wait in each.waited] or None,
        "why": "; ".join([cause.text for cause in each.causes] + [f"{each.more_causes} more"] * bool(each.more_causes)),
    }
