"""InitProducerId, API key 22: an id that tells a producer's batches from their repetitions. Versions 0-5.

Version 3 lets a producer that lost its way ask for more with its old id and epoch (KIP-360): an idempotent producer
gets a new id. With a transactional id the transaction coordinator says which epoch it gets.
"""

from __future__ import annotations

import asyncio

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ..network.request import RequestContext
from ..services import Services


def handle(
    services: Services, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | asyncio.Future[InitProducerIdResponse]:
    """Return a new producer id at epoch 0, or let the coordinator answer."""
    if services.cluster is not None and not services.cluster.producer_ids.can_give:
        code = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    if request.transactional_id is not None:
        return services.transactions.initialize(context, request)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return InitProducerIdResponse(error_code=int(ErrorCode.INVALID_REQUEST), producer_id=-1, producer_epoch=-1)
    member = services.cluster
    try:
        producer_id = services.metadata.new_producer_id() if member is None else member.producer_ids.new_id()
    except KafkaError as error:
        return InitProducerIdResponse(error_code=int(error.code), producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
