"""The log of the broker on standard error: lines for people, or one JSON object a line for machines.

A JSON line has `time` (UTC, ISO 8601, milliseconds), `level`, `logger`, `message`, the fields of `extra`, and
`exception` if there is one. Promise: one event is one line, whatever its text contains. For people alone, a traceback
has lines of its own.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

FORMATS = ("human", "json")
LEVELS = ("debug", "info", "warning", "error")

# Names of groups and clients come from outside: they must not begin a new line or colour it.
_ON_ONE_LINE = {code: ascii(chr(code))[1:-1] for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)}
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def set_up_logging(log_format: str, level: str, *, utc: bool = False) -> None:
    """Send all events from `level` up to standard error. This replaces an earlier set-up.

    For people, times are local, or in UTC; for machines always in UTC.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if log_format == "json" else _Human(utc))
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)


class _Human(logging.Formatter):
    """`2026-11-21T10:05:52.123+01:00 WARNING server: text`; a traceback takes lines of its own."""

    def __init__(self, utc: bool) -> None:
        super().__init__()
        self._utc = utc

    def format(self, record: logging.LogRecord) -> str:
        name = record.name.removeprefix("odradek.").removeprefix("broker.")
        message = record.getMessage().translate(_ON_ONE_LINE)
        line = f"{_stamp(record, self._utc)} {record.levelname:<7} {name}: {message}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _stamp(record: logging.LogRecord, utc: bool) -> str:
    """Return the time of an event as ISO 8601 with milliseconds and zone."""
    moment = time.gmtime(record.created) if utc else time.localtime(record.created)
    zone = "Z"
    if not utc:
        text = time.strftime("%z", moment)
        zone = f"{text[:3]}:{text[3:5]}"
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', moment)}.{int(record.msecs):03d}{zone}"


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        import json

        event: dict[str, Any] = {
            "time": _stamp(record, utc=True),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        event.update((name, value) for name, value in vars(record).items() if name not in _STANDARD)
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event, default=str)
