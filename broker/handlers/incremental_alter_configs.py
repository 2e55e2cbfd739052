"""IncrementalAlterConfigs, API key 44: change some configs of a topic, this broker or every broker (KIP-339)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ..configs.alteration import Change, Operation, alter, alter_each
from ..network.request import RequestContext
from ..topics.config_resources import resource_of

if TYPE_CHECKING:
    from ..services import Services


def handle(
    services: Services, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Make all changes of a resource or none. A resource that a request names twice is rejected."""
    results = alter_each(request.resources, lambda asked: _alter(services, asked, request.validate_only))
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(code, why, asked.resource_type, asked.resource_name)
            for asked, code, why in results
        ]
    )


def _alter(services: Services, asked: AlterConfigsResource, validate_only: bool) -> None:
    resource = resource_of(services.topics, services.reconfiguration, asked.resource_type, asked.resource_name)
    alter(resource, map(_change, asked.configs), validate_only)


def _change(config: AlterableConfig) -> Change:
    try:
        operation = Operation(config.config_operation)
    except ValueError:
        why = f"{config.name}: {config.config_operation} is not an operation; there are 0 to {max(Operation):d}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, why) from None
    return Change(config.name, operation, config.value)
