"""AlterConfigs and IncrementalAlterConfigs: changes are made here or, in a cluster, written into ZooKeeper.

In a cluster the brokers concerned act on what is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages import alter_configs as all_of
from ...protocol.messages import incremental_alter_configs as some_of
from ..configs.alteration import Change, Operation, RequestedResource, Resource, alter, alter_each, replace_all
from ..network.request import RequestContext
from ..services import Services
from ..topics.config_resources import CheckedResource, ResourceType, resource_of

if TYPE_CHECKING:
    from ..cluster.member import Member

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

    def respond(results: Results[all_of.AlterConfigsResource]) -> all_of.AlterConfigsResponse:
        answer = all_of.AlterConfigsResourceResponse
        return all_of.AlterConfigsResponse(
            responses=[answer(code, why, asked.resource_type, asked.resource_name) for asked, code, why in results]
        )

    return _alter_resources(services, request.resources, alter_one, respond)


def incremental_alter_configs(
    services: Services, context: RequestContext, request: some_of.IncrementalAlterConfigsRequest
) -> some_of.IncrementalAlterConfigsResponse | asyncio.Future[some_of.IncrementalAlterConfigsResponse]:
    """IncrementalAlterConfigs, API key 44: change some configs of a topic, this broker or every broker (KIP-339)."""

    def alter_one(resource: Resource, asked: some_of.AlterConfigsResource) -> None:
        alter(resource, map(_change, asked.configs), request.validate_only)

    def respond(results: Results[some_of.AlterConfigsResource]) -> some_of.IncrementalAlterConfigsResponse:
        answer = some_of.AlterConfigsResourceResponse
        return some_of.IncrementalAlterConfigsResponse(
            responses=[answer(code, why, asked.resource_type, asked.resource_name) for asked, code, why in results]
        )

    return _alter_resources(services, request.resources, alter_one, respond)


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
    respond: Callable[[Results[RequestedT]], ResponseT],
) -> ResponseT | asyncio.Future[ResponseT]:
    """Alter each resource as a whole or not at all. A resource that a request names twice is rejected."""
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
            why = "the brokers of a cluster keep no configs of groups: set the broker's group.consumer.* configs"
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
        if asked.resource_type == ResourceType.TOPIC:
            await member.admin.write_topic_configs(asked.resource_name, configs)
        else:
            await member.admin.write_broker_configs(asked.resource_name, configs)
    except KafkaError as error:
        return int(error.code), error.message
    return 0, None
