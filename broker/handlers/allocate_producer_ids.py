"""AllocateProducerIds, API key 67: the controller gives a broker a block of producer ids (KIP-730).

Brokers of Apache Kafka ask for it; ours take their blocks from ZooKeeper themselves. Only a broker in a cluster serves
it, and only the controller does what it says.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.errors import KafkaError
from ...protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ..network.request import RequestContext
from ..services import Services

if TYPE_CHECKING:
    from ..cluster.member import Member


def handle(
    services: Services, context: RequestContext, request: AllocateProducerIdsRequest
) -> asyncio.Future[AllocateProducerIdsResponse]:
    """Return a block. NOT_CONTROLLER, BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH."""
    assert services.cluster is not None, "the route is served in a cluster only"
    return asyncio.ensure_future(_allocate(services.cluster, request))


async def _allocate(member: Member, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
    try:
        block = await member.admin.take_producer_ids(request.broker_id, request.broker_epoch)
    except KafkaError as error:
        return AllocateProducerIdsResponse(error_code=int(error.code))
    return AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.last - block.first + 1)
