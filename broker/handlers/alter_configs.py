"""AlterConfigs, API key 33: gives topics, this broker or every broker the configs that are named, and no others."""

from collections import Counter
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ..config_resources import replace_all, resource_of
from ..dispatch import RequestContext

if TYPE_CHECKING:
    from ..server import Broker


def handle(broker: "Broker", context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """One result a resource: all of its configs are taken over, or none. A resource that comes twice is refused."""
    times = Counter((each.resource_type, each.resource_name) for each in request.resources)
    responses: list[AlterConfigsResourceResponse] = []
    for asked in {(each.resource_type, each.resource_name): each for each in request.resources}.values():
        result = AlterConfigsResourceResponse(0, None, asked.resource_type, asked.resource_name)
        try:
            if times[asked.resource_type, asked.resource_name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            _alter(broker, asked, request.validate_only)
        except KafkaError as error:
            result.error_code, result.error_message = int(error.code), error.message or error.code.text
        responses.append(result)
    return AlterConfigsResponse(responses=responses)


def _alter(broker: "Broker", asked: AlterConfigsResource, validate_only: bool) -> None:
    resource = resource_of(broker, asked.resource_type, asked.resource_name)
    replace_all(resource, ((each.name, each.value) for each in asked.configs), validate_only)
