"""Times on standard output: ISO 8601 with the zone, in local time; `--utc` and `--epoch` choose another form.

2026-11-21T10:05:52.123+01:00      2026-11-21T09:05:52.123Z with --utc      1795251952123 with --epoch
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click

# Where the choice is kept in a click context.
_FORM = "odradek.times"

TimeText = Callable[[int], "str | int"]


def time_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --utc and --epoch; `time_format` knows what was chosen."""

    def note(context: click.Context, parameter: click.Parameter, given: bool) -> None:
        if not given:
            return
        if _FORM in context.meta:
            raise click.UsageError("only one of --utc and --epoch")
        context.meta[_FORM] = parameter.name

    for name, text in (("epoch", "Times in milliseconds since 1970."), ("utc", "Times in UTC, not in local time.")):
        function = click.option(f"--{name}", is_flag=True, expose_value=False, callback=note, help=text)(function)
    return function


def time_format() -> TimeText:
    """Return the function that writes a time, given in milliseconds, in the form that the user chose.

    It returns a time that no calendar shows, such as -1 for none, as it is.
    """
    context = click.get_current_context(silent=True)
    form = None if context is None else context.meta.get(_FORM)
    if form == "epoch":
        return lambda time_ms: time_ms
    return utc_text if form == "utc" else local_text


def local_text(time_ms: int) -> str | int:
    """Return a time as ISO 8601 with the offset of the local zone at that time."""
    moment = _moment(time_ms)
    return time_ms if moment is None else _with_ms(moment.astimezone(), time_ms)


def utc_text(time_ms: int) -> str | int:
    """Return a time as ISO 8601 in UTC, with a Z."""
    moment = _moment(time_ms)
    return time_ms if moment is None else _with_ms(moment, time_ms).removesuffix("+00:00") + "Z"


def _moment(time_ms: int) -> datetime | None:
    """Return the second that a time lies in; None where no calendar has it."""
    try:
        return datetime.fromtimestamp(time_ms // 1000, UTC) if time_ms >= 0 else None
    except (OverflowError, OSError, ValueError):
        return None


def _with_ms(moment: datetime, time_ms: int) -> str:
    # Not by dividing: a float has no room for the milliseconds of far times.
    return moment.replace(microsecond=time_ms % 1000 * 1000).isoformat(timespec="milliseconds")
