"""Which brokers a client can reach, and which of them controls and leads: as Metadata, Produce and Fetch tell it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..network.connection import CloseConnection
from ..network.request import RequestContext
from ..services import Services


def live_brokers(services: Services, context: RequestContext) -> list[tuple[int, str, int, str | None]]:
    """Return (id, host, port, rack) of every live broker that clients of this listener can reach.

    A broker that the controller has told nothing yet closes the connection: clients would take what it does not know
    for gone. librdkafka drops every broker that a response does not name, and then has none left to ask.
    """
    if services.replicas is None:
        host, port = context.advertised_address
        return [(services.config.node_id, host, port, services.config.broker_rack)]
    if not services.replicas.is_ready.is_set():
        raise CloseConnection("this broker does not know the cluster yet: the controller has not told it")
    found = ((each, each.endpoints.get(context.listener_name)) for each in services.replicas.view.brokers.values())
    return [(each.id, *address, each.rack) for each, address in found if address is not None]


def controller_id(services: Services) -> int:
    """Return the broker that changes topics and configs; -1 while the cluster has none."""
    return services.config.node_id if services.replicas is None else services.replicas.view.controller_id


def current_leader(services: Services, topic: str, index: int) -> tuple[int, int]:
    """Return the leader and its epoch, as this broker knows them; -1 where it does not."""
    if services.replicas is None:
        known = services.topics.get(topic)
        partition = known.partition(index) if known is not None else None
        return (services.config.node_id, partition.leader_epoch) if partition is not None else (-1, -1)
    replica = services.replicas.get(topic, index)
    if replica is not None:
        return replica.role.leader, replica.role.leader_epoch
    seen = services.replicas.view.partition(topic, index)
    return (seen.leader, seen.leader_epoch) if seen is not None else (-1, -1)


def tell_address(
    services: Services, context: RequestContext, leader: int, endpoints: list[Any], endpoint: Callable[..., Any]
) -> None:
    """Add the address of a broker to the `endpoints` of a response, once, and only while it is alive."""
    if all(each.node_id != leader for each in endpoints):
        endpoints.extend(endpoint(*each) for each in live_brokers(services, context) if each[0] == leader)
