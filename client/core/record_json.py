"""Records, and other values, as JSON: `odradek consume --json` prints such lines, and the console exports them.

Bytes are text where they are UTF-8, `{"base64": "..."}` elsewhere. JSON has no NaN and no infinity: they are null.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from ..record import ConsumerRecord


def json_line(record: ConsumerRecord[Any, Any]) -> bytes:
    """Return a record as a line, which `odradek produce --json` takes."""
    row = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": None if record.timestamp_ms < 0 else utc_text(record.timestamp_ms),
        "key": record.key,
        "value": record.value,
        "headers": [[name, value] for name, value in record.headers],
    }
    return as_json(row).encode("utf-8", "surrogatepass") + b"\n"


def as_json(value: Mapping[str, Any] | Sequence[Any] | bytes) -> str:
    """Return a value as the text of its JSON."""
    try:
        return json.dumps(value, default=_json_value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_without_nan(value), default=_json_value, ensure_ascii=False)


def _without_nan(value: Any) -> Any:
    """Return a value with null for each number that JSON does not have."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _without_nan(each) for name, each in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in cast("Sequence[Any]", value)]
    return value


def _json_value(value: object) -> object:
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return {"base64": b64encode(value).decode("ascii")}
    return str(value)


def utc_text(time_ms: int) -> str | int:
    """Return a time as ISO 8601 in UTC, with a Z; a time that no calendar shows, such as -1 for none, as it is."""
    moment = moment_of(time_ms)
    return time_ms if moment is None else iso_text(moment, time_ms).removesuffix("+00:00") + "Z"


def moment_of(time_ms: int) -> datetime | None:
    """Return the second that a time lies in; None where no calendar has it."""
    try:
        return datetime.fromtimestamp(time_ms // 1000, UTC) if time_ms >= 0 else None
    except (OverflowError, OSError, ValueError):
        return None


def iso_text(moment: datetime, time_ms: int) -> str:
    """Return a second, in any zone, with the milliseconds of a time."""
    # Not by dividing: a float has no room for the milliseconds of far times.
    return moment.replace(microsecond=time_ms % 1000 * 1000).isoformat(timespec="milliseconds")
