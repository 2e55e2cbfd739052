"""DescribeCluster, API key 60: the brokers, the controller and the id of the cluster.

Version 1 can request the controllers' endpoint, which a broker rejects, as Kafka's does. Version 2 can request fenced
brokers: there are none.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ..network.request import RequestContext
from ..services import Services
from .metadata import cluster_operations, controller_id, live_brokers

BROKERS = 1
CONTROLLERS = 2


def handle(services: Services, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Return the live brokers, with the addresses that they advertise to the client."""
    if request.endpoint_type != BROKERS:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        if request.endpoint_type != CONTROLLERS:
            code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        return DescribeClusterResponse(error_code=int(code), error_message=code.text)
    response = DescribeClusterResponse(
        cluster_id=services.metadata.cluster_id,
        controller_id=controller_id(services),
        brokers=[DescribeClusterBroker(*each) for each in live_brokers(services, context)],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context)
    return response
