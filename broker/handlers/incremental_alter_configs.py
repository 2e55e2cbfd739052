"""IncrementalAlterConfigs, API key 44: change some configs of a topic, this broker or every broker (KIP-339)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ..configs.alteration import Change, Operation, Resource, alter, alter_each
from ..network.request import RequestContext
from ..topics.config_resources import resource_of
from .cluster_configs import alter_in_cluster

if TYPE_CHECKING:
    from ..cluster.member import Member
    from ..services import Services


def handle(
    services: Services, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse | asyncio.Future[IncrementalAlterConfigsResponse]:
    """Make all changes of a resource or none. A resource that a request names twice is rejected."""
    if services.cluster is not None:
        return asyncio.ensure_future(_alter_in_cluster(services, services.cluster, request))

    def alter_one(asked: AlterConfigsResource) -> None:
        resource = resource_of(services.topics, services.reconfiguration, asked.resource_type, asked.resource_name)
        _alter(resource, asked, request.validate_only)

    return _respond(alter_each(request.resources, alter_one))


async def _alter_in_cluster(
    services: Services, member: Member, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    def alter_one(resource: Resource, asked: AlterConfigsResource) -> None:
        _alter(resource, asked, request.validate_only)

    return _respond(await alter_in_cluster(services, member, request.resources, alter_one))


def _respond(results: list[tuple[AlterConfigsResource, int, str | None]]) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(code, why, asked.resource_type, asked.resource_name)
            for asked, code, why in results
        ]
    )


def _alter(resource: Resource, asked: AlterConfigsResource, validate_only: bool) -> None:
    alter(resource, map(_change, asked.configs), validate_only)


def _change(config: AlterableConfig) -> Change:
    try:
        operation = Operation(config.config_operation)
    except ValueError:
        why = f"{config.name}: {config.config_operation} is not an operation; there are 0 to {max(Operation):d}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, why) from None
    return Change(config.name, operation, config.value)
