"""ISRs that leaders ask for (AlterPartition), as steps of the controller's machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ...protocol.errors import ErrorCode
from ...zookeeper.operations import Steps
from .controller.machine import ControllerMachine
from .znodes import LeaderAndIsr, TopicPartition

# The error of a change, and where there is none the partition's state.
AlteredState: TypeAlias = tuple[ErrorCode, LeaderAndIsr | None]


@dataclass(frozen=True, slots=True)
class WantedState:
    """What a leader asks for: the ISR with the broker epoch of each member, -1 where the leader does not know it."""

    # Its name, or its id.
    topic: str | bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: Mapping[int, int]


def alter_isrs(
    machine: ControllerMachine, broker: int, broker_epoch: int, wanted: Sequence[WantedState]
) -> Steps[list[AlteredState]]:
    """Write the ISRs that can be. Returns an answer for each, in order. Raises STALE_BROKER_EPOCH."""
    cluster = machine.cluster
    names = {topic_id: name for name, topic_id in cluster.topic_ids.items()}
    places = [_place(names, each) for each in wanted]
    stale = {place for place, each in zip(places, wanted, strict=True) if place and _has_stale_member(machine, each)}
    asked = {
        place: LeaderAndIsr(broker, each.leader_epoch, tuple(each.isr), cluster.epoch, each.partition_epoch)
        for place, each in zip(places, wanted, strict=True)
        if place is not None and place not in stale
    }
    errors = yield from machine.alter_partitions(broker, broker_epoch, asked)
    answers: list[AlteredState] = []
    for place in places:
        if place is None:
            answers.append((ErrorCode.UNKNOWN_TOPIC_ID, None))
        elif place in stale:
            answers.append((ErrorCode.INELIGIBLE_REPLICA, None))
        else:
            code = errors[place]
            answers.append((code, cluster.states.get(place) if code is ErrorCode.NONE else None))
    return answers


def _place(names: Mapping[bytes, str], wanted: WantedState) -> TopicPartition | None:
    topic = wanted.topic if isinstance(wanted.topic, str) else names.get(wanted.topic)
    return None if topic is None else TopicPartition(topic, wanted.partition)


def _has_stale_member(machine: ControllerMachine, wanted: WantedState) -> bool:
    """Whether a member of the ISR was started again since the leader heard of it (KIP-903)."""
    live = {broker: each.epoch for broker, each in machine.cluster.live.items()}
    return any(epoch not in (-1, live.get(broker)) for broker, epoch in wanted.isr.items())
