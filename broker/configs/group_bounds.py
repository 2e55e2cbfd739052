"""What the numbers among the configs of a group may be: each has a default and two bounds among the broker's configs.

Pure. Where the bounds have changed since a group got its value, the nearest value within them is in use (KIP-1240).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"
SHARE_SESSION = "share.session.timeout.ms"
SHARE_HEARTBEAT = "share.heartbeat.interval.ms"
SHARE_ASSIGNMENT = "share.assignment.interval.ms"
RECORD_LOCK_DURATION = "share.record.lock.duration.ms"
DELIVERY_COUNT_LIMIT = "share.delivery.count.limit"
MAX_RECORD_LOCKS = "share.partition.max.record.locks"
BOUNDED = (
    *(SESSION, HEARTBEAT, ASSIGNMENT),
    *(SHARE_SESSION, SHARE_HEARTBEAT, SHARE_ASSIGNMENT),
    *(RECORD_LOCK_DURATION, DELIVERY_COUNT_LIMIT, MAX_RECORD_LOCKS),
)


class Bounds(NamedTuple):
    """The broker's value of a config, and the least and the greatest that a group may have."""

    default: int
    low: int
    high: int


def bound(name: str, end: str) -> str:
    """Return the name of the broker's config that bounds a group's: `end` is min or max."""
    kind, _, rest = name.partition(".")
    return f"group.{kind}.{end}.{rest}"


FIELDS = {
    name: tuple(each.replace(".", "_") for each in (f"group.{name}", bound(name, "min"), bound(name, "max")))
    for name in BOUNDED
}


def bounds_of(config: object, name: str) -> Bounds:
    """Return the bounds of a config of groups. `config` is the broker's, or has the same fields."""
    default, low, high = FIELDS[name]
    return Bounds(getattr(config, default), getattr(config, low), getattr(config, high))


def effective(config: object, overrides: Mapping[str, str], name: str) -> int:
    """Return the value that a group uses."""
    own = overrides.get(name)
    if own is None:
        return getattr(config, FIELDS[name][0])
    _, low, high = bounds_of(config, name)
    return min(max(int(own), low), high)
