"""Times as people write them."""

from __future__ import annotations

from datetime import UTC, datetime

from ...web.exchange import HttpError


def time_ms(text: str) -> int:
    """Return a time, ISO 8601 (UTC unless it names a zone) or milliseconds since 1970. Raises HttpError."""
    try:
        if text.strip().isdecimal():
            return min(int(text), (1 << 63) - 1)
        moment = datetime.fromisoformat(text.strip())
        # An earlier time would be a negative number, and those stand for the ends of a log.
        return max(round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000), 0)
    except (ValueError, OverflowError):
        raise HttpError(400, "time is ISO 8601 such as 2026-11-21T08:00, or milliseconds since 1970") from None
