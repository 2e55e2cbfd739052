"""DescribeCluster, API key 60: the brokers, the controller and the id of the cluster.

Version 1 can request the controllers' endpoint, which a broker rejects, as Kafka's does. Version 2 can request fenced
brokers: there are none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ..network.request import RequestContext
from .metadata import CLUSTER_OPERATIONS

if TYPE_CHECKING:
    from ..services import Services

BROKERS = 1
CONTROLLERS = 2


def handle(services: Services, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Return this broker, with the address that it advertises to the client."""
    if request.endpoint_type != BROKERS:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        if request.endpoint_type != CONTROLLERS:
            code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        return DescribeClusterResponse(error_code=int(code), error_message=code.text)
    host, port = context.advertised_address
    response = DescribeClusterResponse(
        cluster_id=services.metadata.cluster_id,
        controller_id=services.config.node_id,
        brokers=[DescribeClusterBroker(services.config.node_id, host, port, services.config.broker_rack)],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response
