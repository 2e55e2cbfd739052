"""The values that options can have: numbers within a range, True or False, and texts that fit into a request.

Ranges are those of Kafka's ConfigDef. They are narrower where a value could only do harm: with a pause of 0 a client
would ask without an end, and with 0 bytes it would never fetch. -X and profiles of the command line take the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import NamedTuple

from ..errors import InvalidOption

INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
# Texts have a length of 16 bits in requests.
MOST_TEXT_BYTES = 2**15 - 1


class Range(NamedTuple):
    """The numbers from `lowest` to `highest`, both included; whole ones only, or any."""

    lowest: int
    highest: int = INT32_MAX
    is_whole: bool = True

    def __str__(self) -> str:
        return f"a {'whole ' if self.is_whole else ''}number from {self.lowest} to {self.highest}"

    def has(self, value: object) -> bool:
        """Return whether `value` is such a number."""
        if isinstance(value, bool) or not isinstance(value, int if self.is_whole else int | float):
            return False
        return isfinite(value) and self.lowest <= value <= self.highest


# A time that a caller waits.
WAIT = Range(0, is_whole=False)
_PAUSE = Range(1, is_whole=False)

NUMBERS: Mapping[str, Range] = {
    "auto_commit_interval_ms": _PAUSE,
    "attempts": Range(1),
    "batch_size": Range(0),
    "buffer_memory": Range(0, INT64_MAX),
    "concurrency": Range(1),
    "connect_timeout_ms": _PAUSE,
    "default_api_timeout_ms": WAIT,
    "delivery_timeout_ms": WAIT,
    "drain_timeout_ms": WAIT,
    "fetch_max_bytes": Range(1),
    "fetch_max_wait_ms": Range(0),
    "fetch_min_bytes": Range(0),
    "heartbeat_interval_ms": _PAUSE,
    "linger_ms": WAIT,
    "max_block_ms": WAIT,
    "max_in_flight_requests_per_connection": Range(1),
    "max_partition_fetch_bytes": Range(1),
    "max_poll_interval_ms": Range(1),
    "max_poll_records": Range(1),
    "max_records": Range(1),
    "max_request_size": Range(0),
    "metadata_max_age_ms": _PAUSE,
    "rebalance_backoff_ms": _PAUSE,
    "rebalance_max_retries": Range(1),
    "request_timeout_ms": _PAUSE,
    "retry_backoff_max_ms": WAIT,
    "retry_backoff_ms": WAIT,
    "session_timeout_ms": Range(1),
    "timeout_ms": WAIT,
    "transaction_timeout_ms": Range(1),
    "zookeeper_connection_timeout_ms": _PAUSE,
    "zookeeper_session_timeout_ms": _PAUSE,
}


def check_numbers(**given: object) -> None:
    """Raise InvalidOption unless each of these options has a number of its range."""
    for name, value in given.items():
        if not NUMBERS[name].has(value):
            raise InvalidOption(f"{name} must be {NUMBERS[name]}, not {value!r}")


def check_switches(**given: object) -> None:
    """Raise InvalidOption unless each of these options is True or False: a text such as "false" would be true."""
    for name, value in given.items():
        if not isinstance(value, bool):
            raise InvalidOption(f"{name} must be True or False, not {value!r}")


def check_stop_timeout(timeout_ms: float | None) -> None:
    """Raise InvalidOption unless it is None, or a time to wait."""
    if timeout_ms is not None:
        check_numbers(timeout_ms=timeout_ms)


def check_texts(**given: str | None) -> None:
    """Raise InvalidOption unless each of these options is None, or a text that fits into a request."""
    for name, value in given.items():
        if value is not None and not fits(value):
            raise InvalidOption(f"{name} must be a text of {MOST_TEXT_BYTES} bytes or less, not {value!r:.100}")


def fits(text: object) -> bool:
    """Return whether `text` is a text that fits into a request."""
    try:
        return isinstance(text, str) and len(text.encode()) <= MOST_TEXT_BYTES
    except UnicodeEncodeError:
        return False
