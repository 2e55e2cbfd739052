"""Says what is damaged in a partition's files: a line in the log with file and position, once a place.

A consumer that meets damage asks again and again; the line is for the operator, who needs it once.
"""

import logging

from ...storage.errors import CorruptBatch

# Of one partition. A disk that is full of them has been reported well enough by then.
MAX_TOLD = 1000

_log = logging.getLogger(__name__)


class DamageReports:
    """What was told of one partition."""

    __slots__ = ("_name", "_told")

    def __init__(self, name: str) -> None:
        self._name = name
        self._told: set[tuple[str, int]] = set()

    def tell(self, error: CorruptBatch) -> None:
        """Logs where the damage is, unless that was done before."""
        place = error.path.name, error.position
        if place not in self._told and len(self._told) < MAX_TOLD:
            self._told.add(place)
            _log.error(
                "%s: %s is damaged at %d, what lies around it is served: %s",
                self._name,
                error.path,
                error.position,
                error.why,
            )
