"""The picture of a work queue: what of a share group's records waits, is held, and is dead, by cause.

What waits is the group's lag, which its coordinator tells. What is held and what is dead the leaders of the partitions
know: brokers of Odradek tell it (OdradekDescribeBroker, 30013). Kafka has no words for it.
"""

from __future__ import annotations

from ...protocol.messages.odradek_describe_broker import OdradekDescribeBrokerRequest, OdradekDescribeBrokerResponse
from ..core.cluster import Cluster
from ..core.descriptions import ConfigResource, ShareQueue
from ..errors import UnsupportedVersion, raise_error
from .configs import describe_configs
from .group_states import list_share_group_offsets

_TOPIC = "errors.deadletterqueue.topic.name"


async def describe_share_queue(cluster: Cluster, group_id: str) -> ShareQueue:
    """Return what of a share group's records waits, is held and is dead. Raises KafkaError."""
    lags = [each.lag for each in (await list_share_group_offsets(cluster, group_id)).values()]
    group = ConfigResource.group(group_id)
    configs = (await describe_configs(cluster, [group]))[group]
    topic = (configs[_TOPIC].value or "") if _TOPIC in configs else ""
    lag = sum(each for each in lags if each is not None) if None not in lags else None
    try:
        held, archiving, rejected, too_often, lost = await _of_brokers(cluster, group_id)
    except UnsupportedVersion:
        return ShareQueue(topic, lag)
    waiting = None if lag is None else max(lag - held - archiving, 0)
    return ShareQueue(topic, waiting, held, archiving, rejected, too_often, lost)


async def _of_brokers(cluster: Cluster, group_id: str) -> tuple[int, ...]:
    """Return the sums of what the brokers tell. Raises UnsupportedVersion where one is not of Odradek."""
    sums = [0] * 5
    await cluster.refresh()
    for node_id in sorted(cluster.view.nodes):
        connection = await cluster.connection(node_id)
        if connection.version_for(OdradekDescribeBrokerRequest) < 1:
            raise UnsupportedVersion("OdradekDescribeBroker", range(1, 2), (0, 0))
        request = OdradekDescribeBrokerRequest(group_id)
        response = await connection.request(request, OdradekDescribeBrokerResponse)
        raise_error(response.error_code, response.error_message, f"{connection.address} does not describe itself")
        told = response.held, response.archiving, response.rejected, response.delivered_too_often, response.lost
        sums = [total + each for total, each in zip(sums, told, strict=True)]
    return tuple(sums)
