"""FindCoordinator, API key 10: the broker that coordinates a group or a transactional id.

Share groups have no coordinator here. Their keys get INVALID_REQUEST, because a client retries after
COORDINATOR_NOT_AVAILABLE until its own time-out.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ..topics.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from ..network.request import RequestContext
    from ..services import Services

# The topic in which the coordinators of each key type keep their state.
TOPICS = {0: OFFSETS_TOPIC, 1: TRANSACTIONS_TOPIC}
SEVERAL_KEYS_VERSION = 4
NO_NODE = -1

_log = logging.getLogger(__name__)

_REJECTIONS = {2: "Share groups are not served by this broker."}


def handle(
    services: Services, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | asyncio.Future[FindCoordinatorResponse]:
    """Return the coordinator of each key, once the topic of the coordinators exists: this broker, if it is alone."""
    topic = TOPICS.get(request.key_type)
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
    several = context.api_version >= SEVERAL_KEYS_VERSION
    keys = request.coordinator_keys if several else [request.key]
    if request.key_type not in TOPICS:
        why = _REJECTIONS.get(request.key_type, f"There are no coordinators of type {request.key_type}.")
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
    if services.replicas is None:
        host, port = context.advertised_address
        return Coordinator(key, services.config.node_id, host, port, ErrorCode.NONE, "")
    topic = TOPICS[key_type]
    shards = services.groups.shards if topic == OFFSETS_TOPIC else services.transactions.shards
    leader = services.replicas.view.leader(topic, shards.partition_of(key))
    address = leader.address(context.listener_name) if leader is not None else None
    if leader is None or address is None:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Coordinator(key, NO_NODE, "", NO_NODE, error, error.text)
    return Coordinator(key, leader.id, *address, ErrorCode.NONE, "")
