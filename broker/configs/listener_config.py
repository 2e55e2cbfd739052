"""The configs of one listener: its own, with the prefix `listener.name.NAME.`, before the broker's.

    listener.name.external.ssl.client.auth=required
    listener.name.external.plain.sasl.jaas.config=...PlainLoginModule required user_alice="secret";

NAME is the listener's in lower case. `plain` is a mechanism of SASL in lower case; three configs may be a mechanism's
own (`OF_A_MECHANISM`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from .definition import ConfigDef, ConfigError, Value, definitions_of
from .endpoint import SecurityProtocol
from .security_table import BROKER_MECHANISMS, MECHANISMS, OF_A_BROKER, OF_A_MECHANISM, RELOADED, SecurityTable

PREFIX = "listener.name."
_ROWS = {name: row for name, row in definitions_of(SecurityTable).items() if name not in OF_A_BROKER}
_MECHANISMS = tuple(name.lower() for name in MECHANISMS)


class ListenerConfig(SecurityTable):
    """What TLS and SASL are on one listener."""

    name: str
    protocol: SecurityProtocol
    # The values that mechanisms have for themselves, by `mechanism.config`.
    of_mechanisms: Mapping[str, Value]

    def of_mechanism(self, mechanism: str) -> ListenerConfig:
        """Return the configs as one mechanism has them. Only such a config has a `sasl.jaas.config`."""
        found = {name: self.of_mechanisms.get(f"{mechanism.lower()}.{name}") for name in OF_A_MECHANISM}
        own = {_ROWS[name].attribute: value for name, value in found.items() if value is not None}
        return replace(self, **own)


def check_broker_login(listener: ListenerConfig, mechanism: str) -> None:
    """Raise ConfigError where brokers cannot log in to each other by a mechanism at a listener."""
    name = "sasl.mechanism.inter.broker.protocol"
    if mechanism not in BROKER_MECHANISMS:
        raise ConfigError(name, mechanism, f"set it to one of {', '.join(BROKER_MECHANISMS)}")
    if mechanism not in listener.sasl_enabled_mechanisms:
        why = f"must be one of sasl.enabled.mechanisms of the listener {listener.name}"
        raise ConfigError(name, mechanism, why)


def listener_row(name: str) -> ConfigDef | None:
    """Return the definition of a config with a listener's prefix; None where no listener has such a config."""
    if not name.startswith(PREFIX):
        return None
    for known, row in _ROWS.items():
        if name.endswith("." + known):
            owner = name.removesuffix("." + known).removeprefix(PREFIX)
            dynamic = known in RELOADED and not owner.endswith(tuple("." + each for each in _MECHANISMS))
            return row._replace(name=name, dynamic=dynamic) if owner else None
    return None


def listener_of(name: str, listeners: Iterable[str]) -> str | None:
    """Return which of the listeners has the config `name`, None where none of them can have it."""
    row = listener_row(name)
    if row is None:
        return None
    for listener in listeners:
        rest = name.removeprefix(f"{PREFIX}{listener.lower()}.")
        mechanism, _, known = rest.partition(".")
        if rest in _ROWS or (mechanism in _MECHANISMS and known in OF_A_MECHANISM):
            return listener
    return None


def listener_config(
    broker: SecurityTable, own: Mapping[str, Value], name: str, protocol: SecurityProtocol
) -> ListenerConfig:
    """Return the configs of the listener `name`. `own` has the configs of all listeners by their whole names."""
    prefix = f"{PREFIX}{name.lower()}."
    mine = {each.removeprefix(prefix): value for each, value in own.items() if each.startswith(prefix)}
    values: dict[str, Any] = {each.name: getattr(broker, each.name) for each in fields(SecurityTable)}
    # As in Kafka: the broker's own value does not concern a listener whose clients log in by SASL.
    if protocol.has_sasl:
        values["ssl_client_auth"] = "none"
    values["sasl_jaas_config"] = None
    values |= {_ROWS[each].attribute: value for each, value in mine.items() if each in _ROWS}
    of_mechanisms = {each: value for each, value in mine.items() if each not in _ROWS}
    return ListenerConfig(name=name, protocol=protocol, of_mechanisms=of_mechanisms, **values)
