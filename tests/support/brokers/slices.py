"""Slices of the event loop by a clock that tests move: a slice ends after so many steps, on every machine."""

from __future__ import annotations

from itertools import count

from odradek.broker.turns import SLICE_NS, Keeper, keeper


def ticking_keeper(steps: int) -> Keeper:
    """Return a keeper whose slices end after so many looks at the clock."""
    ticks = count()
    return Keeper(lambda: next(ticks) * -(-SLICE_NS // steps))


def end_slices_after(steps: int) -> None:
    """Have the slices of the running event loop end after so many steps."""
    mine = keeper()
    mine.clock = ticking_keeper(steps).clock
    # Otherwise a slice that is open in this turn would end by the clock of before: never.
    mine._ends_ns = mine.clock() + SLICE_NS
