"""AlterConfigs, API key 33: give a topic, this broker or every broker the named configs, and no others."""

from __future__ import annotations

import asyncio

from ...protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ..configs.alteration import Resource, replace_all
from ..network.request import RequestContext
from ..services import Services
from .config_changes import alter_resources


def handle(
    services: Services, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse | asyncio.Future[AlterConfigsResponse]:
    """Alter each resource as a whole or not at all. A resource that a request names twice is rejected."""

    def alter_one(resource: Resource, asked: AlterConfigsResource) -> None:
        replace_all(resource, ((each.name, each.value) for each in asked.configs), request.validate_only)

    return alter_resources(services, request.resources, alter_one, _respond)


def _respond(results: list[tuple[AlterConfigsResource, int, str | None]]) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(code, why, asked.resource_type, asked.resource_name)
            for asked, code, why in results
        ]
    )
