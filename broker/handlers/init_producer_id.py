"""InitProducerId, API key 22: an id under which a producer's batches are told apart from their repetitions.

Version 3 lets a producer that lost its way ask for more with its old id and epoch (KIP-360): an idempotent producer
gets a new id. Transactional ids are refused until transactions are served.
"""

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ..dispatch import RequestContext

if TYPE_CHECKING:
    from ..server import Broker


def handle(broker: "Broker", context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """A fresh id at epoch 0."""
    if request.transactional_id is not None:
        # INVALID_REQUEST for the empty one is Kafka's; the other ends a client at once instead of letting it try for
        # ever.
        code = (
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if request.transactional_id else ErrorCode.INVALID_REQUEST
        )
        return InitProducerIdResponse(error_code=int(code), producer_id=-1, producer_epoch=-1)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return InitProducerIdResponse(error_code=int(ErrorCode.INVALID_REQUEST), producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=broker.metadata.new_producer_id(), producer_epoch=0)
