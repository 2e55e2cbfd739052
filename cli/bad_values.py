"""Values that an option or an argument cannot take: what is wrong in plain words, with what it takes."""

from __future__ import annotations

import re
from typing import Any, cast

import click

# click says: 'abc' is not a valid integer range. | -5 is not in the range x>=1. | 'abc' is not one of 'all', '1'.
_REFUSED = re.compile(r"(?P<quoted>'.*'|\S+) is not (?:a valid|in the range|one of) ")


def in_plain_words(error: click.BadParameter) -> click.UsageError:
    """Return the error of a bad value: it names the option, the value, and what the option takes."""
    hint = error.param_hint or (error.param.opts[-1] if isinstance(error.param, click.Option) else None)
    if hint is None and error.param is not None:
        hint = error.param.make_metavar(error.ctx) if error.ctx is not None else error.param.name
    what = None if error.param is None else _takes(error.param.type)
    match = _REFUSED.match(error.message)
    if what is None or match is None:
        return click.UsageError(f"{hint}: {error.message}", error.ctx)
    value = match["quoted"] if match["quoted"].startswith("'") else f"'{match['quoted']}'"
    return click.UsageError(f"{hint} takes {what}, not {value}", error.ctx)


def _takes(kind: Any) -> str | None:
    """Return what a type of click takes; None for types of our own, whose messages say it."""
    if isinstance(kind, click.Choice):
        *others, last = map(str, cast("click.Choice[Any]", kind).choices)
        return f"{', '.join(others)} or {last}" if others else last
    if isinstance(kind, click.IntRange):
        return f"a whole number{_range(kind.min, kind.max, is_open=kind.min_open)}"
    if isinstance(kind, click.FloatRange):
        return f"a number{_range(kind.min, kind.max, is_open=kind.min_open)}"
    if kind is click.INT:
        return "a whole number"
    return "a number" if kind is click.FLOAT else None


def _range(least: float | None, most: float | None, *, is_open: bool) -> str:
    if least is None:
        return ""
    if most is not None:
        return f" from {least} to {most}"
    return f" above {least}" if is_open else f" of {least} or more"
