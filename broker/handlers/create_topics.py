"""CreateTopics, API key 19: topics with partitions and configs.

Version 4 allows -1 for partitions and replication factor (the broker's defaults), 5 returns the topic with its configs,
7 its id.
"""

from __future__ import annotations

from collections import Counter
from operator import attrgetter

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ..configs.description import describe_topic
from ..network.request import RequestContext
from ..quotas.client_quotas import Mutations
from ..services import Services
from ..topics.internal_topics import cleanup_policy
from ..topics.topic_names import INTERNAL_TOPICS, check_asked_partitions, new_topic_id
from ..turns import keeper

_DEFAULT = -1
# The first version whose clients know THROTTLING_QUOTA_EXCEEDED.
FIRST_WITH_QUOTA_ERROR = 6


async def handle(services: Services, context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Return one result for each topic, in order. An error of one topic does not affect the others.

    A name that comes twice is an error. Other requests get their turns after every topic, and while one with many
    partitions is created.
    """
    mutations = services.quotas.mutations(*context.client, context.api_version >= FIRST_WITH_QUOTA_ERROR)
    times: Counter[str] = Counter()
    partitions = 0
    for topic in request.topics:
        times[topic.name] += 1
        wanted = services.config.num_partitions if topic.num_partitions == _DEFAULT else topic.num_partitions
        partitions += len(topic.assignments) or max(wanted, 0)
        await keeper().pause()
    results: dict[str, CreatableTopicResult] = {}
    for topic in request.topics:
        try:
            if services.cluster is not None:
                services.cluster.admin.check_controller()
            if times[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            check_asked_partitions(partitions)
            results[topic.name] = await _create(services, topic, request, mutations)
        except KafkaError as error:
            results[topic.name] = _error(topic.name, error.code, error.message)
        await keeper().pause()
    response = CreateTopicsResponse(topics=list(results.values()))
    context.throttle(response, mutations.throttle_ms)
    return response


async def _create(
    services: Services, topic: CreatableTopic, request: CreateTopicsRequest, mutations: Mutations
) -> CreatableTopicResult:
    """Check and create a topic. Kafka's order of checks: the name, the configs, the numbers, the brokers."""
    topics, config, member = services.topics, services.config, services.cluster
    topics.check_free(topic.name)
    if topic.name in INTERNAL_TOPICS and member is None:
        why = f"{topic.name} is the broker's own topic: it is made at first need"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
    configs = _configs(topic)
    if topic.name in INTERNAL_TOPICS:
        # Brokers of a cluster create them in this way, too.
        configs |= cleanup_policy(topic.name)
    topics.check_config(configs)
    _check_numbers(topic)
    partitions = config.num_partitions if topic.num_partitions == _DEFAULT else topic.num_partitions
    partitions = len(topic.assignments) or partitions
    if member is None:
        _check_replicas(topic, config.node_id)
    elif len({each.partition_index for each in topic.assignments}) < len(topic.assignments):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition is assigned twice")
    topics.check_new(topic.name, partitions)
    mutations.take(partitions)
    if member is not None:
        factor = config.default_replication_factor if topic.replication_factor == _DEFAULT else topic.replication_factor
        placement = {each.partition_index: tuple(each.broker_ids) for each in topic.assignments} or None
        created = await member.admin.create_topic(
            topic.name, partitions, factor, configs, placement, request.timeout_ms, validate_only=request.validate_only
        )
        return _result(services, topic.name, created.partitions, created.factor, configs, created.topic_id)
    # As in Kafka, the response to a check has an id, too, which no topic gets.
    creating = None if request.validate_only else topics.begin(topic.name, partitions, configs)
    topic_id = new_topic_id() if creating is None else (await creating.wait()).id
    return _result(services, topic.name, partitions, 1, configs, topic_id)


def _result(
    services: Services, name: str, partitions: int, factor: int, configs: dict[str, str], topic_id: bytes
) -> CreatableTopicResult:
    result = CreatableTopicResult(name, topic_id, error_message=None)
    result.num_partitions, result.replication_factor = partitions, factor
    result.configs = [
        CreatableTopicConfigs(entry.name, entry.value, entry.read_only, int(entry.source), entry.is_sensitive)
        for entry in sorted(describe_topic(services.config, configs), key=attrgetter("name"))
    ]
    return result


def _check_numbers(topic: CreatableTopic) -> None:
    if topic.assignments:
        if topic.num_partitions != _DEFAULT or topic.replication_factor != _DEFAULT:
            why = "With a replica assignment, partitions and replication factor must both be -1."
            raise KafkaError(ErrorCode.INVALID_REQUEST, why)
        return
    if topic.replication_factor < 1 and topic.replication_factor != _DEFAULT:
        why = f"Replication factor must be larger than 0, or -1 for the default, not {topic.replication_factor}."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, why)
    if topic.num_partitions < 1 and topic.num_partitions != _DEFAULT:
        why = f"Number of partitions must be larger than 0, or -1 for the default, not {topic.num_partitions}."
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, why)


def _check_replicas(topic: CreatableTopic, node: int) -> None:
    """Raise KafkaError where a broker that is alone is asked for anything but one replica of each partition."""
    if topic.replication_factor > 1:
        why = f"Unable to replicate the partition {topic.replication_factor} time(s): only 1 broker is registered."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, why)
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    indexes = sorted(each.partition_index for each in topic.assignments)
    wrong = next((index for at, index in enumerate(indexes) if index != at), None)
    if wrong is not None:
        how = "is assigned twice" if indexes.count(wrong) > 1 else "comes where another should"
        raise KafkaError(code, f"partition {wrong} {how}: partitions are numbered from 0, without gaps")
    for each in topic.assignments:
        if each.broker_ids != [node]:
            why = f"partition {each.partition_index} cannot be on {each.broker_ids}: the only broker is {node}"
            raise KafkaError(code, why)


def _configs(topic: CreatableTopic) -> dict[str, str]:
    configs: dict[str, str] = {}
    for each in topic.configs:
        if each.value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {each.name}")
        configs[each.name] = each.value
    return configs


def _error(name: str, code: ErrorCode, message: str) -> CreatableTopicResult:
    return CreatableTopicResult(name, error_code=int(code), error_message=message, configs=[])
