"""IncrementalAlterConfigs, API key 44: changes some configs of topics, of this broker, of every broker (KIP-339)."""

from collections import Counter
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ..config_resources import Change, Operation, alter, resource_of
from ..dispatch import RequestContext

if TYPE_CHECKING:
    from ..server import Broker


def handle(
    broker: "Broker", context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """One result a resource: all of its changes are made, or none. A resource that comes twice is refused."""
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
    return IncrementalAlterConfigsResponse(responses=responses)


def _alter(broker: "Broker", asked: AlterConfigsResource, validate_only: bool) -> None:
    resource = resource_of(broker, asked.resource_type, asked.resource_name)
    alter(resource, map(_change, asked.configs), validate_only)


def _change(config: AlterableConfig) -> Change:
    try:
        operation = Operation(config.config_operation)
    except ValueError:
        why = f"{config.name}: {config.config_operation} is not an operation; there are 0 to {max(Operation):d}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, why) from None
    return Change(config.name, operation, config.value)
