"""BrokerConfig: every config of a broker, checked, under Kafka's names.

`BrokerConfig()` is a broker with every default; `BrokerConfig.parse({"log.segment.bytes": "1048576"})` reads texts.
The field `log_segment_bytes` is the config `log.segment.bytes`. The rows stand in the tables of this folder:
`server_table`, `security_table`, `log_table`, `coordinator_table` and `cluster_table`. Types, ranges and defaults are
those of Kafka 4.4.0, or of 3.9.1 for what ZooKeeper needs; a test compares them and lists the few that differ, with the
reason.

Promise: a config in these tables changes what the broker does. Kafka's other names are warnings, because a
server.properties file written for Kafka should start Odradek. A name that Odradek does not need (a quorum's, a thread
pool's) is ignored in silence, and one that would be unsafe to ignore is an error. So is a misspelt name of a listener's
or a cluster's config.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from .cluster_table import ClusterTable, ZooKeeperTable, check_zookeeper
from .coordinator_table import CoordinatorTable, ShareTable
from .definition import HIDDEN, ConfigDef, ConfigError, DynamicConfigs, Value, definitions_of
from .endpoint import Endpoint, check_advertised, check_protocols, parse_endpoint, protocols_of
from .group_config import check_group_bounds
from .listener_config import PREFIX, ListenerConfig, check_broker_login, listener_config, listener_of, listener_row
from .log_table import LogTable
from .security_table import AuthorizerTable, SecurityTable, check_authorizer
from .server_table import QuotaTable, ServerTable, check_connections, check_fetch_wait
from .unsupported_configs import warning

BROKER_CONFIGS: Mapping[str, ConfigDef] = {
    **definitions_of(ServerTable),
    **definitions_of(SecurityTable),
    **definitions_of(LogTable),
    **definitions_of(CoordinatorTable),
    **definitions_of(ShareTable),
    **definitions_of(ClusterTable),
    **definitions_of(AuthorizerTable),
    **definitions_of(ZooKeeperTable),
    **definitions_of(QuotaTable),
}
_ROWS = {each.attribute: each for each in BROKER_CONFIGS.values()}


class BrokerConfig(
    ServerTable,
    SecurityTable,
    LogTable,
    CoordinatorTable,
    ShareTable,
    ClusterTable,
    AuthorizerTable,
    QuotaTable,
    ZooKeeperTable,
):
    """Every config of a broker, checked. Raises ConfigError where a value, or two together, cannot be used."""

    # What listeners have for themselves, by names with their prefix (listener_config.py).
    listener_configs: Mapping[str, Value] = field(default_factory=dict[str, Value])
    # The names that were given as texts; DescribeConfigs tells them from defaults.
    # Invariant: a subset of the tables' names.
    given: frozenset[str] = field(default=frozenset(), compare=False)
    # Invariant: `alter` alone writes it, and the fields that the dynamic configs name.
    dynamic: DynamicConfigs = field(default_factory=DynamicConfigs, compare=False)

    def __repr__(self) -> str:
        """Show what differs from the defaults; no password."""
        rows = ((row, getattr(self, row.attribute)) for row in BROKER_CONFIGS.values())
        shown = (f"{row.name}={row.shown(value)}" for row, value in rows if value != row.default)
        return f"BrokerConfig({', '.join(shown)})"

    def __post_init__(self) -> None:
        values = vars(self)
        for name, row in _ROWS.items():
            if values[name] != row.default:
                row.validate(values[name])
        self._unite_ids()
        check_authorizer(self)
        check_zookeeper(self)
        check_connections(self)
        check_protocols(self.listeners, self.endpoints, self.listener_security_protocol_map)
        self._check_listener_configs()
        self._check_inter_broker_listener()
        check_advertised(self.advertised.values(), self.listeners)
        check_group_bounds(self)
        check_fetch_wait(self)
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ConfigError(
                "group.min.session.timeout.ms",
                self.group_min_session_timeout_ms,
                f"must be at most group.max.session.timeout.ms, {self.group_max_session_timeout_ms}",
            )

    @classmethod
    def parse(cls, texts: Mapping[str, str], *, strict: bool = False) -> tuple[BrokerConfig, list[str]]:
        """Return the config that `texts` (name -> text) describe, and a warning for each other name.

        With `strict` a name that neither Odradek nor Kafka knows is a ConfigError.
        """
        values: dict[str, Any] = {}
        own: dict[str, Value] = {}
        warnings: list[str] = []
        listeners = _names_of(texts.get("listeners"))
        # They belong to a controller that is elsewhere.
        controllers = [each.strip() for each in texts.get("controller.listener.names", "").split(",") if each.strip()]
        for name, text in texts.items():
            row = BROKER_CONFIGS.get(name)
            if row is not None:
                values[row.attribute] = row.parse(text)
            elif listener_of(name, listeners) is not None and (row := listener_row(name)):
                own[name] = row.parse(text)
            elif said := warning(name, text, BROKER_CONFIGS, strict, (*listeners, *controllers)):
                warnings.append(said)
        for name in ("sasl.jaas.config", *(f"listener.name.{each.lower()}.sasl.jaas.config" for each in listeners)):
            if name in texts:
                warnings.append(f"config {name}: has no use without the prefix of a listener and a mechanism")
        given = frozenset(texts.keys() & BROKER_CONFIGS.keys())
        return cls(**values, listener_configs=own, given=given), warnings

    @property
    def has_generated_id(self) -> bool:
        """Whether no number was chosen for the broker, and the cluster gives it one."""
        is_unset = self.broker_id == -1 and self.node_id == BROKER_CONFIGS["node.id"].default
        return self.zookeeper_connect is not None and is_unset and "node.id" not in self.given

    @property
    def data_dirs(self) -> tuple[Path, ...]:
        """The directories of partitions."""
        return tuple(map(Path, self.log_dirs or self.log_dir))

    @property
    def data_dir(self) -> Path:
        """The directory of the metadata journal."""
        return Path(self.metadata_log_dir) if self.metadata_log_dir else self.data_dirs[0]

    # Each new connection looks at both, and nothing that they are made of changes while the broker runs.
    @cached_property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The listeners to open, in the order given."""
        skipped = {name.upper() for name in self.controller_listener_names}
        return tuple(each for each in map(parse_endpoint, self.listeners) if each.name not in skipped)

    @property
    def advertised(self) -> Mapping[str, Endpoint]:
        """The advertised listeners by name. A client of a listener without one is told the address that it used."""
        return {each.name: each for each in map(parse_endpoint, self.advertised_listeners or ())}

    @cached_property
    def inter_broker_listener(self) -> str:
        """The name of the listener at which the brokers of a cluster reach each other."""
        if self.inter_broker_listener_name is not None:
            return self.inter_broker_listener_name.upper()
        asked = self.security_inter_broker_protocol
        is_default = asked == BROKER_CONFIGS["security.inter.broker.protocol"].default
        return self.endpoints[0].name if is_default else asked

    def of_listener(self, name: str) -> ListenerConfig:
        """Return what TLS and SASL are on the listener `name`."""
        protocol = protocols_of(self.listener_security_protocol_map)[name]
        return listener_config(self, self.listener_configs, name, protocol)

    def row(self, name: str) -> ConfigDef | None:
        """Return the definition of a config of this broker, also of one of its listeners; None for an unknown name."""
        if name in BROKER_CONFIGS:
            return BROKER_CONFIGS[name]
        return listener_row(name) if listener_of(name, (each.name for each in self.endpoints)) else None

    def value(self, name: str) -> Value:
        """Return the value of a config; None for one of a listener's that it does not have for itself."""
        if name.startswith(PREFIX):
            return self.listener_configs.get(name)
        return getattr(self, BROKER_CONFIGS[name].attribute)

    def alter(self, broker: Mapping[str, str], cluster: Mapping[str, str]) -> set[str]:
        """Replace the dynamic configs of this broker and of the cluster. Return the names whose value has changed.

        ConfigError where one value, or two together, cannot be used; then nothing has changed.
        """
        for name in cluster:
            if name.startswith(PREFIX):
                raise ConfigError(name, HIDDEN, "each broker has its own value, so it cannot be set for all of them")
        texts = {**cluster, **broker}
        changes = {name: self._dynamic_row(name).parse(text) for name, text in texts.items()}
        values = {**self.dynamic.replaced, **changes}
        own = {**self.listener_configs, **{name: value for name, value in values.items() if name.startswith(PREFIX)}}
        own = {name: value for name, value in own.items() if value is not None}
        plain = {BROKER_CONFIGS[name].attribute: value for name, value in values.items() if name in BROKER_CONFIGS}
        altered = replace(self, listener_configs=own, **plain)
        changed = {name for name in values if values[name] != self.value(name)}
        replaced = {name: self.value_at_start(name) for name in texts}
        self.dynamic.broker, self.dynamic.cluster, self.dynamic.replaced = dict(broker), dict(cluster), replaced
        for attribute in ("listener_configs", *plain):
            object.__setattr__(self, attribute, getattr(altered, attribute))
        return changed

    def value_at_start(self, name: str) -> Value:
        """Return the value that the broker was started with, whatever has changed since."""
        return self.dynamic.replaced[name] if name in self.dynamic.replaced else self.value(name)

    def _check_listener_configs(self) -> None:
        for name, value in self.listener_configs.items():
            row = self.row(name)
            if row is None:
                raise ConfigError(name, HIDDEN, "no listener of this broker has such a config")
            row.validate(value)

    def _check_inter_broker_listener(self) -> None:
        name, names = self.inter_broker_listener, [each.name for each in self.endpoints]
        is_protocol = self.security_inter_broker_protocol != "PLAINTEXT"
        if self.inter_broker_listener_name is not None and is_protocol:
            why = "only one of inter.broker.listener.name and security.inter.broker.protocol may be set"
            raise ConfigError("inter.broker.listener.name", name, why)
        if name not in names:
            which = "security.inter.broker.protocol" if is_protocol else "inter.broker.listener.name"
            raise ConfigError(which, name, f"must be one of the listeners {', '.join(names)}")
        listener = self.of_listener(name)
        if self.zookeeper_connect is not None and listener.protocol.has_sasl:
            check_broker_login(listener, self.sasl_mechanism_inter_broker_protocol)

    def _dynamic_row(self, name: str) -> ConfigDef:
        row = self.row(name)
        if row is None or not row.dynamic:
            raise ConfigError(name, HIDDEN, "cannot be changed while the broker runs")
        return row

    def _unite_ids(self) -> None:
        """Give node.id and broker.id the same value: they are one number under two names, as in Kafka.

        Both stay unset where a cluster gives the broker its number.
        """
        if self.has_generated_id:
            return
        self._check_reserved_id()
        if self.broker_id == -1:
            object.__setattr__(self, "broker_id", self.node_id)
        elif self.node_id == BROKER_CONFIGS["node.id"].default and "node.id" not in self.given:
            object.__setattr__(self, "node_id", self.broker_id)
        elif self.node_id != self.broker_id:
            raise ConfigError("broker.id", self.broker_id, f"must equal node.id, {self.node_id}, where both are set")

    def _check_reserved_id(self) -> None:
        number, most = max(self.broker_id, self.node_id), self.reserved_broker_max_id
        is_chosen = bool(self.given & {"broker.id", "node.id"})
        if self.zookeeper_connect is not None and self.broker_id_generation_enable and is_chosen and number > most:
            raise ConfigError("broker.id", number, f"must be at most reserved.broker.max.id, {most}")


def _names_of(listeners: str | None) -> list[str]:
    """Return the names of the listeners of a text. One that cannot be read has its error elsewhere."""
    texts = listeners.split(",") if listeners is not None else BrokerConfig.listeners
    return [text.partition("://")[0].strip().upper() for text in texts]
