"""ISO 8601 durations such as P1DT2H30M4.5S, as Java's Duration reads them: days are 24 hours."""

from __future__ import annotations

import re

_NUMBER = r"([+-]?\d{1,18})"
_DURATION = re.compile(
    rf"P(?:{_NUMBER}D)?(?:T(?=[+\-\d])(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:([+-]?\d{{1,18}})(?:[.,](\d{{0,9}}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_DAY_MS, _HOUR_MS, _MINUTE_MS = 86_400_000, 3_600_000, 60_000
_MAX_MS = 2**63 - 1


def duration_ms(text: str) -> int | None:
    """Return the milliseconds, fractions dropped; None for what is no duration, is negative or too long."""
    found = _DURATION.fullmatch(text)
    if found is None or all(part is None for part in found.groups()):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:4])
    fraction_ms = int((found[5] or "").ljust(3, "0")[:3])
    if (found[4] or "").startswith("-"):
        fraction_ms = -fraction_ms
    total = days * _DAY_MS + hours * _HOUR_MS + minutes * _MINUTE_MS + seconds * 1000 + fraction_ms
    return total if 0 <= total <= _MAX_MS else None
