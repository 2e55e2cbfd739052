"""OdradekDescribeBroker, API key 30013, ours: the clock of this broker, and the damage found in its logs."""

from __future__ import annotations

from ...protocol.messages.odradek_describe_broker import (
    MAX_NAMED,
    DamagedPartition,
    OdradekDescribeBrokerRequest,
    OdradekDescribeBrokerResponse,
)
from ..network.request import RequestContext
from ..services import Services
from ..topics.partition import Partition
from ..turns import LargeResponse, fill

# So many are looked at while one value of a response is made.
_SEGMENTS_PER_VALUE = 50


def handle(
    services: Services, context: RequestContext, request: OdradekDescribeBrokerRequest
) -> OdradekDescribeBrokerResponse | LargeResponse[OdradekDescribeBrokerResponse]:
    """Return the time of now, and the damage of every partition."""
    response = OdradekDescribeBrokerResponse(time_ms=services.clock.now_ms())

    def add(partition: Partition) -> int:
        if partition.is_online and (places := partition.log.damaged_places):
            response.damaged_places += places
            if len(response.damaged) < MAX_NAMED:
                response.damaged.append(DamagedPartition(partition.topic, partition.index, places))
        return _cost(partition)

    partitions = services.topics.partitions()
    return fill(response, map(add, partitions), sum(map(_cost, partitions)))


def _cost(partition: Partition) -> int:
    """Return what a look at a partition costs, in values of a response."""
    return 1 + len(partition.log.segments) // _SEGMENTS_PER_VALUE if partition.is_online else 1
