"""AlterConfigs, API key 33: give a topic, this broker or every broker the named configs, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ..configs.alteration import alter_each, replace_all
from ..network.request import RequestContext
from ..topics.config_resources import resource_of

if TYPE_CHECKING:
    from ..services import Services


def handle(services: Services, context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Alter each resource as a whole or not at all. A resource that a request names twice is rejected."""
    results = alter_each(request.resources, lambda asked: _alter(services, asked, request.validate_only))
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(code, why, asked.resource_type, asked.resource_name)
            for asked, code, why in results
        ]
    )


def _alter(services: Services, asked: AlterConfigsResource, validate_only: bool) -> None:
    resource = resource_of(services.topics, services.reconfiguration, asked.resource_type, asked.resource_name)
    replace_all(resource, ((each.name, each.value) for each in asked.configs), validate_only)
