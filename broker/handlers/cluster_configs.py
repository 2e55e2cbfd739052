"""Changes of configs in a cluster: checked here, written into ZooKeeper, and acted on by the brokers concerned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ..configs.alteration import RequestedResource, Resource, alter_each
from ..topics.config_resources import CheckedResource, ResourceType, resource_of

if TYPE_CHECKING:
    from ..cluster.member import Member
    from ..services import Services

RequestedT = TypeVar("RequestedT", bound=RequestedResource)


async def alter_in_cluster(
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
        kind, name = asked.resource_type, asked.resource_name
        if kind == ResourceType.GROUP:
            why = "the brokers of a cluster keep no configs of groups: set the broker's group.consumer.* configs"
            raise KafkaError(ErrorCode.INVALID_REQUEST, why)
        resource = resource_of(services.topics, services.reconfiguration, kind, name)
        checked[kind, name] = CheckedResource(resource)
        alter_one(checked[kind, name], asked)

    results: list[tuple[RequestedT, int, str | None]] = []
    for asked, code, why in alter_each(requested, check):
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
