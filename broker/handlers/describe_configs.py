"""DescribeConfigs, API key 32: the configs of topics, brokers and consumer groups, each with the source of its value.

A broker is named by its number; the empty name stands for the configs that were changed for every broker. Client
metrics have no configs here, so their results are empty.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ..configs.description import ConfigEntry, describe_broker, describe_cluster, describe_group, describe_topic
from ..network.request import RequestContext
from ..services import Services
from ..topics.config_resources import ResourceType
from ..topics.topic_names import check_name


def handle(services: Services, context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Return one result for each resource; an error of one does not affect the others.

    A resource that a request names twice has one result: a result is a thousand times larger than its request.
    """
    results: list[DescribeConfigsResult] = []
    for resource in {(each.resource_type, each.resource_name): each for each in request.resources}.values():
        result = DescribeConfigsResult(0, "", resource.resource_type, resource.resource_name, [])
        try:
            entries = _entries(services, resource)
            result.configs = [_row(entry, request) for entry in entries]
        except KafkaError as error:
            result.error_code, result.error_message = int(error.code), error.message or error.code.text
        results.append(result)
    return DescribeConfigsResponse(results=results)


def _entries(services: Services, resource: DescribeConfigsResource) -> list[ConfigEntry]:
    # An empty list asks for all configs, as null does.
    names = list(dict.fromkeys(resource.configuration_keys or ())) or None
    kind, name = resource.resource_type, resource.resource_name
    if kind == ResourceType.TOPIC:
        check_name(name)
        topic = services.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe_topic(services.config, topic.record.configs, names)
    if kind == ResourceType.BROKER:
        if name == "":
            return describe_cluster(services.config, names)
        if name != str(services.config.node_id):
            why = f"Unexpected broker id, expected {services.config.node_id} or empty string, but received {name}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, why)
        return describe_broker(services.config, names)
    if kind in (ResourceType.GROUP, ResourceType.CLIENT_METRICS):
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the name of the resource must not be empty")
        overrides = services.reconfiguration.groups.get(name, {})
        return describe_group(services.config, overrides, names) if kind == ResourceType.GROUP else []
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"configs of resource type {kind} are not served")


def _row(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    hidden = entry.is_sensitive
    synonyms = [
        DescribeConfigsSynonym(each.name, None if hidden else each.value, int(each.source)) for each in entry.synonyms
    ]
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=None if hidden else entry.value,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=hidden,
        synonyms=synonyms if request.include_synonyms else [],
        config_type=int(entry.type),
        documentation=entry.documentation if request.include_documentation else None,
    )
