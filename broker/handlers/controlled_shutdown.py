"""ControlledShutdown, API key 7: the controller moves leaders away from a broker that is about to stop.

Only a broker in a cluster serves it, and only the controller does what it says.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.errors import KafkaError
from ...protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from ..network.request import RequestContext
from ..services import Services

if TYPE_CHECKING:
    from ..cluster.member import Member


def handle(
    services: Services, context: RequestContext, request: ControlledShutdownRequest
) -> asyncio.Future[ControlledShutdownResponse]:
    """Return the partitions that the broker still leads. NOT_CONTROLLER, BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH."""
    assert services.cluster is not None, "the route is served in a cluster only"
    return asyncio.ensure_future(_shut_down(services.cluster, request))


async def _shut_down(member: Member, request: ControlledShutdownRequest) -> ControlledShutdownResponse:
    broker, epoch = request.broker_id, request.broker_epoch
    try:
        left = await member.controller.ask(lambda machine: machine.shut_down(broker, epoch))
    except KafkaError as error:
        return ControlledShutdownResponse(int(error.code))
    return ControlledShutdownResponse(remaining_partitions=[RemainingPartition(*each) for each in left])
