"""OdradekRenewLease, API key 30011, ours: a reader keeps its leased segments for longer, or says that it is done.

A reader that may not read the topic any more loses the lease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.odradek_renew_lease import OdradekRenewLeaseRequest, OdradekRenewLeaseResponse
from ..network.request import RequestContext
from ..security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from ..services import Services


def handle(services: Services, context: RequestContext, request: OdradekRenewLeaseRequest) -> OdradekRenewLeaseResponse:
    """Renew or end the lease. RESOURCE_NOT_FOUND: it has ended."""
    leases = services.segment_leases
    try:
        if request.is_end:
            leases.end(request.lease_id)
            return OdradekRenewLeaseResponse()
        if not context.may(Operation.READ, ResourceType.TOPIC, leases.topic_of(request.lease_id)):
            leases.end(request.lease_id)
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return OdradekRenewLeaseResponse(lease_ms=leases.renew(request.lease_id))
    except KafkaError as error:
        return OdradekRenewLeaseResponse(error_code=int(error.code))
