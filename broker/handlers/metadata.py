"""Metadata, API key 3: the brokers, the topics and the leaders of partitions.

From version 1 on null means all topics and an empty list none; in version 0 an empty list means all. 4 may forbid
auto-creation, 8 may request authorized operations, 10 brings topic ids in responses, 12 in requests (10 and 11 have the
field, but must not use it), 13 has an error for the whole response.

In a cluster brokers, topics and leaders are what the controller has told this broker (replication/metadata_cache.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat, starmap
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ...protocol.primitives import ZERO_UUID
from ..network.request import RequestContext
from ..security.acls import CLUSTER_NAME, Operation, ResourceType
from ..services import Services
from ..topics.topic import Topic
from ..topics.topic_names import CLUSTER_METADATA_TOPIC, INTERNAL_TOPICS, check_name
from ..turns import LargeResponse, fill
from .reachable_brokers import controller_id, live_brokers

if TYPE_CHECKING:
    from ..replication.metadata_cache import MetadataCache

FIRST_WITH_LISTENER_NOT_FOUND = 6
FIRST_WITH_IDS = 10
# Python 3.11 takes a tenth of a microsecond to look up a member of an enum: a percent of a small response.
_DESCRIBE, _TOPIC = Operation.DESCRIBE, ResourceType.TOPIC
_LISTENER_NOT_FOUND = int(ErrorCode.LISTENER_NOT_FOUND)
# A partition whose data directory is offline.
_LEADERLESS = int(ErrorCode.LEADER_NOT_AVAILABLE)


def handle(
    services: Services, context: RequestContext, request: MetadataRequest
) -> MetadataResponse | LargeResponse[MetadataResponse]:
    """Return the requested topics, each once, or all. A missing topic is created where that is allowed."""
    if request.topics and context.api_version >= FIRST_WITH_IDS and _is_misnamed(request.topics, context.api_version):
        return _reject_all(request.topics)
    brokers = list(starmap(MetadataResponseBroker, live_brokers(services, context)))
    # By position: arguments with names would be a dict for each response.
    response = MetadataResponse(0, brokers, services.metadata.cluster_id, controller_id(services))
    if request.include_cluster_authorized_operations and 8 <= context.api_version <= 10:
        response.cluster_authorized_operations = context.operations(ResourceType.CLUSTER, CLUSTER_NAME)
    view = _View(services, context, request, response)
    if request.topics is None or (context.api_version == 0 and not request.topics):
        return _add_all(view)
    return _add_requested(view, request.topics)


class _View(NamedTuple):
    """The topics of the broker as one client sees them, and the response that gets them."""

    services: Services
    context: RequestContext
    request: MetadataRequest
    response: MetadataResponse

    @property
    def creates(self) -> bool:
        """Whether a missing topic is created."""
        return self.request.allow_auto_topic_creation and self.services.config.auto_create_topics_enable

    @property
    def missing_values(self) -> int:
        """How many values a missing topic adds to the response."""
        return 1 + self.services.config.num_partitions if self.creates else 1

    def count_new_topic(self) -> None:
        """Count a topic that is created for the client against its quota. It waits where that is used up."""
        mutations = self.services.quotas.mutations(*self.context.client, False)
        mutations.take(self.services.config.num_partitions)
        self.context.throttle(self.response, mutations.throttle_ms)

    def describe(self, topic: Topic) -> MetadataResponseTopic:
        """Return a topic that the client may see."""
        states = partition_states(self.services, self.context, topic)
        if self.context.api_version < FIRST_WITH_LISTENER_NOT_FOUND:
            for each in states:
                if each.error_code == _LISTENER_NOT_FOUND:
                    each.error_code = _LEADERLESS
        found = MetadataResponseTopic(0, topic.name, topic.id, topic.is_internal, states)
        if self.request.include_topic_authorized_operations:
            self.add_operations(found)
        return found

    def add_operations(self, topic: MetadataResponseTopic) -> None:
        """Tell what the client may do to a topic."""
        topic.topic_authorized_operations = self.context.operations(_TOPIC, topic.name or "")


def _add_all(view: _View) -> MetadataResponse | LargeResponse[MetadataResponse]:
    services, context, response = view.services, view.context, view.response

    def add(topic: Topic) -> None:
        # One that was deleted between two turns is left out, and one that the client may not see.
        if services.topics.get(topic.name) is not topic or services.known(topic) is None:
            return
        if context.may(_DESCRIBE, _TOPIC, topic.name, audited=False):
            response.topics.append(view.describe(topic))

    topics = services.topics.all()
    return fill(response, map(add, topics), sum(1 + len(topic.partitions) for topic in topics))


def _add_requested(
    view: _View, topics: list[MetadataRequestTopic]
) -> MetadataResponse | LargeResponse[MetadataResponse]:
    """Add each topic once, however often it is named. One that is missing may be created."""
    services, response = view.services, view.response
    added: set[tuple[str | None, bytes]] = set()

    def add(requested: MetadataRequestTopic, topic: Topic | None) -> None:
        result = _result(view, requested, topic)
        # A topic may be requested by its name and by its id too.
        identity = result.name, result.topic_id
        if identity not in added:
            added.add(identity)
            response.topics.append(result)

    if len(topics) > 1:
        topics = list({(each.name, each.topic_id): each for each in topics}.values())
    found: Iterable[Topic | None] = list(map(_find, repeat(services), topics))
    values = 0
    for topic in found:
        values += view.missing_values if topic is None else 1 + len(topic.partitions)
    if len(topics) > 1:
        # Topics come and go between two turns, so each is looked up in its own.
        found = map(_find, repeat(services), topics)
    return fill(response, map(add, topics, found), values)


def _is_misnamed(topics: list[MetadataRequestTopic], version: int) -> bool:
    """Return whether a topic is named by an id in a version that does not allow it, or not named at all."""
    for each in topics:
        is_named, has_id = each.name is not None, each.topic_id != ZERO_UUID
        if version >= 12 and not (is_named or has_id):
            return True
        if 10 <= version < 12 and (has_id or not is_named):
            return True
    return False


def _reject_all(topics: list[MetadataRequestTopic]) -> MetadataResponse:
    """Return INVALID_REQUEST for the response and every topic of it. Names must not be null in 10 and 11."""
    code = int(ErrorCode.INVALID_REQUEST)
    results = [MetadataResponseTopic(code, each.name or "", each.topic_id) for each in topics]
    return MetadataResponse(topics=results, error_code=code)


def _find(services: Services, requested: MetadataRequestTopic) -> Topic | None:
    # The id decides also where there is a name: a topic that was created again has the name, but another id.
    if requested.topic_id != ZERO_UUID or requested.name is None:
        topic = services.topics.by_id(requested.topic_id)
    else:
        topic = services.topics.get(requested.name)
    return services.known(topic)


def _result(view: _View, requested: MetadataRequestTopic, topic: Topic | None) -> MetadataResponseTopic:
    if topic is not None:
        return view.describe(topic)
    if requested.topic_id != ZERO_UUID or requested.name is None:
        return MetadataResponseTopic(int(ErrorCode.UNKNOWN_TOPIC_ID), None, requested.topic_id)
    name = requested.name
    try:
        return view.describe(_create(view, name))
    except KafkaError as error:
        failed = MetadataResponseTopic(int(error.code), name, ZERO_UUID, name in INTERNAL_TOPICS)
        # As in Kafka: operations are authorized on the name, whether the topic exists or not.
        if view.request.include_topic_authorized_operations:
            view.add_operations(failed)
        return failed


def _create(view: _View, name: str) -> Topic:
    services = view.services
    if services.topics.coming(name) is not None:
        # Making the rest of its partitions now would hold everybody up. The client asks again.
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
    check_name(name)
    if not view.creates or name == CLUSTER_METADATA_TOPIC:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if services.replicas is not None:
        return _ask_for(view, name)
    services.topics.check_new(name, 1)
    view.count_new_topic()
    if name in INTERNAL_TOPICS:
        return services.internal_topics.create(name)
    return services.topics.create(name, services.config.num_partitions, {})


def _ask_for(view: _View, name: str) -> NoReturn:
    """Have the controller create a topic; the client asks again until it is there."""
    services = view.services
    if services.cluster is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if services.cluster.auto_creation.begin(name):
        view.count_new_topic()
    raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)


def partition_states(services: Services, context: RequestContext, topic: Topic) -> list[MetadataResponsePartition]:
    """Return the state of every partition of a topic.

    One without a live leader has LEADER_NOT_AVAILABLE; one whose leader does not have the listener of the client has
    LISTENER_NOT_FOUND.
    """
    node, replicas = services.config.node_id, services.replicas
    states: list[MetadataResponsePartition] = []
    if replicas is None:
        for each in topic.partitions:
            code, leader, offline = (0, node, []) if each.failure is None else (_LEADERLESS, -1, [node])
            states.append(
                MetadataResponsePartition(code, each.index, leader, each.leader_epoch, [node], [node], offline)
            )
        return states
    view = replicas.view
    for index, each in sorted(view.topics[topic.name].partitions.items()):
        code, leader = _led_by(view, each.leader, context.listener_name)
        away = {broker for broker in each.replicas if broker not in view.brokers}
        states.append(
            MetadataResponsePartition(
                code,
                index,
                leader,
                each.leader_epoch,
                list(each.replicas),
                list(each.isr),
                [broker for broker in each.replicas if broker in away or broker in each.offline],
            )
        )
    return states


def _led_by(view: MetadataCache, leader: int, listener: str) -> tuple[int, int]:
    """Return the error of a partition, and the leader that the client is told of."""
    found = view.brokers.get(leader)
    if found is None:
        return _LEADERLESS, -1
    return (0, leader) if found.endpoints.get(listener) is not None else (_LISTENER_NOT_FOUND, -1)
