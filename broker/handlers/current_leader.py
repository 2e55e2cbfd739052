"""The leader that a client is told of where it took another broker for it, so that it need not ask (KIP-951)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..network.request import RequestContext
from ..services import Services
from .metadata import live_brokers


class Endpoint(Protocol):
    """The address of a broker, as Produce and Fetch tell it."""

    node_id: int


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
    services: Services, context: RequestContext, leader: int, endpoints: list[Any], endpoint: Callable[..., Endpoint]
) -> None:
    """Add the address of a broker to the `endpoints` of a response, once, and only while it is alive."""
    if all(each.node_id != leader for each in endpoints):
        endpoints.extend(endpoint(*each) for each in live_brokers(services, context) if each[0] == leader)
