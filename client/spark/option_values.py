"""What a text means as the value of an option of the source or the sink: a flag, a number, a time, a span of time.

Texts come by the option's name in lower case. Each function raises OptionError, which names the option.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from .errors import OptionError
from .kafka_settings import DAY_MS
from .offsets import MAX_OFFSET


def time_ms(texts: Mapping[str, str], name: str) -> int | None:
    """Return a time in milliseconds since 1970, from a number or from ISO 8601; without a zone it is UTC."""
    text = texts.get(name.lower(), "").strip()
    if not text:
        return None
    if text.isdecimal():
        return number(texts, name, None, 0, MAX_OFFSET)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        why = f"'{text}' is neither milliseconds since 1970 nor a time as 2026-11-22T10:00:00Z"
        raise OptionError(name, why) from None
    found = round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    if found < 0:
        # Brokers take numbers below 0 for the ends of a log.
        raise OptionError(name, f"'{text}' lies before 1970, where no record of Kafka does")
    return found


# Spark's words for a span of time.
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": DAY_MS, "us": 0.001}


def duration_ms(texts: Mapping[str, str], name: str, default_ms: int) -> int:
    """Return a span of time in milliseconds; a number without a unit has them already."""
    text = texts.get(name.lower())
    if text is None:
        return default_ms
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    if found is None or found[2] not in ("", *_UNITS_MS):
        raise OptionError(name, f"'{text}' is no span of time, as 15m or 30s")
    return round(int(found[1]) * _UNITS_MS[found[2] or "ms"])


def flag(texts: Mapping[str, str], name: str, default: bool) -> bool:
    """Return whether the text is `true`, or `default` without one. Nothing else than `false` means no."""
    text = texts.get(name.lower(), str(default)).strip().lower()
    if text not in ("true", "false"):
        raise OptionError(name, f"'{text}' is neither true nor false")
    return text == "true"


def number(texts: Mapping[str, str], name: str, default: int | None, minimum: int, maximum: int) -> int | None:
    """Return the whole number of the text, or `default` without one."""
    text = texts.get(name.lower())
    if text is None:
        return default
    try:
        found = int(text)
    except ValueError:
        found = minimum - 1
    if not minimum <= found <= maximum:
        raise OptionError(name, f"'{text}' is not a whole number from {minimum} to {maximum}")
    return found
