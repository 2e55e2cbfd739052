"""The log of the brokers of this process: at INFO while somebody reads it, as it was after the last reader."""

from __future__ import annotations

import logging

LOGGER = logging.getLogger("odradek.broker")
# For each reader the level from before the first one.
_before: list[int] = []


def begin() -> None:
    """Have the brokers log what they do."""
    _before.append(_before[0] if _before else LOGGER.level)
    LOGGER.setLevel(min(LOGGER.level or logging.INFO, logging.INFO))


def end() -> None:
    """Read no more."""
    level = _before.pop()
    if not _before:
        LOGGER.setLevel(level)
