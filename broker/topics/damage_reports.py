"""Reports of damage in the files of a partition: one line in the log for each place, with file and position.

A consumer that meets damage fetches again and again. The line is for the operator, who needs it once.
"""

from __future__ import annotations

import logging
from pathlib import Path

from ...storage.errors import CorruptBatch, DamagedFile, DiskError, StorageError, is_unreadable

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
        if self._is_new(error.path, error.position):
            text = "%s: %s is damaged at %d, the rest of the file is served: %s"
            _log.error(text, self._name, error.path, error.position, error.why)

    def report_failure(self, error: StorageError) -> None:
        """Log why a file could not be read, once for each file and place. A full disk and the like is not reported."""
        if isinstance(error, DamagedFile):
            if self._is_new(error.path, error.position):
                text = "%s: %s is damaged at %d, look-ups do without it or build it again from the log: %s"
                _log.error(text, self._name, error.path, error.position, error.why)
        elif isinstance(error, DiskError) and is_unreadable(error) and self._is_new(error.path, error.position or 0):
            _log.error("%s: %s", self._name, error.message)

    def _is_new(self, path: Path, position: int) -> bool:
        place = path.name, position
        if place in self._reported or len(self._reported) == MAX_REPORTS:
            return False
        self._reported.add(place)
        return True
