"""ListConfigResources, API key 74: the resources that can have configs.

Version 0 lists client metrics, of which there are none. Version 1 lists the requested types, or all.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ..network.request import RequestContext
from ..services import Services
from ..topics.config_resources import ResourceType


def handle(
    services: Services, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """List the resources. UNSUPPORTED_VERSION for a type that does not exist."""
    kinds = dict.fromkeys(request.resource_types or ResourceType)
    if context.api_version == 0:
        kinds = dict.fromkeys([ResourceType.CLIENT_METRICS])
    if not all(kind in list(ResourceType) for kind in kinds):
        return ListConfigResourcesResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION))
    resources = [ConfigResource(name, int(kind)) for kind in kinds for name in _names(services, kind)]
    return ListConfigResourcesResponse(config_resources=resources)


def _names(services: Services, kind: int) -> list[str]:
    """Return the names of a type. Groups are listed if they have configs, and client metrics never have any here."""
    if kind == ResourceType.TOPIC:
        return [topic.name for topic in services.topics.all()]
    if kind == ResourceType.GROUP:
        return list(services.reconfiguration.groups)
    return [str(services.config.node_id)] if kind == ResourceType.BROKER else []
