"""The configs of topics and brokers: DescribeConfigs (key 32), IncrementalAlterConfigs (key 44)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from ...protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ...protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ...protocol.schema import Message
from ..descriptions import ConfigChange, ConfigEntry, ConfigResource, config_entry
from ..errors import InvalidOption, refuse
from ..network.cluster import Cluster

R = TypeVar("R", bound=Message)

OPERATIONS = {"set": 0, "delete": 1, "append": 2, "subtract": 3}


async def describe(
    cluster: Cluster, resources: Iterable[ConfigResource], names: Collection[str] | None
) -> dict[ConfigResource, dict[str, ConfigEntry]]:
    """The configs by name: all of them, or those in `names`."""
    described: dict[ConfigResource, dict[str, ConfigEntry]] = {}
    keys = None if names is None else sorted(names)
    for resource in resources:
        asked = DescribeConfigsResource(resource.type, resource.name, keys)
        question = DescribeConfigsRequest([asked], include_synonyms=True, include_documentation=True)

        async def ask(question: DescribeConfigsRequest = question, resource: ConfigResource = resource) -> None:
            answer = await _ask(cluster, resource, question, DescribeConfigsResponse)
            for result in answer.results:
                refuse(result.error_code, result.error_message, f"the configs of {resource} cannot be described")
                described[resource] = {entry.name: config_entry(entry) for entry in result.configs}

        await cluster.until_done(ask)
    return described


async def alter(
    cluster: Cluster, changes: Mapping[ConfigResource, Iterable[ConfigChange]], validate_only: bool
) -> None:
    """Raises KafkaError for the first resource that is refused; those before it are changed."""
    for resource, wanted in changes.items():
        configs = [AlterableConfig(each.name, _operation(each), each.value) for each in wanted]
        asked = AlterConfigsResource(resource.type, resource.name, configs)
        question = IncrementalAlterConfigsRequest([asked], validate_only)

        async def ask(question: IncrementalAlterConfigsRequest = question, resource: ConfigResource = resource) -> None:
            answer = await _ask(cluster, resource, question, IncrementalAlterConfigsResponse)
            for result in answer.responses:
                refuse(result.error_code, result.error_message, f"the configs of {resource} were not altered")

        await cluster.until_done(ask)


async def _ask(cluster: Cluster, resource: ConfigResource, question: Message, response: type[R]) -> R:
    """A broker is asked itself; about everything else any of them answers."""
    if resource.node_id is None:
        return await cluster.ask_any(question, response)
    return await cluster.ask(resource.node_id, question, response)


def _operation(change: ConfigChange) -> int:
    if change.operation not in OPERATIONS:
        raise InvalidOption(f"a config can be {', '.join(OPERATIONS)}, not {change.operation!r}")
    return OPERATIONS[change.operation]
