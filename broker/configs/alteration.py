"""Changes of the configs of a resource (KIP-339): set, delete, append and subtract, or all configs at once.

The new configs are made from the changes and from what the resource has, checked together, and applied together.
Which resources there are, a topic or a broker, is not decided here: see `topics/config_resources`.

Promise: an accepted change has taken effect when it is acknowledged, and takes effect at every later start.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol, TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.primitives import BLANKS
from .definition import ConfigDef, ConfigError, ConfigType, Value


class Operation(IntEnum):
    """The operation of a change, with its number in IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """The change of one config. `value` is None for DELETE alone."""

    name: str
    operation: Operation
    value: str | None


class Resource(ABC):
    """Something with configs: a topic, a broker, the cluster."""

    # The error code for an invalid value: Kafka has one for topics and another for brokers.
    invalid = ErrorCode.INVALID_CONFIG
    # Whether an entry of a list may be named twice, and then counts once. Kafka lets topics do that, and brokers not.
    takes_doubles = True
    # False where `alter` raises, whatever the configs.
    exists = True

    def overrides(self) -> Mapping[str, str]:
        """Return the configs that are set on the resource itself."""
        return {}

    @abstractmethod
    def row(self, name: str) -> ConfigDef:
        """Return the definition of a config that may be set. KafkaError where it may not."""

    @abstractmethod
    def value(self, row: ConfigDef) -> Value:
        """Return the effective value of a config."""

    def is_changed_by(self, configs: Mapping[str, str]) -> bool:
        """Return whether these configs are others, or read again what they name."""
        return configs != self.overrides()

    @abstractmethod
    def alter(self, configs: dict[str, str], validate_only: bool) -> None:
        """Give the resource these configs and no others. ConfigError or KafkaError where they cannot be used."""


class RequestedResource(Protocol):
    """A resource as a request names it."""

    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...


RequestedT = TypeVar("RequestedT", bound=RequestedResource)


def alter(resource: Resource, changes: Iterable[Change], validate_only: bool) -> None:
    """Change some configs of a resource: all of them or none. The KafkaErrors are Kafka's."""
    changes = list(changes)
    if len({change.name for change in changes}) < len(changes):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    for change in changes:
        if change.value is None and change.operation is not Operation.DELETE:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {change.name}")
    configs = dict(resource.overrides())
    # A change that cannot be made of one config comes before a bad value of another.
    texts = {change.name: _changed(resource, configs.get(change.name), change) for change in changes}
    for name, text in texts.items():
        if text is None:
            configs.pop(name, None)
        else:
            configs[name] = _normalized(resource, resource.row(name), text)
    _apply(resource, configs, validate_only)


def replace_all(resource: Resource, values: Iterable[tuple[str, str | None]], validate_only: bool) -> None:
    """Give a resource these configs and no others. The KafkaErrors are Kafka's."""
    configs: dict[str, str] = {}
    for name, text in values:
        if text is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
        if name in configs:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        configs[name] = _normalized(resource, resource.row(name), text)
    _apply(resource, configs, validate_only)


def alter_each(
    requested: Sequence[RequestedT], alter_one: Callable[[RequestedT], None]
) -> list[tuple[RequestedT, int, str | None]]:
    """Alter each resource by itself. Return each with its error code and message.

    A resource that a request names twice is rejected, with one result.
    """
    times = Counter((each.resource_type, each.resource_name) for each in requested)
    results: list[tuple[RequestedT, int, str | None]] = []
    for each in {(each.resource_type, each.resource_name): each for each in requested}.values():
        try:
            if times[each.resource_type, each.resource_name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            alter_one(each)
        except KafkaError as error:
            results.append((each, int(error.code), error.message or error.code.text))
        else:
            results.append((each, 0, None))
    return results


def _apply(resource: Resource, configs: dict[str, str], validate_only: bool) -> None:
    if resource.exists and not resource.is_changed_by(configs):
        return
    try:
        resource.alter(configs, validate_only)
    except ConfigError as error:
        raise KafkaError(resource.invalid, str(error)) from error


def _changed(resource: Resource, current: str | None, change: Change) -> str | None:
    """Return the new text of a config; None where it is deleted."""
    if change.operation in (Operation.SET, Operation.DELETE):
        return None if change.operation is Operation.DELETE else change.value
    row = resource.row(change.name)
    if row.type is not ConfigType.LIST:
        word = change.operation.name
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Can't {word} to key {change.name} because its type is not LIST.")
    entries = _entries(current if current is not None else row.format(resource.value(row)) or "")
    # As in Java, commas at the end separate nothing, and no entry at all is an empty one.
    named = dict.fromkeys(entry.strip(BLANKS) for entry in (change.value or "").rstrip(",").split(","))
    if change.operation is Operation.APPEND:
        return ",".join(dict.fromkeys([*entries, *named]))
    return ",".join(entry for entry in entries if entry not in named)


def _entries(text: str) -> list[str]:
    return [entry.strip(BLANKS) for entry in text.split(",") if entry.strip(BLANKS)]


def _normalized(resource: Resource, row: ConfigDef, text: str) -> str:
    """Return a value's text as it is stored and described. KafkaError where the config cannot have it."""
    try:
        row.check_size(text)
        entries = _entries(text) if row.type is ConfigType.LIST and not resource.takes_doubles else ()
        if len(set(entries)) < len(entries):
            raise ConfigError(row.name, row.shown(text), "values must not be duplicated")
        return row.format(row.parse(text)) or ""
    except ConfigError as error:
        raise KafkaError(resource.invalid, str(error)) from error
