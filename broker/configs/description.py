"""Configs as DescribeConfigs shows them: each with its value, the source of the value and its synonyms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from .broker_config import BROKER_CONFIGS, BrokerConfig
from .definition import ConfigDef, ConfigType
from .group_config import GROUP_CONFIGS, default_row, effective_value
from .topic_config import HIDDEN_TOPIC_CONFIGS, TOPIC_CONFIGS, inherited_values


class ConfigSource(IntEnum):
    """Where a value comes from, with its number in DescribeConfigs (those that exist here)."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """One place that a value could come from. DescribeConfigs lists them strongest first."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config with its value."""

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    documentation: str
    synonyms: tuple[ConfigSynonym, ...] = ()
    # Whether the config can only be given at the start of a broker. A topic's configs never are read-only.
    read_only: bool = True

    @property
    def is_sensitive(self) -> bool:
        """Whether its value must not be shown."""
        return self.type is ConfigType.PASSWORD


def describe_broker(config: BrokerConfig, names: Iterable[str] | None = None) -> list[ConfigEntry]:
    """Return the configs of a broker: all, or those of `names` that exist."""
    known = (*BROKER_CONFIGS, *sorted(config.listener_configs))
    wanted = known if names is None else [name for name in names if name in known]
    return [_broker_entry(config, row) for name in wanted if (row := config.row(name)) is not None]


def describe_cluster(config: BrokerConfig, names: Iterable[str] | None = None) -> list[ConfigEntry]:
    """Return the dynamic configs of every broker of the cluster."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return [
        ConfigEntry(name, text, source, row.type, row.doc, (ConfigSynonym(name, text, source),), read_only=False)
        for name, text in config.dynamic.cluster.items()
        if (row := BROKER_CONFIGS[name]) and (names is None or name in names)
    ]


def describe_topic(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Iterable[str] | None = None
) -> list[ConfigEntry]:
    """Return the configs of a topic with these overrides: all, or those of `names` that exist."""
    if names is None:
        names = [name for name in TOPIC_CONFIGS if name not in HIDDEN_TOPIC_CONFIGS or name in overrides]
    return [_topic_entry(broker, TOPIC_CONFIGS[name], overrides) for name in names if name in TOPIC_CONFIGS]


def describe_group(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Iterable[str] | None = None
) -> list[ConfigEntry]:
    """Return the configs of a group with these overrides: all, or those of `names` that exist."""
    wanted = GROUP_CONFIGS if names is None else [name for name in names if name in GROUP_CONFIGS]
    return [_group_entry(broker, GROUP_CONFIGS[name], overrides) for name in wanted]


def _group_entry(broker: BrokerConfig, row: ConfigDef, overrides: Mapping[str, str]) -> ConfigEntry:
    inherited = default_row(row.name)
    text, source = row.format(effective_value(broker, overrides, row.name)), ConfigSource.DEFAULT_CONFIG
    synonyms = [ConfigSynonym(row.name, row.format(row.default), source)]
    if inherited is not None:
        source = _broker_source(broker, inherited)
        synonyms = list(_broker_synonyms(broker, inherited))
    if row.name in overrides:
        source = ConfigSource.GROUP_CONFIG
        synonyms.insert(0, ConfigSynonym(row.name, overrides[row.name], source))
    return ConfigEntry(row.name, text, source, row.type, row.doc, tuple(synonyms), read_only=False)


def _broker_entry(config: BrokerConfig, row: ConfigDef) -> ConfigEntry:
    text, source = row.format(config.value(row.name)), _broker_source(config, row)
    synonyms = tuple(_broker_synonyms(config, row))
    return ConfigEntry(row.name, text, source, row.type, row.doc, synonyms, read_only=not row.dynamic)


def _broker_source(config: BrokerConfig, row: ConfigDef) -> ConfigSource:
    if row.name in config.dynamic.broker:
        return ConfigSource.DYNAMIC_BROKER_CONFIG
    if row.name in config.dynamic.cluster:
        return ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return ConfigSource.STATIC_BROKER_CONFIG if _is_given(config, row) else ConfigSource.DEFAULT_CONFIG


def _broker_synonyms(config: BrokerConfig, row: ConfigDef) -> Iterator[ConfigSynonym]:
    name = row.name
    if name in config.dynamic.broker:
        yield ConfigSynonym(name, config.dynamic.broker[name], ConfigSource.DYNAMIC_BROKER_CONFIG)
    if name in config.dynamic.cluster:
        yield ConfigSynonym(name, config.dynamic.cluster[name], ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    if _is_given(config, row):
        yield ConfigSynonym(name, row.format(config.value_at_start(name)), ConfigSource.STATIC_BROKER_CONFIG)
    if row.default is not None:
        yield ConfigSynonym(name, row.format(row.default), ConfigSource.DEFAULT_CONFIG)


def _is_given(config: BrokerConfig, row: ConfigDef) -> bool:
    """Return whether the broker was started with a value of its own, even one that equals the default."""
    return row.name in config.given or config.value_at_start(row.name) != row.default


def _topic_entry(broker: BrokerConfig, row: ConfigDef, overrides: Mapping[str, str]) -> ConfigEntry:
    value, source = row.default, ConfigSource.DEFAULT_CONFIG
    synonyms: list[ConfigSynonym] = []
    if row.unsupported:
        synonyms = [ConfigSynonym(name, row.format(value), source) for name in row.broker_synonyms]
    for broker_row, inherited in reversed(inherited_values(broker, row)):
        value, source = inherited, _broker_source(broker, broker_row)
        synonyms = [*_broker_synonyms(broker, broker_row), *synonyms]
    if row.name in overrides:
        value, source = row.parse(overrides[row.name]), ConfigSource.DYNAMIC_TOPIC_CONFIG
        synonyms.insert(0, ConfigSynonym(row.name, row.format(value), source))
    return ConfigEntry(row.name, row.format(value), source, row.type, row.doc, tuple(synonyms), read_only=False)
