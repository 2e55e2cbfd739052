"""What a share group is configured to: its limits, what it reads, and where it begins."""

from __future__ import annotations

from typing import Final, NamedTuple

from .share_partition import Limits

LATEST: Final = -1
EARLIEST: Final = -2


class Settings(NamedTuple):
    """The effective configs of one group, the broker's where it has none of its own."""

    limits: Limits
    # share.isolation.level, as Fetch has it.
    isolation_level: int
    # LATEST, EARLIEST, or how long ago, in milliseconds.
    begins: int
