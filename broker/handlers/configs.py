"""AlterConfigs, IncrementalAlterConfigs, DescribeConfigs, ListConfigResources: configs of topics, brokers and groups.

Changes are made here or, in a cluster, written into ZooKeeper: the brokers concerned act on what is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages import alter_configs as all_of
from ...protocol.messages import incremental_alter_configs as some_of
from ...protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ...protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ..configs.alteration import Change, Operation, RequestedResource, Resource, alter, alter_each, replace_all
from ..configs.description import ConfigEntry, describe_broker, describe_cluster, describe_group, describe_topic
from ..network.request import RequestContext
from ..services import Services
from ..topics.config_resources import CheckedResource, ResourceType, resource_of
from ..topics.topic_names import check_name
from ..turns import LargeResponse, fill

if TYPE_CHECKING:
    from ..cluster.member import Member

_TYPES = frozenset(ResourceType)
RequestedT = TypeVar("RequestedT", bound=RequestedResource)
ResponseT = TypeVar("ResponseT")
# Of each resource its error code and message.
Results = list[tuple[RequestedT, int, str | None]]


def alter_configs(
    services: Services, context: RequestContext, request: all_of.AlterConfigsRequest
) -> all_of.AlterConfigsResponse | asyncio.Future[all_of.AlterConfigsResponse]:
    """AlterConfigs, API key 33: give a topic, this broker or every broker the named configs, and no others."""

    def alter_one(resource: Resource, asked: all_of.AlterConfigsResource) -> None:
        replace_all(resource, ((each.name, each.value) for each in asked.configs), request.validate_only)

    return _alter_resources(services, request.resources, alter_one, all_of, all_of.AlterConfigsResponse)


def incremental_alter_configs(
    services: Services, context: RequestContext, request: some_of.IncrementalAlterConfigsRequest
) -> some_of.IncrementalAlterConfigsResponse | asyncio.Future[some_of.IncrementalAlterConfigsResponse]:
    """IncrementalAlterConfigs, API key 44: change some configs of a topic, this broker or every broker (KIP-339)."""

    def alter_one(resource: Resource, asked: some_of.AlterConfigsResource) -> None:
        alter(resource, map(_change, asked.configs), request.validate_only)

    return _alter_resources(services, request.resources, alter_one, some_of, some_of.IncrementalAlterConfigsResponse)


def _change(config: some_of.AlterableConfig) -> Change:
    try:
        operation = Operation(config.config_operation)
    except ValueError:
        why = f"{config.name}: {config.config_operation} is not an operation; there are 0 to {max(Operation):d}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, why) from None
    return Change(config.name, operation, config.value)


def _alter_resources(
    services: Services,
    requested: Sequence[RequestedT],
    alter_one: Callable[[Resource, RequestedT], None],
    api: Any,
    response: Callable[..., ResponseT],
) -> ResponseT | asyncio.Future[ResponseT]:
    """Alter each resource as a whole or not at all. A resource that a request names twice is rejected.

    `api` is the module of the message.
    """

    def respond(results: Results[RequestedT]) -> ResponseT:
        answer = api.AlterConfigsResourceResponse
        answers = [answer(code, why, asked.resource_type, asked.resource_name) for asked, code, why in results]
        return response(responses=answers)

    member = services.cluster
    if member is not None:

        async def alter_and_respond() -> ResponseT:
            return respond(await _alter_in_cluster(services, member, requested, alter_one))

        return asyncio.ensure_future(alter_and_respond())

    made: set[tuple[int, str]] = set()

    def alter_here(asked: RequestedT) -> None:
        which = asked.resource_type, asked.resource_name
        if which not in made:
            alter_one(_resource_of(services, asked), asked)
            made.add(which)

    return services.reconfiguration.in_turn(lambda: respond(alter_each(requested, alter_here)))


def _resource_of(services: Services, asked: RequestedResource) -> Resource:
    return resource_of(services.topics, services.reconfiguration, asked.resource_type, asked.resource_name)


async def _alter_in_cluster(
    services: Services,
    member: Member,
    requested: Sequence[RequestedT],
    alter_one: Callable[[Resource, RequestedT], None],
) -> Results[RequestedT]:
    """Alter each resource by itself, at any broker. Return each with its error code and message."""
    try:
        await member.admin.refresh_configs()
    except KafkaError as error:
        return [(each, int(error.code), error.message) for each in requested]
    checked: dict[tuple[int, str], CheckedResource] = {}

    def check(asked: RequestedT) -> None:
        if asked.resource_type == ResourceType.GROUP:
            why = "a cluster with ZooKeeper keeps no configs of groups, as Kafka's does not: set group.consumer.* or "
            why += "group.share.* of every broker"
            raise KafkaError(ErrorCode.INVALID_REQUEST, why)
        resource = checked[asked.resource_type, asked.resource_name] = CheckedResource(_resource_of(services, asked))
        alter_one(resource, asked)

    results: Results[RequestedT] = []
    checking = services.reconfiguration.in_turn(lambda: alter_each(requested, check))
    for asked, code, why in await checking if isinstance(checking, asyncio.Future) else checking:
        found = checked.get((asked.resource_type, asked.resource_name))
        if not code and found is not None and found.wanted is not None:
            code, why = await _write(member, asked, found.wanted)
        results.append((asked, code, why))
    return results


async def _write(member: Member, asked: RequestedResource, configs: dict[str, str]) -> tuple[int, str | None]:
    try:
        entity = "topics" if asked.resource_type == ResourceType.TOPIC else "brokers"
        await member.admin.write_configs(entity, asked.resource_name, configs)
    except KafkaError as error:
        return int(error.code), error.message
    return 0, None


def describe_configs(
    services: Services, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse | LargeResponse[DescribeConfigsResponse]:
    """DescribeConfigs, API key 32: the configs, each with the source of its value.

    A broker is named by its number; the empty name stands for the configs that were changed for every broker. Client
    metrics have no configs here, so their results are empty. An error of one resource does not affect the others, but a
    type that does not exist is as in Kafka an error of all. A resource that a request names twice has one result: a
    result is a thousand times larger than its request.
    """
    response = DescribeConfigsResponse()
    unknown = next((each.resource_type for each in request.resources if each.resource_type not in _TYPES), None)
    if unknown is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no resource type {unknown}")

    def add(resource: DescribeConfigsResource) -> None:
        result = DescribeConfigsResult(0, "", resource.resource_type, resource.resource_name, [])
        try:
            entries = _entries(services, resource)
            result.configs = [_row(entry, request) for entry in entries]
        except KafkaError as error:
            result.error_code, result.error_message = int(error.code), error.message
        response.results.append(result)

    resources = {(each.resource_type, each.resource_name): each for each in request.resources}
    return fill(response, map(add, resources.values()), len(resources))


def _entries(services: Services, resource: DescribeConfigsResource) -> list[ConfigEntry]:
    # An empty list asks for all configs, as null does.
    names = list(dict.fromkeys(resource.configuration_keys or ())) or None
    kind, name = resource.resource_type, resource.resource_name
    if kind == ResourceType.TOPIC:
        check_name(name)
        topic = services.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe_topic(services.config, topic.record.configs, names)
    if kind == ResourceType.BROKER:
        if name == "":
            return describe_cluster(services.config, names)
        if name != str(services.config.node_id):
            why = f"Unexpected broker id, expected {services.config.node_id} or empty string, but received {name}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, why)
        return describe_broker(services.config, names)
    if kind in (ResourceType.GROUP, ResourceType.CLIENT_METRICS):
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the name of the resource must not be empty")
        overrides = services.reconfiguration.groups.get(name, {})
        return describe_group(services.config, overrides, names) if kind == ResourceType.GROUP else []
    raise KafkaError(ErrorCode.INVALID_REQUEST, "loggers have no configs here")


def _row(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    hidden = entry.is_sensitive
    synonyms = [
        DescribeConfigsSynonym(each.name, None if hidden else each.value, int(each.source)) for each in entry.synonyms
    ]
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=None if hidden else entry.value,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=hidden,
        synonyms=synonyms if request.include_synonyms else [],
        config_type=int(entry.type),
        documentation=entry.documentation if request.include_documentation else None,
    )


def list_config_resources(
    services: Services, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse | LargeResponse[ListConfigResourcesResponse]:
    """ListConfigResources, API key 74: the resources that can have configs.

    Version 0 lists client metrics, of which there are none. Version 1 lists the requested types, or all.
    UNSUPPORTED_VERSION for a type that does not exist.
    """
    kinds = dict.fromkeys(request.resource_types or ResourceType)
    if context.api_version == 0:
        kinds = dict.fromkeys([ResourceType.CLIENT_METRICS])
    if not all(kind in list(ResourceType) for kind in kinds):
        return ListConfigResourcesResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION))
    found = [(name, int(kind)) for kind in kinds for name in _names(services, kind)]
    response = ListConfigResourcesResponse()
    return fill(response, (response.config_resources.append(ConfigResource(*each)) for each in found), len(found))


def _names(services: Services, kind: int) -> list[str]:
    """Return the names of a type. Groups are listed if they have configs, and client metrics never have any here."""
    if kind == ResourceType.TOPIC:
        return [topic.name for topic in services.topics.all()]
    if kind == ResourceType.GROUP:
        return list(services.reconfiguration.groups)
    return [str(services.config.node_id)] if kind == ResourceType.BROKER else []
