"""The time line of a failure, as a person reads it: what became of machines, and what is about the violations."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

Line = tuple[float, str, str]

# So many lines that only may have to do with it are chosen, the last ones.
_MOST_LINES = 100
_NUMBERS = re.compile(r"\d+")
# What violations name: records and transactions; partitions and clients.
_RECORDS = re.compile(r"b'[^']*'")
_TRANSACTIONS = re.compile(r"\b[a-z]+\d+:\d+\b")
_PLACES = re.compile(r"\b[a-z_]+\d*-\d+\b|\b(?:member|share|txn|old|namesake|plain)\d+\b(?![.:])")
# What becomes of a broker.
_ENDS_AND_BEGINNINGS = ("serves", "is dead", "has no power", "has stopped", "has lost its directory", "does not start")


def told(story: Sequence[Line], violations: Sequence[str]) -> list[str]:
    """Return the time line as texts.

    Faults, what became of brokers, and what names a record of the violations stand there from the begin. What names
    their partitions and clients, and all else that was said, fill the rest. What is said again and again is there once.
    """
    records, places = _any_of(violations, _RECORDS, _TRANSACTIONS), _any_of(violations, _PLACES)
    weights = [_weight(line, records, places) for line in story]
    chosen = {at for at, weight in enumerate(weights) if weight == 0}
    room = _MOST_LINES
    for weight in (1, 2):
        found = [at for at, each in enumerate(weights) if each == weight]
        last = found[len(found) - min(room, len(found)) :]
        chosen.update(last)
        room -= len(last)
    lines = list(_joined([story[at] for at in sorted(chosen)]))
    return [*lines, f"(left out: {len(story) - len(chosen)} lines that name nothing of it)"]


def awaited(task: asyncio.Task[Any]) -> str:
    """Return the names of the functions in which a task waits, the outermost first."""
    names, each = list[str](), task.get_coro()
    while kind := next((kind for kind in ("cr", "ag", "gi") if hasattr(each, kind + "_code")), None):
        names.append(getattr(each, kind + "_code").co_name)
        each = getattr(each, {"gi": "gi_yieldfrom"}.get(kind, kind + "_await"))
    return " > ".join(names)


def _any_of(violations: Sequence[str], *patterns: re.Pattern[str]) -> re.Pattern[str]:
    """Return what finds any of the names in the violations, and no longer ones that begin alike."""
    names = {name for each in violations for pattern in patterns for name in pattern.findall(each)}
    return re.compile("|".join(rf"{re.escape(name)}(?!\d)" for name in sorted(names)) or "(?!)")


def _weight(line: Line, records: re.Pattern[str], places: re.Pattern[str]) -> int:
    """Return how much a line has to do with the violations; 0: it must be there."""
    _, who, what = line
    if who == "operator" or what.startswith(_ENDS_AND_BEGINNINGS) or records.search(what):
        return 0
    if what.startswith("transaction ") or " is acknowledged at " in what:
        return 3
    is_cut = "before the power cut" in what
    if places.search(what) or places.search(who):
        return 0 if who == "zookeeper" or (is_cut and "partition.metadata" not in what) else 1
    if is_cut or what.endswith(" is committed"):
        return 3
    return 2


def _joined(lines: Sequence[Line]) -> Iterator[str]:
    """Join what one says again and again, but for the numbers in it; faults and who leads are never joined."""
    for (who, _), group in groupby(lines, _kind):
        first, *more = list(group)
        yield f"{first[0]:9.3f} s  {who:<16} {first[2]}"
        if more:
            yield f"{more[-1][0]:9.3f} s  {who:<16} ... {len(more)} more like this, the last: {more[-1][2][-80:]}"


def _kind(line: Line) -> tuple[str, str]:
    _, who, what = line
    return who, what if who in ("operator", "zookeeper") else _NUMBERS.sub("", what)
