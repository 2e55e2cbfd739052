"""OdradekRenewLease, API key 30011, ours: a reader keeps its leased files for longer, or says that it is done.

A reader that may not read the topic any more loses the lease; so does a backup without ALTER on the cluster.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.odradek_renew_lease import OdradekRenewLeaseRequest, OdradekRenewLeaseResponse
from ..network.request import RequestContext
from ..security.acls import CLUSTER_NAME, Operation, ResourceType
from ..services import Services


def handle(services: Services, context: RequestContext, request: OdradekRenewLeaseRequest) -> OdradekRenewLeaseResponse:
    """Renew or end the lease. Raises RESOURCE_NOT_FOUND where it has ended."""
    leases = services.segment_leases
    if request.is_end:
        leases.end(request.lease_id)
        return OdradekRenewLeaseResponse()
    topic = leases.topic_of(request.lease_id)
    if topic is None and not context.may(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        leases.end(request.lease_id)
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if topic is not None and not context.may(Operation.READ, ResourceType.TOPIC, topic):
        leases.end(request.lease_id)
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return OdradekRenewLeaseResponse(lease_ms=leases.renew(request.lease_id))
