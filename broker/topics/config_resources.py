"""The resources whose configs can be altered while the broker runs: topics, brokers and groups.

Client metrics have configs in Kafka and none here: a request may name them, and finds nothing to set.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from ...protocol.errors import ErrorCode, KafkaError
from ..configs.alteration import Resource
from ..configs.broker_config import BROKER_CONFIGS
from ..configs.definition import ConfigDef, ConfigType, Value, suggestion
from ..configs.group_config import GROUP_CONFIGS, effective_value
from ..configs.listener_config import PREFIX
from ..configs.reconfiguration import Reconfiguration
from ..configs.topic_config import TOPIC_CONFIGS
from ..configs.unsupported_configs import THROTTLES, UNSUPPORTED_CONFIGS
from .topic_names import check_name
from .topics import Topics


class ResourceType(IntEnum):
    """What a config belongs to, with its number in the requests."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def resource_of(topics: Topics, reconfiguration: Reconfiguration, kind: int, name: str) -> Resource:
    """Return the resource of that type and name. The KafkaErrors are Kafka's."""
    match kind:
        case ResourceType.TOPIC:
            return _topic_resource(topics, name)
        case ResourceType.BROKER:
            return _broker_resource(reconfiguration, name)
        case ResourceType.GROUP:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
            return GroupResource(reconfiguration, name)
        case ResourceType.CLIENT_METRICS:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
            return EmptyResource(ErrorCode.INVALID_REQUEST, "clients' metrics are not collected here")
        case ResourceType.BROKER_LOGGER:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "loggers cannot be altered while the broker runs")
        case _:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


def _topic_resource(topics: Topics, name: str) -> TopicResource:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_name(name)
    return TopicResource(topics, name)


def _broker_resource(reconfiguration: Reconfiguration, name: str) -> BrokerResource:
    node_id = reconfiguration.config.node_id
    if name and name != str(node_id):
        why = f"Unexpected broker id, expected {node_id} or nothing for every broker, but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)
    return BrokerResource(reconfiguration, name)


class TopicResource(Resource):
    """The configs of one topic. As in Kafka, an absent topic is an error only where its configs are right."""

    def __init__(self, topics: Topics, name: str) -> None:
        self._topics = topics
        self._name = name
        self._topic = topics.get(name)
        self.exists = self._topic is not None

    def overrides(self) -> Mapping[str, str]:
        return {} if self._topic is None else self._topic.record.configs

    def row(self, name: str) -> ConfigDef:
        row = TOPIC_CONFIGS.get(name)
        if row is None:
            why = f"{name}: no topic config has this name{suggestion(name, TOPIC_CONFIGS)}"
            raise KafkaError(self.invalid, why)
        return row

    def value(self, row: ConfigDef) -> Value:
        return row.default if self._topic is None or row.unsupported else getattr(self._topic.config, row.attribute)

    def alter(self, configs: dict[str, str], validate_only: bool) -> None:
        self._topics.check_config(configs)
        if self._topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{self._name}' does not exist.")
        if not validate_only:
            self._topics.alter(self._topic, configs)


class BrokerResource(Resource):
    """The dynamic configs of this broker, named by its number, or of every broker, named by the empty text."""

    invalid = ErrorCode.INVALID_REQUEST
    takes_doubles = False

    def __init__(self, reconfiguration: Reconfiguration, name: str) -> None:
        self._reconfiguration = reconfiguration
        self._name = name

    def overrides(self) -> Mapping[str, str]:
        return self._reconfiguration.overrides(self._name)

    def row(self, name: str) -> ConfigDef:
        row = self._reconfiguration.config.row(name)
        if row is None:
            unknown = "no broker config has this name" + suggestion(name, BROKER_CONFIGS)
            known = "Odradek does not act on it" if name in UNSUPPORTED_CONFIGS or name in THROTTLES else unknown
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name}: {known}")
        if not row.dynamic:
            why = f"Cannot update these configs dynamically: [{name}]; they are given to a broker that starts"
            raise KafkaError(self.invalid, why)
        return row

    def value(self, row: ConfigDef) -> Value:
        return self._reconfiguration.config.value(row.name)

    def is_changed_by(self, configs: Mapping[str, str]) -> bool:
        # As in Kafka, the same path again has a listener read the file again.
        return configs != self.overrides() or any(name.startswith(PREFIX) for name in configs)

    def alter(self, configs: dict[str, str], validate_only: bool) -> None:
        self._reconfiguration.alter(self._name, configs, validate_only)


class GroupResource(Resource):
    """The configs of one group, which need not exist yet."""

    def __init__(self, reconfiguration: Reconfiguration, group_id: str) -> None:
        self._reconfiguration = reconfiguration
        self._group_id = group_id

    def overrides(self) -> Mapping[str, str]:
        return self._reconfiguration.groups.get(self._group_id, {})

    def row(self, name: str) -> ConfigDef:
        row = GROUP_CONFIGS.get(name)
        if row is None:
            raise KafkaError(self.invalid, f"Unknown group config name: {name}{suggestion(name, GROUP_CONFIGS)}")
        return row

    def value(self, row: ConfigDef) -> Value:
        return effective_value(self._reconfiguration.config, self.overrides(), row.name)

    def alter(self, configs: dict[str, str], validate_only: bool) -> None:
        self._reconfiguration.alter_group(self._group_id, configs, validate_only)


class CheckedResource(Resource):
    """A resource whose changes are checked and kept in `wanted`, for someone else to make them."""

    def __init__(self, resource: Resource) -> None:
        self.invalid, self.takes_doubles = resource.invalid, resource.takes_doubles
        self.exists = resource.exists
        self.wanted: dict[str, str] | None = None
        self._resource = resource

    def overrides(self) -> Mapping[str, str]:
        return self._resource.overrides()

    def row(self, name: str) -> ConfigDef:
        row = self._resource.row(name)
        if row.type is ConfigType.PASSWORD:
            why = f"{name}: a password is not kept in ZooKeeper; give it to a broker that starts"
            raise KafkaError(self.invalid, why)
        return row

    def value(self, row: ConfigDef) -> Value:
        return self._resource.value(row)

    def is_changed_by(self, configs: Mapping[str, str]) -> bool:
        return self._resource.is_changed_by(configs)

    def alter(self, configs: dict[str, str], validate_only: bool) -> None:
        self._resource.alter(configs, True)
        if not validate_only:
            self.wanted = configs


class EmptyResource(Resource):
    """A resource that a request may name and that has no configs here."""

    def __init__(self, invalid: ErrorCode, why: str) -> None:
        self.invalid = invalid
        self._why = why

    def row(self, name: str) -> ConfigDef:
        raise KafkaError(self.invalid, f"{name}: {self._why}")

    def value(self, row: ConfigDef) -> Value:
        return row.default

    def alter(self, configs: dict[str, str], validate_only: bool) -> None:
        """Do nothing: `row` rejects every name before."""
