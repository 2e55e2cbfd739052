"""The table of the configs of groups (resource type GROUP), and their check.

Those that are numbers have their defaults and bounds among the broker's configs. Where the bounds have changed since a
group got its value, the nearest value within them is in use (KIP-1240, group_bounds.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .coordinator_table import CoordinatorTable, ShareTable
from .definition import BOOLEAN, STRING, ConfigDef, ConfigError, ConfigTable, Value, define, definitions_of
from .group_bounds import BOUNDED, HEARTBEAT, SESSION, SHARE_HEARTBEAT, SHARE_SESSION, bound, bounds_of, effective

_NUMBER = r"([+-]?\d{1,18})"
_DURATION = re.compile(
    rf"P(?:{_NUMBER}D)?(?:T(?=[+\-\d])(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:([+-]?\d{{1,18}})(?:[.,](\d{{0,9}}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_DAY_MS, _HOUR_MS, _MINUTE_MS = 86_400_000, 3_600_000, 60_000
_MAX_MS = 2**63 - 1
BY_DURATION = "by_duration:"


def duration_ms(text: str) -> int | None:
    """Return the milliseconds of an ISO 8601 duration such as P1DT2H30M4.5S; None for none, a negative or too long one.

    As Java's Duration reads it: days are 24 hours. Fractions of a millisecond are dropped.
    """
    found = _DURATION.fullmatch(text)
    if found is None or all(part is None for part in found.groups()):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:4])
    fraction_ms = int((found[5] or "").ljust(3, "0")[:3])
    if (found[4] or "").startswith("-"):
        fraction_ms = -fraction_ms
    total = days * _DAY_MS + hours * _HOUR_MS + minutes * _MINUTE_MS + seconds * 1000 + fraction_ms
    return total if 0 <= total <= _MAX_MS else None


def _check_reset(value: str) -> str | None:
    if value in ("earliest", "latest"):
        return None
    if value.startswith(BY_DURATION) and duration_ms(value.removeprefix(BY_DURATION)) is not None:
        return None
    return "must be earliest, latest, or by_duration: with an ISO 8601 duration such as PT1H30M"


def _check_dead_letters(topic: str) -> str | None:
    return "DLQ topic name must not start with '__'" if topic.startswith("__") else None


class ShareGroupTable(ConfigTable):
    """Configs of share groups that brokers have no default of."""

    # fmt: off
    share_auto_offset_reset: str = define(STRING, "latest", check=_check_reset,
        doc="Where a share group begins in a partition that is new to it: earliest, latest, or by_duration:PT1H.")
    share_isolation_level: str = define(STRING, "read_uncommitted", choices=("read_committed", "read_uncommitted"),
        doc="Whether a share group gets records of transactions that are open or aborted.")
    share_renew_acknowledge_enable: bool = define(BOOLEAN, True,
        doc="Whether members of a share group may renew the lock of a record.")
    errors_deadletterqueue_topic_name: str = define(STRING, "", check=_check_dead_letters,
        doc="The topic of a share group's dead letters: records that it rejects, or was given too often. Empty: none.")
    errors_deadletterqueue_copy_record_enable: bool = define(BOOLEAN, False,
        doc="Whether a dead letter has key and value of its record.")
    # fmt: on


_BROKER_ROWS = {**definitions_of(CoordinatorTable), **definitions_of(ShareTable)}
GROUP_CONFIGS: Mapping[str, ConfigDef] = {
    **{name: _BROKER_ROWS[f"group.{name}"]._replace(name=name) for name in BOUNDED},
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
