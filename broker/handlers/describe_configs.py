"""DescribeConfigs, API key 32: the configs of topics and of this broker, with where each value comes from.

Version 1 brought sources and synonyms, 3 types and documentation. Resources are topics (2) and this broker (4), by
number, or by the empty name for the cluster-wide default, which holds nothing while configs cannot be altered.
"""

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ..dispatch import RequestContext
from ..settings import ConfigEntry
from ..topic_config import describe_topic
from ..topics import check_name

if TYPE_CHECKING:
    from ..server import Broker

TOPIC = 2
BROKER = 4


def handle(broker: "Broker", context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """One result a resource; one resource's error is no other's. A resource that comes twice is answered once: all
    that is described of it is a thousand times what it takes to ask.
    """
    results: list[DescribeConfigsResult] = []
    for resource in {(each.resource_type, each.resource_name): each for each in request.resources}.values():
        result = DescribeConfigsResult(0, "", resource.resource_type, resource.resource_name, [])
        try:
            entries = _entries(broker, resource)
            result.configs = [_row(entry, request) for entry in entries]
        except KafkaError as error:
            result.error_code, result.error_message = int(error.code), error.message or error.code.text
        results.append(result)
    return DescribeConfigsResponse(results=results)


def _entries(broker: "Broker", resource: DescribeConfigsResource) -> list[ConfigEntry]:
    # An empty list asks for all of them, as null does.
    names = list(dict.fromkeys(resource.configuration_keys or ())) or None
    if resource.resource_type == TOPIC:
        check_name(resource.resource_name)
        topic = broker.topics.get(resource.resource_name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe_topic(broker.config, topic.record.configs, names)
    if resource.resource_type == BROKER:
        if resource.resource_name == "":
            return []
        if resource.resource_name != str(broker.node_id):
            given = resource.resource_name
            why = f"Unexpected broker id, expected {broker.node_id} or empty string, but received {given}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, why)
        return broker.config.describe(names)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"configs of resource type {resource.resource_type} are not served")


def _row(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = [DescribeConfigsSynonym(each.name, each.value, int(each.source)) for each in entry.synonyms]
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=entry.is_sensitive,
        synonyms=synonyms if request.include_synonyms else [],
        config_type=int(entry.kind),
        documentation=entry.documentation if request.include_documentation else None,
    )
