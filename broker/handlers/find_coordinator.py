"""FindCoordinator, API key 10: the broker that coordinates a group, a transactional id or a share state.

The members of a share group have the coordinator of groups. The key of a share state is for the brokers of a cluster:
GROUP:TOPIC_ID:PARTITION, since version 6. A key that has no coordinator gets INVALID_REQUEST, because a client retries
after COORDINATOR_NOT_AVAILABLE until its own time-out.
"""

from __future__ import annotations

import asyncio
import logging

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ..coordination.share_states.coordinator import key_of
from ..network.request import RequestContext
from ..services import Services
from ..topics.topic_names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC

# The topic in which the coordinators of each key type keep their state.
TOPICS = {0: OFFSETS_TOPIC, 1: TRANSACTIONS_TOPIC, 2: SHARE_STATE_TOPIC}
SHARE_STATE = 2
SEVERAL_KEYS_VERSION = 4
SHARE_STATES_VERSION = 6
NO_NODE = -1

_log = logging.getLogger(__name__)


def handle(
    services: Services, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | asyncio.Future[FindCoordinatorResponse]:
    """Return the coordinator of each key, once the topic of the coordinators exists: this broker, if it is alone."""
    topic = TOPICS.get(request.key_type)
    names_states = context.api_version >= SHARE_STATES_VERSION and any(map(_is_share_state, request.coordinator_keys))
    if request.key_type == SHARE_STATE and not names_states:
        topic = None
    if topic is not None and services.topics.get(topic) is None:
        return asyncio.ensure_future(_create_topic(services, context, request, topic))
    return _respond(services, context, request, ErrorCode.NONE)


async def _create_topic(
    services: Services, context: RequestContext, request: FindCoordinatorRequest, topic: str
) -> FindCoordinatorResponse:
    try:
        if services.cluster is not None:
            # The client asks again, and finds the topic then.
            services.cluster.auto_creation.begin(topic)
            return _respond(services, context, request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        await services.internal_topics.create_in_turns(topic)
    except KafkaError as error:
        _log.error("topic %s cannot be created: %s", topic, error)
        return _respond(services, context, request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _respond(services, context, request, ErrorCode.NONE)


def _respond(
    services: Services, context: RequestContext, request: FindCoordinatorRequest, error: ErrorCode
) -> FindCoordinatorResponse:
    version = context.api_version
    several = version >= SEVERAL_KEYS_VERSION
    keys = request.coordinator_keys if several else [request.key]
    if request.key_type not in TOPICS or (request.key_type == SHARE_STATE and version < SHARE_STATES_VERSION):
        why = f"There are no coordinators of type {request.key_type}."
        found = [Coordinator(key, NO_NODE, "", NO_NODE, ErrorCode.INVALID_REQUEST, why) for key in keys]
    elif error:
        found = [Coordinator(key, NO_NODE, "", NO_NODE, error, error.text) for key in keys]
    else:
        found = [_coordinator(services, context, request.key_type, key) for key in keys]
    if several:
        return FindCoordinatorResponse(coordinators=found)
    (only,) = found
    if not only.error_code:
        # Kafka's text in these versions.
        only.error_message = "NONE"
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _coordinator(services: Services, context: RequestContext, key_type: int, key: str) -> Coordinator:
    """Return the broker that leads the key's partition."""
    if key_type == SHARE_STATE and not _is_share_state(key):
        return Coordinator(key, NO_NODE, "", NO_NODE, ErrorCode.INVALID_REQUEST, "")
    if services.replicas is None:
        host, port = context.advertised_address
        return Coordinator(key, services.config.node_id, host, port, ErrorCode.NONE, "")
    shards = (services.groups.shards, services.transactions.shards, services.share_states.shards)[key_type]
    leader = services.replicas.view.leader(TOPICS[key_type], shards.partition_of(key))
    address = leader.endpoints.get(context.listener_name) if leader is not None else None
    if leader is None or address is None:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Coordinator(key, NO_NODE, "", NO_NODE, error, error.text)
    return Coordinator(key, leader.id, *address, ErrorCode.NONE, "")


def _is_share_state(key: str) -> bool:
    try:
        key_of(key)
    except KafkaError:
        return False
    return True
