"""Assignors: how the partitions of a group are shared out. See `assignor` for the common type."""

from .assignor import Assignor, Member
from .range import RangeAssignor
from .round_robin import RoundRobinAssignor

__all__ = ["Assignor", "Member", "RangeAssignor", "RoundRobinAssignor"]
