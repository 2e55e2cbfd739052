"""The configs of topics, brokers and groups: DescribeConfigs (key 32), IncrementalAlterConfigs (key 44)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar, cast

from ...protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from ...protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ...protocol.schema import Message
from ..core.cluster import Cluster
from ..core.descriptions import ConfigChange, ConfigChanges, ConfigEntry, ConfigResource
from ..core.leaders import one_by_one
from ..core.options import check_mapping, check_switches, items_of
from ..errors import ErrorCode, InvalidOption, UnknownTopic, only, raise_error

R = TypeVar("R", bound=Message)

_OPERATIONS = {"set": 0, "delete": 1, "append": 2, "subtract": 3}


async def describe_configs(
    cluster: Cluster,
    resources: ConfigResource | Iterable[ConfigResource] = (),
    *more: ConfigResource,
    names: Collection[str] | None = None,
) -> dict[ConfigResource, dict[str, ConfigEntry]]:
    """Return the configs of topics, brokers or groups by name: all of them, or those in `names`."""
    asked = items_of("describe_configs", ConfigResource, (resources, *more))
    keys = None if names is None else sorted(names)
    return await one_by_one(cluster, asked, lambda resource: _describe_one(cluster, resource, keys))


async def _describe_one(cluster: Cluster, resource: ConfigResource, keys: list[str] | None) -> dict[str, ConfigEntry]:
    wanted = DescribeConfigsResource(resource.type, resource.name, keys)
    request = DescribeConfigsRequest([wanted], include_synonyms=True, include_documentation=True)
    response = await _request(cluster, resource, request, DescribeConfigsResponse)
    result = only(response.results, resource)
    _check_topic(result.error_code, resource)
    raise_error(result.error_code, result.error_message, f"the configs of {resource} cannot be described")
    return {entry.name: _entry(entry) for entry in result.configs}


def _entry(entry: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        entry.name,
        entry.value,
        entry.config_source,
        entry.read_only,
        entry.is_sensitive,
        entry.config_type,
        entry.documentation,
        tuple((synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms),
    )


async def alter_configs(
    cluster: Cluster, changes: Mapping[ConfigResource, ConfigChanges], *, validate_only: bool = False
) -> None:
    """Change some configs of topics or brokers; the others stay. Of each resource all are changed, or none.

    The changes are ConfigChange objects, or a dict of names and values, of which None resets a config.
    Raises KafkaError, INVALID_CONFIG or INVALID_REQUEST for an invalid change.
    """
    check_switches(validate_only=validate_only)
    check_mapping("alter_configs", changes, "ConfigResource and changes")
    items_of("alter_configs", ConfigResource, [changes])
    wanted = {resource: [_alterable(each) for each in _changes(some)] for resource, some in changes.items()}
    # One resource after another, because the configs of a broker go to that broker.
    await one_by_one(cluster, wanted, lambda each: _alter_one(cluster, each, wanted[each], validate_only))


async def _alter_one(
    cluster: Cluster, resource: ConfigResource, configs: list[AlterableConfig], validate_only: bool
) -> None:
    wanted = AlterConfigsResource(resource.type, resource.name, configs)
    request = IncrementalAlterConfigsRequest([wanted], validate_only)
    response = await _request(cluster, resource, request, IncrementalAlterConfigsResponse)
    result = only(response.responses, resource)
    _check_topic(result.error_code, resource)
    raise_error(result.error_code, result.error_message, f"the configs of {resource} were not altered")


def _check_topic(error_code: int, resource: ConfigResource) -> None:
    """Raise UnknownTopic, which is not retried, if the resource is a topic that does not exist."""
    if ErrorCode.of(error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise UnknownTopic(f"{resource} does not exist")


async def _request(cluster: Cluster, resource: ConfigResource, request: Message, response: type[R]) -> R:
    """Send a request about a broker to that broker, and any other request to any broker."""
    if resource.node_id is None:
        return await cluster.request_any(request, response)
    return await cluster.request(resource.node_id, request, response)


def _changes(given: ConfigChanges) -> Iterable[ConfigChange]:
    """Return the changes that a dict of names and values stands for; None resets."""
    if not isinstance(given, Mapping):
        return given
    values = cast("Mapping[str, str | None]", given)
    return [ConfigChange(name, value, "delete" if value is None else "set") for name, value in values.items()]


def _alterable(change: ConfigChange) -> AlterableConfig:
    if change.value is not None:
        check_config(change.name, change.value)
    if change.operation not in _OPERATIONS:
        raise InvalidOption(f"a config can be {', '.join(_OPERATIONS)}, not {change.operation!r}")
    return AlterableConfig(change.name, _OPERATIONS[change.operation], change.value)


def check_config(name: str, value: object) -> None:
    """Raise TypeError unless a config's value is a str, as in all of Kafka's requests."""
    if not isinstance(value, str):
        raise TypeError(f"the value of the config {name!r} is a str, not {type(value).__name__}")
