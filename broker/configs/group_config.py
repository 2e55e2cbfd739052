"""The table of the configs of groups (resource type GROUP), and their check.

Those that are numbers have their defaults and bounds among the broker's configs (group_bounds.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from .coordinator_table import CoordinatorTable
from .definition import BOOLEAN, STRING, ConfigDef, ConfigError, Value, define, definitions_of
from .duration import duration_ms
from .group_bounds import (
    BOUNDED,
    HEARTBEAT,
    SESSION,
    SHARE_HEARTBEAT,
    SHARE_SESSION,
    bound,
    bounds_of,
    effective,
)
from .share_table import ShareTable

BY_DURATION = "by_duration:"


def _check_reset(value: str) -> str | None:
    if value in ("earliest", "latest"):
        return None
    if value.startswith(BY_DURATION) and duration_ms(value.removeprefix(BY_DURATION)) is not None:
        return None
    return "must be earliest, latest, or by_duration: with an ISO 8601 duration such as PT1H30M"


# Never made: only the rows are read.
@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class ShareGroupTable:
    """Configs of share groups that brokers have no default of."""

    # fmt: off
    share_auto_offset_reset: str = define(STRING, "latest", check=_check_reset,
        doc="Where a share group begins in a partition that is new to it: earliest, latest, or by_duration:PT1H.")
    share_isolation_level: str = define(STRING, "read_uncommitted", choices=("read_committed", "read_uncommitted"),
        doc="Whether a share group gets records of transactions that are open or aborted.")
    share_renew_acknowledge_enable: bool = define(BOOLEAN, True,
        doc="Whether members of a share group may renew the lock of a record.")
    # fmt: on


_BROKER_ROWS = {**definitions_of(CoordinatorTable), **definitions_of(ShareTable)}
GROUP_CONFIGS: Mapping[str, ConfigDef] = {
    **{name: replace(_BROKER_ROWS[f"group.{name}"], name=name) for name in BOUNDED},
    **definitions_of(ShareGroupTable),
}


def default_row(name: str) -> ConfigDef | None:
    """Return the broker's config that is the default of a group's, if there is one."""
    return _BROKER_ROWS.get(f"group.{name}")


def effective_value(config: object, overrides: Mapping[str, str], name: str) -> Value:
    """Return the value that a group uses."""
    if name in BOUNDED:
        return effective(config, overrides, name)
    row = GROUP_CONFIGS[name]
    own = overrides.get(name)
    return row.default if own is None else row.parse(own)


def check_group_configs(config: object, overrides: Mapping[str, str]) -> None:
    """Raise ConfigError unless a group may have these configs."""
    for name, text in overrides.items():
        value = GROUP_CONFIGS[name].parse(text)
        if name not in BOUNDED:
            continue
        _, low, high = bounds_of(config, name)
        assert isinstance(value, int)
        if value < low:
            raise ConfigError(name, value, f"must be greater than or equal to {bound(name, 'min')}, {low}")
        if value > high:
            raise ConfigError(name, value, f"must be less than or equal to {bound(name, 'max')}, {high}")
    for session, heartbeat in ((SESSION, HEARTBEAT), (SHARE_SESSION, SHARE_HEARTBEAT)):
        session_ms, heartbeat_ms = effective(config, overrides, session), effective(config, overrides, heartbeat)
        if heartbeat_ms >= session_ms:
            raise ConfigError(session, session_ms, f"must be greater than {heartbeat}, {heartbeat_ms}")


def check_group_bounds(config: object) -> None:
    """Raise ConfigError unless the broker's own values for groups are within its bounds."""
    for name in BOUNDED:
        value, low, high = bounds_of(config, name)
        if not low <= value <= high:
            wanted = f"must be from {low} to {high}: {bound(name, 'min')} and {bound(name, 'max')}"
            raise ConfigError(f"group.{name}", value, wanted)
    for session, heartbeat in ((SESSION, HEARTBEAT), (SHARE_SESSION, SHARE_HEARTBEAT)):
        session_ms, heartbeat_ms = effective(config, {}, session), effective(config, {}, heartbeat)
        if heartbeat_ms >= session_ms:
            raise ConfigError(f"group.{heartbeat}", heartbeat_ms, f"must be less than group.{session}, {session_ms}")
