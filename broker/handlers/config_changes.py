"""Changes of configs, for AlterConfigs and IncrementalAlterConfigs: made here or, in a cluster, written into ZooKeeper.

In a cluster the brokers concerned act on what is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ..configs.alteration import RequestedResource, Resource, alter_each
from ..topics.config_resources import CheckedResource, ResourceType, resource_of

if TYPE_CHECKING:
    from ..cluster.member import Member
    from ..services import Services

RequestedT = TypeVar("RequestedT", bound=RequestedResource)
ResponseT = TypeVar("ResponseT")


def alter_resources(
    services: Services,
    requested: Sequence[RequestedT],
    alter_one: Callable[[Resource, RequestedT], None],
    respond: Callable[[list[tuple[RequestedT, int, str | None]]], ResponseT],
) -> ResponseT | asyncio.Future[ResponseT]:
    """Alter each resource as a whole or not at all. A resource that a request names twice is rejected.

    `respond` makes the response from each resource with its error code and message.
    """
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
) -> list[tuple[RequestedT, int, str | None]]:
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

    results: list[tuple[RequestedT, int, str | None]] = []
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
