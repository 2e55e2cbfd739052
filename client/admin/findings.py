"""Findings of checks: what each has found, how bad it is, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# "unknown": the cluster cannot tell.
OK, UNKNOWN, WARNING, PROBLEM = "ok", "unknown", "warning", "problem"
# How many of those concerned a finding names.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: ok, unknown, warning or problem. A warning and a problem have a remedy: what to do."""

    check: str
    result: str
    finding: str
    remedy: str | None = None

    @property
    def healthy(self) -> bool:
        """Whether nothing has to be done now."""
        return self.result != PROBLEM


def found_or_fine(check: str, result: str, what: str, fine: str, remedy: str) -> Finding:
    """Return a finding with this result; where `what` is empty, one that says that all is fine."""
    return Finding(check, result, what, remedy) if what else Finding(check, OK, fine)


def named(what: str, names: Sequence[str]) -> str:
    """Return how many there are, and the first names; "" for none."""
    if not names:
        return ""
    more = ", ..." if len(names) > _NAMED else ""
    return f"{len(names)} {what}: {', '.join(names[:_NAMED])}{more}"


def duration_text(seconds: float) -> str:
    """Return a time in the largest unit that it has two of: "3 hours"."""
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} seconds"
