"""The part of each partition that `odradek consume` prints: the text of `--offset`, and the offsets that it means.

start | end | N | -N (the last N of each partition) | N-M (both included) | @TIME (ISO 8601, or epoch milliseconds)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from .errors import CliError
from .values import INT64, parse_search_time_ms

if TYPE_CHECKING:
    from ..client import Admin, TopicPartition

FORMS = "start|end|N|-N|N-M|@TIME"
_NAMES = {"start": "start", "earliest": "start", "beginning": "start", "end": "end", "latest": "end"}
_NUMBERS = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """What `--offset` says. `number` is an offset, a count of records or a time in ms, as `kind` says."""

    # "start", "end", "offset", "tail" or "time".
    kind: str
    number: int = 0
    # The last offset to print, or None.
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where one partition is fetched from, and the offsets that are printed: from `first`, below `end` if not None."""

    fetch_from: int
    first: int
    end: int | None


def parse(text: str) -> OffsetRange:
    """Return the range that `text` names. UsageError for any other text."""
    found = _parsed(text)
    if max(abs(found.number), found.last or 0) > INT64:
        raise click.UsageError(f"--offset takes numbers up to {INT64}, not {text!r}")
    return found


def _parsed(text: str) -> OffsetRange:
    if text in _NAMES:
        return OffsetRange(_NAMES[text])
    if match := _NUMBERS.fullmatch(text):
        last = int(match[2]) if match[2] else None
        if last is None or last >= int(match[1]):
            return OffsetRange("offset", int(match[1]), last)
    if text.startswith("-") and text[1:].isascii() and text[1:].isdigit():
        return OffsetRange("tail", int(text[1:]))
    if text.startswith("@"):
        time_ms = parse_search_time_ms(text[1:])
        if time_ms is None:
            example = "@2026-11-21T08:00:00+01:00 or @1763708400000"
            raise click.UsageError(f"--offset {example}, not {text!r}")
        return OffsetRange("time", time_ms)
    raise click.UsageError(f"--offset is {FORMS}, not {text!r}")


def known_ones(
    partitions: Sequence[TopicPartition], known: Collection[TopicPartition], what: str
) -> list[TopicPartition]:
    """Return the partitions that are known, and say on standard error which are not. CliError where none is."""
    missing = [f"{each.topic}-{each.partition}" for each in partitions if each not in known]
    text = f"{what}, because it has no leader now, or its leader does not answer: {', '.join(missing)}"
    if missing and len(missing) == len(partitions):
        raise CliError(text)
    if missing:
        click.echo(f"odradek: {text}", err=True)
    return [each for each in partitions if each in known]


async def bounds_of(
    admin: Admin, partitions: list[TopicPartition], wanted: OffsetRange, isolation: str, wait: bool
) -> dict[TopicPartition, Bounds]:
    """Return the bounds of each partition.

    Those of which nothing is known now are left out, which standard error says. CliError if that holds for all, or if
    the range begins beyond the end of every partition, unless the caller waits for such records.
    """
    from ..client import EARLIEST, LATEST

    starts = await admin.list_offsets(dict.fromkeys(partitions, EARLIEST), partial=True)
    ends = await admin.list_offsets(dict.fromkeys(partitions, LATEST), isolation_level=isolation, partial=True)
    times = dict.fromkeys(partitions, wanted.number)
    at_time = await admin.list_offsets(times, partial=True) if wanted.kind == "time" else {}
    partitions = known_ones(partitions, starts.keys() & ends.keys(), "not read")
    bounds: dict[TopicPartition, Bounds] = {}
    for each in partitions:
        start, end = starts[each].offset, ends[each].offset
        first = {
            "start": start,
            "end": end,
            "offset": wanted.number,
            "tail": max(end - wanted.number, start),
            # Without a record at or after the time, the next record is the first.
            "time": at_time[each].offset if each in at_time and at_time[each].offset >= 0 else end,
        }[wanted.kind]
        stop = None if wanted.last is None else wanted.last + 1
        if stop is not None and not wait:
            # Nobody knows whether more will come.
            stop = min(stop, end)
        # The broker rejects a fetch beyond the end: the records before `first` are fetched and not printed.
        bounds[each] = Bounds(min(max(first, start), end), first, stop)
    if not wait and wanted.kind == "offset" and all(wanted.number > ends[each].offset for each in partitions):
        known = ", ".join(f"{each.topic}-{each.partition} ends at {ends[each].offset}" for each in partitions[:3])
        more = ", ..." if len(partitions) > 3 else ""
        raise CliError(f"offset {wanted.number} does not exist yet: {known}{more}; --wait waits for it")
    return bounds
