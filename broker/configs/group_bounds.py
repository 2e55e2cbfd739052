"""What the configs of a consumer group may be: each has a default and two bounds among the broker's configs. Pure.

Where the bounds have changed since a group got its value, the nearest value within them is in use (KIP-1240).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"


class BoundsConfig(Protocol):
    """The configs of the broker that matter here."""

    @property
    def group_consumer_session_timeout_ms(self) -> int: ...
    @property
    def group_consumer_min_session_timeout_ms(self) -> int: ...
    @property
    def group_consumer_max_session_timeout_ms(self) -> int: ...
    @property
    def group_consumer_heartbeat_interval_ms(self) -> int: ...
    @property
    def group_consumer_min_heartbeat_interval_ms(self) -> int: ...
    @property
    def group_consumer_max_heartbeat_interval_ms(self) -> int: ...
    @property
    def group_consumer_assignment_interval_ms(self) -> int: ...
    @property
    def group_consumer_min_assignment_interval_ms(self) -> int: ...
    @property
    def group_consumer_max_assignment_interval_ms(self) -> int: ...


class Bounds(NamedTuple):
    """The broker's value of a config, and the least and the greatest that a group may have."""

    default: int
    low: int
    high: int


def bounds_of(config: BoundsConfig, name: str) -> Bounds:
    """Return the bounds of a config of groups."""
    if name == SESSION:
        return Bounds(
            config.group_consumer_session_timeout_ms,
            config.group_consumer_min_session_timeout_ms,
            config.group_consumer_max_session_timeout_ms,
        )
    if name == HEARTBEAT:
        return Bounds(
            config.group_consumer_heartbeat_interval_ms,
            config.group_consumer_min_heartbeat_interval_ms,
            config.group_consumer_max_heartbeat_interval_ms,
        )
    return Bounds(
        config.group_consumer_assignment_interval_ms,
        config.group_consumer_min_assignment_interval_ms,
        config.group_consumer_max_assignment_interval_ms,
    )


def effective_ms(config: BoundsConfig, overrides: Mapping[str, str], name: str) -> int:
    """Return the value that a group uses."""
    default, low, high = bounds_of(config, name)
    own = overrides.get(name)
    return default if own is None else min(max(int(own), low), high)
