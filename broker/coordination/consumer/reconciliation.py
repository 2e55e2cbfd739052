"""Reconciliation: the next step of one member from its current assignment towards its target. Pure.

A member first gives up what it should not have (UNREVOKED_PARTITIONS), keeps its epoch meanwhile, and moves to the
target's epoch once it no longer lists these partitions. Partitions of its target that others still own are left out
until they are free (UNRELEASED_PARTITIONS).

Source: KIP-848, with the assignment epochs of KIP-1251.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from ....protocol.errors import ErrorCode, KafkaError
from ..modern.state import Place
from .state import Current, MemberState


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What the step of a member depends on."""

    member_id: str
    current: Current
    target: Set[Place]
    target_epoch: int
    # Returns the ids of the topics that the member subscribes now. There may be thousands: it is asked if need be.
    subscribed: Callable[[], Set[bytes]]
    subscription_changed: bool
    # The partitions that the member says it has; None: as before.
    owned: Set[Place] | None
    # The owner of each partition.
    owners: Mapping[Place, str]

    def step(self) -> Current:
        """Return the member's next current assignment. FENCED_MEMBER_EPOCH if its state is not understood."""
        match self.current.state:
            case MemberState.STABLE if self.current.epoch != self.target_epoch:
                return self._next()
            case MemberState.UNREVOKED_PARTITIONS if not self._may_own(self.current.revoking):
                return self._next()
            case MemberState.UNRELEASED_PARTITIONS:
                return self._next()
            case MemberState.UNKNOWN:
                if self.owned is None or self.owned:
                    raise KafkaError(
                        ErrorCode.FENCED_MEMBER_EPOCH,
                        "The consumer group member is in an unknown state and must rejoin.",
                    )
                return self._next()
            case _:
                return self._without_unsubscribed() if self.subscription_changed else self.current

    def _next(self) -> Current:
        subscribed = self.subscribed()
        wanted = {place for place in self.target if place[0] in subscribed}
        assigned, epoch = self.current.assigned, self.current.epoch
        kept = {place: since for place, since in assigned.items() if place in wanted}
        revoking = {place: since for place, since in assigned.items() if place not in wanted}
        if self._may_own(revoking):
            return Current(epoch, epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
        missing = wanted - kept.keys()
        free = {place for place in missing if self.owners.get(place, self.member_id) == self.member_id}
        state = MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED_PARTITIONS
        added = dict.fromkeys(sorted(free), self.target_epoch)
        if self.target_epoch == epoch and state is self.current.state and not added and not revoking:
            return self.current
        return Current(self.target_epoch, epoch, state, {**kept, **added}, {})

    def _without_unsubscribed(self) -> Current:
        current, subscribed = self.current, self.subscribed()
        dropped = {place: since for place, since in current.assigned.items() if place[0] not in subscribed}
        if not dropped:
            return current
        kept = {place: since for place, since in current.assigned.items() if place not in dropped}
        if not self._may_own(dropped):
            return current._replace(assigned=kept)
        revoking = {**current.revoking, **dropped}
        return Current(current.epoch, current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)

    def _may_own(self, places: Mapping[Place, int]) -> bool:
        """Return whether the member may still have one of these partitions."""
        return bool(places) if self.owned is None else any(place in self.owned for place in places)
