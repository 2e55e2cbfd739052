"""Elections: who becomes the leader of a partition, as pure functions. None means that nobody can.

Each returns leader and ISR. A replica outside the ISR lacks acknowledged records, so it leads only where the topic
allows an unclean election. A replica whose disk is full leads only where every other that may lead is full, too: it can
be read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from ..znodes import LeaderAndIsr, TopicPartition
from .cluster_state import ClusterState


class Elected(NamedTuple):
    """The outcome of an election."""

    leader: int
    isr: tuple[int, ...]


Election: TypeAlias = Callable[[ClusterState, TopicPartition, LeaderAndIsr], Elected | None]


def elect_in_sync(cluster: ClusterState, place: TopicPartition, state: LeaderAndIsr) -> Elected | None:
    """Elect the first living replica of the ISR that has room. The dead, and the full beside it, leave the ISR."""
    isr = cluster.best(place, state.isr)
    leader = next((each for each in cluster.replicas[place].replicas if each in isr), None)
    return None if leader is None else Elected(leader, isr)


def elect_with_room(cluster: ClusterState, place: TopicPartition, state: LeaderAndIsr) -> Elected | None:
    """Have those that are full leave the ISR. The leader stays if it has room. None where nobody in sync has room."""
    isr = tuple(each for each in state.isr if cluster.can_write(each, place))
    if state.leader in isr:
        return Elected(state.leader, isr)
    leader = next((each for each in cluster.replicas[place].replicas if each in isr), None)
    return None if leader is None else Elected(leader, isr)


def elect_unclean(cluster: ClusterState, place: TopicPartition, state: LeaderAndIsr) -> Elected | None:
    """Elect as `elect_in_sync`; where the whole ISR is dead, any living replica, which loses records."""
    clean = elect_in_sync(cluster, place, state)
    if clean is not None:
        return clean
    best = cluster.best(place, cluster.replicas[place].replicas)
    return Elected(best[0], (best[0],)) if best else None


def elect_preferred(cluster: ClusterState, place: TopicPartition, state: LeaderAndIsr) -> Elected | None:
    """Elect the first replica of the assignment, if it is in sync and can write."""
    preferred = cluster.replicas[place].replicas[0]
    may_lead = preferred in state.isr and cluster.can_write(preferred, place)
    return Elected(preferred, state.isr) if may_lead else None


def elect_for_shutdown(cluster: ClusterState, place: TopicPartition, state: LeaderAndIsr) -> Elected | None:
    """Elect a living replica of the ISR that is not shutting down. Those that shut down leave the ISR."""
    isr = tuple(each for each in state.isr if each not in cluster.shutting_down)
    leader = next((each for each in cluster.replicas[place].replicas if each in cluster.best(place, isr)), None)
    return None if leader is None else Elected(leader, isr)


def elect_reassigned(cluster: ClusterState, place: TopicPartition, state: LeaderAndIsr) -> Elected | None:
    """Elect the first of the reassignment's target replicas that is alive and in sync."""
    target = cluster.replicas[place].target
    leader = next(iter(cluster.best(place, (each for each in target if each in state.isr))), None)
    return None if leader is None else Elected(leader, state.isr)
