"""Whose configs can be changed while the broker runs: topics, this broker, every broker of the cluster.

A request gives changes (set, delete, append, subtract) or the whole; from those and from what a resource has, its new
configs are made, checked together, and taken over together. Groups and client metrics have configs in Kafka and none
here: all that is said of them is that nothing is set.

Promise: what is accepted is acted on when the change is answered, and by every later start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ..topics.topic import Topic
from ..topics.topic_names import check_name
from .broker_config import SETTINGS
from .settings import ConfigError, Kind, Setting, Value, near
from .topic_config import EVERY_TOPIC_SETTING

if TYPE_CHECKING:
    from ..server import Broker


class ResourceType(IntEnum):
    """What a config belongs to, by its number on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Operation(IntEnum):
    """What is done to a config (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One config's change; `value` is None for DELETE alone."""

    name: str
    operation: Operation
    value: str | None


class Resource(Protocol):
    """Something with configs."""

    # What an invalid value is answered with: Kafka has one for topics and another for brokers.
    invalid: ErrorCode

    def overrides(self) -> Mapping[str, str]:
        """What is set."""
        ...

    def setting(self, name: str) -> Setting:
        """The declaration of a config that may be set. KafkaError where it may not."""
        ...

    def value(self, declared: Setting) -> Value:
        """What holds now."""
        ...

    def alter(self, configs: dict[str, str], validate_only: bool) -> None:
        """Gives the resource these configs and no others. ConfigError or KafkaError where that cannot be."""
        ...


class Asked(Protocol):
    """What a request asks of a resource."""

    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...


AskedT = TypeVar("AskedT", bound=Asked)


def resource_of(broker: Broker, kind: int, name: str) -> Resource:
    """The resource of that type and name. KafkaErrors as Kafka's."""
    if kind == ResourceType.TOPIC:
        return _topic(broker, name)
    if kind == ResourceType.BROKER:
        if name and name != str(broker.node_id):
            why = f"Unexpected broker id, expected {broker.node_id} or nothing for every broker, but received {name}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, why)
        return BrokerResource(broker, name)
    if kind == ResourceType.GROUP:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        return NothingToConfigure(ErrorCode.INVALID_CONFIG, "groups of the classic protocol have no configs")
    if kind == ResourceType.CLIENT_METRICS:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
        return NothingToConfigure(ErrorCode.INVALID_REQUEST, "clients' metrics are not collected here")
    if kind == ResourceType.BROKER_LOGGER:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "loggers cannot be altered while the broker runs")
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


def _topic(broker: Broker, name: str) -> TopicResource:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_name(name)
    topic = broker.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return TopicResource(broker, topic)


class TopicResource:
    """The configs of one topic."""

    invalid = ErrorCode.INVALID_CONFIG

    def __init__(self, broker: Broker, topic: Topic) -> None:
        self._broker = broker
        self._topic = topic

    def overrides(self) -> Mapping[str, str]:
        return self._topic.record.configs

    def setting(self, name: str) -> Setting:
        declared = EVERY_TOPIC_SETTING.get(name)
        if declared is None:
            raise KafkaError(self.invalid, f"{name}: no topic config has this name{near(name, EVERY_TOPIC_SETTING)}")
        return declared

    def value(self, declared: Setting) -> Value:
        return getattr(self._topic.config, declared.attribute) if declared.acted_on else declared.default

    def alter(self, configs: dict[str, str], validate_only: bool) -> None:
        self._broker.topics.check_config(configs)
        if not validate_only:
            self._broker.topics.alter(self._topic, configs)


class BrokerResource:
    """What is changed for this broker, by its number, or for every one of the cluster, by the empty name."""

    invalid = ErrorCode.INVALID_REQUEST

    def __init__(self, broker: Broker, node: str) -> None:
        self._broker = broker
        self._node = node

    def overrides(self) -> Mapping[str, str]:
        return self._broker.metadata.broker_configs.get(self._node, {})

    def setting(self, name: str) -> Setting:
        declared = SETTINGS.get(name)
        if declared is None:
            from .kafka_names import KAFKA_NAMES  # a long table, needed only for names that are not acted on

            unknown = "no broker config has this name" + near(name, SETTINGS)
            known = "Odradek does not act on it" if name in KAFKA_NAMES else unknown
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name}: {known}")
        if not declared.dynamic:
            why = f"Cannot update these configs dynamically: [{name}]; they are given to a broker that starts"
            raise KafkaError(self.invalid, why)
        return declared

    def value(self, declared: Setting) -> Value:
        return getattr(self._broker.config, declared.attribute)

    def alter(self, configs: dict[str, str], validate_only: bool) -> None:
        self._broker.alter_config(self._node, configs, validate_only)


class NothingToConfigure:
    """A resource that can be named, and has no configs here."""

    def __init__(self, invalid: ErrorCode, why: str) -> None:
        self.invalid = invalid
        self._why = why

    def overrides(self) -> Mapping[str, str]:
        return {}

    def setting(self, name: str) -> Setting:
        raise KafkaError(self.invalid, f"{name}: {self._why}")

    def value(self, declared: Setting) -> Value:
        return declared.default

    def alter(self, configs: dict[str, str], validate_only: bool) -> None:
        """Nothing is left to be altered: `setting` refuses every name."""


def alter(resource: Resource, changes: Iterable[Change], validate_only: bool) -> None:
    """Changes some configs of a resource, all of them or none. KafkaErrors as Kafka's."""
    changes = list(changes)
    if len({change.name for change in changes}) < len(changes):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    configs = dict(resource.overrides())
    for change in changes:
        if change.operation is Operation.DELETE:
            configs.pop(change.name, None)
        elif change.value is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {change.name}")
        else:
            configs[change.name] = _changed(resource, configs, change, change.value)
    _take_over(resource, configs, validate_only)


def replace_all(resource: Resource, values: Iterable[tuple[str, str | None]], validate_only: bool) -> None:
    """Gives a resource these configs and no others. KafkaErrors as Kafka's."""
    configs: dict[str, str] = {}
    for name, text in values:
        if text is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
        if name in configs:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        configs[name] = _normal(resource, resource.setting(name), text)
    _take_over(resource, configs, validate_only)


def each_alone(asked: Sequence[AskedT], alter_one: Callable[[AskedT], None]) -> list[tuple[AskedT, int, str | None]]:
    """Each resource that is asked for with its error code and message: one's error is no other's. One that comes twice
    is refused, in one line.
    """
    times = Counter((each.resource_type, each.resource_name) for each in asked)
    results: list[tuple[AskedT, int, str | None]] = []
    for each in {(each.resource_type, each.resource_name): each for each in asked}.values():
        try:
            if times[each.resource_type, each.resource_name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            alter_one(each)
        except KafkaError as error:
            results.append((each, int(error.code), error.message or error.code.text))
        else:
            results.append((each, 0, None))
    return results


def _take_over(resource: Resource, configs: dict[str, str], validate_only: bool) -> None:
    if configs == resource.overrides():
        return
    try:
        resource.alter(configs, validate_only)
    except ConfigError as error:
        raise KafkaError(resource.invalid, str(error)) from error


def _changed(resource: Resource, configs: Mapping[str, str], change: Change, text: str) -> str:
    declared = resource.setting(change.name)
    if change.operation is Operation.SET:
        return _normal(resource, declared, text)
    if declared.kind is not Kind.LIST:
        word = change.operation.name
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Can't {word} to key {change.name} because its type is not LIST.")
    have = configs.get(change.name)
    entries = _entries(have if have is not None else declared.format(resource.value(declared)) or "")
    if change.operation is Operation.APPEND:
        entries += [entry for entry in dict.fromkeys(_entries(text)) if entry not in entries]
    else:
        taken = _entries(text)
        entries = [entry for entry in entries if entry not in taken]
    return _normal(resource, declared, ",".join(entries))


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",")] if text else []


def _normal(resource: Resource, declared: Setting, text: str) -> str:
    """The text of a value as it is told and written down. KafkaError where the config cannot have it."""
    try:
        return declared.format(declared.parse(text)) or ""
    except ConfigError as error:
        raise KafkaError(resource.invalid, str(error)) from error
