"""FindCoordinator, API key 10: which node coordinates a group. Versions 0-6 (1 key types and error texts, 4 several
keys at once).

Transactions and share groups have no coordinator here yet. They are refused for good (INVALID_REQUEST, with a text),
because a client that hears COORDINATOR_NOT_AVAILABLE asks again until its own time is up.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ..topics import OFFSETS_TOPIC

if TYPE_CHECKING:
    from ..dispatch import RequestContext
    from ..server import Broker

GROUP = 0
SEVERAL_KEYS_VERSION = 4
NO_NODE = -1

_log = logging.getLogger(__name__)

_REFUSED = {1: "Transactions are not served by this broker yet.", 2: "Share groups are not served by this broker."}


def handle(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | asyncio.Future[FindCoordinatorResponse]:
    """This node, for every group, once there is a topic for the groups."""
    if request.key_type == GROUP and broker.topics.get(OFFSETS_TOPIC) is None:
        return asyncio.ensure_future(_first(broker, context, request))
    return _answer(broker, context, request, ErrorCode.NONE)


async def _first(broker: Broker, context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    try:
        await broker.make_internal_topic(OFFSETS_TOPIC)
    except KafkaError as error:
        _log.error("%s cannot be made: %s", OFFSETS_TOPIC, error)
        return _answer(broker, context, request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _answer(broker, context, request, ErrorCode.NONE)


def _answer(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest, error: ErrorCode
) -> FindCoordinatorResponse:
    several = context.api_version >= SEVERAL_KEYS_VERSION
    keys = request.coordinator_keys if several else [request.key]
    if request.key_type != GROUP:
        why = _REFUSED.get(request.key_type, f"There are no coordinators of type {request.key_type}.")
        found = [Coordinator(key, NO_NODE, "", NO_NODE, ErrorCode.INVALID_REQUEST, why) for key in keys]
    elif error:
        found = [Coordinator(key, NO_NODE, "", NO_NODE, error, error.text) for key in keys]
    else:
        host, port = broker.advertised(context)
        found = [Coordinator(key, broker.node_id, host, port, ErrorCode.NONE, "") for key in keys]
    if several:
        return FindCoordinatorResponse(coordinators=found)
    (only,) = found
    if not only.error_code:
        # Kafka's own word here, in these versions.
        only.error_message = "NONE"
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )
