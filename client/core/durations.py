"""Durations as ISO 8601 writes them, which Kafka's `by_duration:` takes: "PT1H", "P1DT12H", "PT0.5S"."""

from __future__ import annotations

import re

from ..errors import InvalidOption

_FORM = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?", re.IGNORECASE)
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1_000)


def duration_ms(text: str) -> int:
    """Return a duration in milliseconds. Raises InvalidOption if it is none, or negative."""
    match = _FORM.fullmatch(text)
    if match is None or not any(match.groups()) or text[-1] in "Tt":
        raise InvalidOption(f'{text!r} is no duration: write "PT1H" for an hour, "P7D" for seven days')
    return round(sum(float(count) * unit for count, unit in zip(match.groups(), _UNITS_MS, strict=True) if count))
