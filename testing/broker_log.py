"""The log of the brokers of this process: at INFO while somebody reads it, as it was after the last reader."""

from __future__ import annotations

import logging

LOGGER = logging.getLogger("odradek.broker")
# For each reader the level from before the first one.
_before: list[int] = []


def begin(reader: logging.Handler | None = None) -> None:
    """Have the brokers log what they do, to a reader or to those that there are."""
    if reader is not None:
        LOGGER.addHandler(reader)
    _before.append(_before[0] if _before else LOGGER.level)
    LOGGER.setLevel(min(LOGGER.level or logging.INFO, logging.INFO))


def end(reader: logging.Handler | None = None) -> None:
    """Read no more."""
    if reader is not None:
        LOGGER.removeHandler(reader)
    level = _before.pop()
    if not _before:
        LOGGER.setLevel(level)
