"""The table of the configs of consumer groups (resource type GROUP), and their check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .coordinator_table import CoordinatorTable
from .definition import ConfigDef, ConfigError, definitions_of
from .group_bounds import ASSIGNMENT, HEARTBEAT, SESSION, BoundsConfig, bounds_of, effective_ms

_BROKER_ROWS = definitions_of(CoordinatorTable)
GROUP_CONFIGS: Mapping[str, ConfigDef] = {
    name: replace(_BROKER_ROWS[f"group.{name}"], name=name) for name in (SESSION, HEARTBEAT, ASSIGNMENT)
}


def default_row(name: str) -> ConfigDef:
    """Return the broker's config that is the default of a group's."""
    return _BROKER_ROWS[f"group.{name}"]


def check_group_configs(config: BoundsConfig, overrides: Mapping[str, str]) -> None:
    """Raise ConfigError unless a group may have these configs."""
    for name, text in overrides.items():
        value = GROUP_CONFIGS[name].parse(text)
        _, low, high = bounds_of(config, name)
        assert isinstance(value, int)
        if value < low:
            raise ConfigError(name, value, f"must be greater than or equal to {_bound(name, 'min')}, {low}")
        if value > high:
            raise ConfigError(name, value, f"must be less than or equal to {_bound(name, 'max')}, {high}")
    session_ms, heartbeat_ms = effective_ms(config, overrides, SESSION), effective_ms(config, overrides, HEARTBEAT)
    if heartbeat_ms >= session_ms:
        raise ConfigError(SESSION, session_ms, f"must be greater than {HEARTBEAT}, {heartbeat_ms}")


def check_group_bounds(config: BoundsConfig) -> None:
    """Raise ConfigError unless the broker's own values for groups are within its bounds."""
    for name in GROUP_CONFIGS:
        value, low, high = bounds_of(config, name)
        if not low <= value <= high:
            wanted = f"must be from {low} to {high}: {_bound(name, 'min')} and {_bound(name, 'max')}"
            raise ConfigError(default_row(name).name, value, wanted)
    session_ms, heartbeat_ms = effective_ms(config, {}, SESSION), effective_ms(config, {}, HEARTBEAT)
    if heartbeat_ms >= session_ms:
        wanted = f"must be less than {default_row(SESSION).name}, {session_ms}"
        raise ConfigError(default_row(HEARTBEAT).name, heartbeat_ms, wanted)


def _bound(name: str, end: str) -> str:
    """Return the name of the broker's config that bounds a group's."""
    return name.replace("consumer.", f"group.consumer.{end}.")
