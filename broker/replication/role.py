"""The role of a replica: what the controller says of a partition, as LeaderAndIsr carries it."""

from __future__ import annotations

from dataclasses import dataclass

from ...protocol.messages.leader_and_isr import LeaderAndIsrPartitionState

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class Role:
    """The leader, the ISR and the replicas of one partition, by broker id."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    # Rises with every change of the partition's state; in ZooKeeper it is the version of the znode.
    partition_epoch: int
    replicas: tuple[int, ...]

    @classmethod
    def of(cls, state: LeaderAndIsrPartitionState) -> Role:
        """Return the role that a LeaderAndIsr request gives."""
        return cls(state.leader, state.leader_epoch, tuple(state.isr), state.partition_epoch, tuple(state.replicas))
