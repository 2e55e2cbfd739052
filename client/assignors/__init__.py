"""Assignors: how the partitions of a group are shared out. See `assignor` for the common type."""

from __future__ import annotations

from .assignor import NO_GENERATION, Assignor, Member, Racks, RangeAssignor, RoundRobinAssignor
from .sticky import CooperativeStickyAssignor, StickyAssignor

__all__ = [
    "NO_GENERATION",
    "Assignor",
    "CooperativeStickyAssignor",
    "Member",
    "Racks",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
]
