"""AlterConfigs, API key 33: give a topic, this broker or every broker the named configs, and no others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ..configs.alteration import Resource, alter_each, replace_all
from ..network.request import RequestContext
from ..topics.config_resources import resource_of
from .cluster_configs import alter_in_cluster

if TYPE_CHECKING:
    from ..cluster.member import Member
    from ..services import Services


def handle(
    services: Services, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse | asyncio.Future[AlterConfigsResponse]:
    """Alter each resource as a whole or not at all. A resource that a request names twice is rejected."""
    if services.cluster is not None:
        return asyncio.ensure_future(_alter_in_cluster(services, services.cluster, request))

    def alter_one(asked: AlterConfigsResource) -> None:
        resource = resource_of(services.topics, services.reconfiguration, asked.resource_type, asked.resource_name)
        _alter(resource, asked, request.validate_only)

    return _respond(alter_each(request.resources, alter_one))


async def _alter_in_cluster(services: Services, member: Member, request: AlterConfigsRequest) -> AlterConfigsResponse:
    def alter_one(resource: Resource, asked: AlterConfigsResource) -> None:
        _alter(resource, asked, request.validate_only)

    return _respond(await alter_in_cluster(services, member, request.resources, alter_one))


def _respond(results: list[tuple[AlterConfigsResource, int, str | None]]) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(code, why, asked.resource_type, asked.resource_name)
            for asked, code, why in results
        ]
    )


def _alter(resource: Resource, asked: AlterConfigsResource, validate_only: bool) -> None:
    replace_all(resource, ((each.name, each.value) for each in asked.configs), validate_only)
