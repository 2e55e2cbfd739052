"""Reports of damage in the files of a partition: one line in the log for each place, with file and position.

A consumer that meets damage fetches again and again. The line is for the operator, who needs it once.
"""

from __future__ import annotations

import logging

from ...storage.errors import CorruptBatch

# Of one partition. More lines would tell the operator of a broken disk nothing new.
MAX_REPORTS = 1000

_log = logging.getLogger(__name__)


class DamageReports:
    """The places of one partition that were reported."""

    __slots__ = ("_name", "_reported")

    def __init__(self, name: str) -> None:
        self._name = name
        self._reported: set[tuple[str, int]] = set()

    def report(self, error: CorruptBatch) -> None:
        """Log where the damage is, unless that was done before."""
        place = error.path.name, error.position
        if place in self._reported or len(self._reported) == MAX_REPORTS:
            return
        self._reported.add(place)
        text = "%s: %s is damaged at %d, what lies around it is served: %s"
        _log.error(text, self._name, error.path, error.position, error.why)
