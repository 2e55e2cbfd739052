"""IncrementalAlterConfigs, API key 44: change some configs of a topic, this broker or every broker (KIP-339)."""

from __future__ import annotations

import asyncio

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ..configs.alteration import Change, Operation, Resource, alter
from ..network.request import RequestContext
from ..services import Services
from .config_changes import alter_resources


def handle(
    services: Services, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse | asyncio.Future[IncrementalAlterConfigsResponse]:
    """Make all changes of a resource or none. A resource that a request names twice is rejected."""

    def alter_one(resource: Resource, asked: AlterConfigsResource) -> None:
        alter(resource, map(_change, asked.configs), request.validate_only)

    return alter_resources(services, request.resources, alter_one, _respond)


def _respond(results: list[tuple[AlterConfigsResource, int, str | None]]) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(code, why, asked.resource_type, asked.resource_name)
            for asked, code, why in results
        ]
    )


def _change(config: AlterableConfig) -> Change:
    try:
        operation = Operation(config.config_operation)
    except ValueError:
        why = f"{config.name}: {config.config_operation} is not an operation; there are 0 to {max(Operation):d}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, why) from None
    return Change(config.name, operation, config.value)
