"""Reconciliation: the next step of one member from its current assignment towards its target. Pure.

A member first gives up what it should not have (UNREVOKED_PARTITIONS), keeps its epoch meanwhile, and moves to the
target's epoch once it no longer lists these partitions. Partitions of its target that others still own are left out
until they are free (UNRELEASED_PARTITIONS).

Source: KIP-848, with the assignment epochs of KIP-1251.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from ....protocol.errors import ErrorCode, KafkaError
from ..modern.state import Place
from .state import Current, MemberState, topics_of
from .target import Draft


def step(draft: Draft, target: Set[Place], target_epoch: int) -> Current:
    """Return the member's next current assignment. FENCED_MEMBER_EPOCH if its state is not understood."""
    current, owned = draft.member.current, draft.event.owned
    match current.state:
        case MemberState.STABLE if current.epoch != target_epoch:
            return _next(draft, target, target_epoch)
        case MemberState.UNREVOKED_PARTITIONS if not _may_own(draft, current.revoking):
            return _next(draft, target, target_epoch)
        case MemberState.UNRELEASED_PARTITIONS:
            return _next(draft, target, target_epoch)
        case MemberState.UNKNOWN:
            if owned is None or owned:
                why = "The consumer group member is in an unknown state and must rejoin."
                raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, why)
            return _next(draft, target, target_epoch)
        case _:
            return _without_unsubscribed(draft) if draft.subscription_changed else current


def _next(draft: Draft, target: Set[Place], target_epoch: int) -> Current:
    subscribed, owners, own_id = _subscribed_by(draft), _owners(draft), draft.event.member_id
    wanted = {place for place in target if place[0] in subscribed}
    current = draft.member.current
    assigned, epoch = current.assigned, current.epoch
    kept = {place: since for place, since in assigned.items() if place in wanted}
    revoking = {place: since for place, since in assigned.items() if place not in wanted}
    if _may_own(draft, revoking):
        return Current(epoch, epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    missing = wanted - kept.keys()
    free = {place for place in missing if owners.get(place, own_id) == own_id}
    state = MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED_PARTITIONS
    added = dict.fromkeys(sorted(free), target_epoch)
    if target_epoch == epoch and state is current.state and not added and not revoking:
        return current
    return Current(target_epoch, epoch, state, {**kept, **added}, {})


def _without_unsubscribed(draft: Draft) -> Current:
    current, subscribed = draft.member.current, _subscribed_by(draft)
    dropped = {place: since for place, since in current.assigned.items() if place[0] not in subscribed}
    if not dropped:
        return current
    kept = {place: since for place, since in current.assigned.items() if place not in dropped}
    if not _may_own(draft, dropped):
        return current._replace(assigned=kept)
    revoking = {**current.revoking, **dropped}
    return Current(current.epoch, current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)


def _may_own(draft: Draft, places: Mapping[Place, int]) -> bool:
    """Return whether the member may still have one of these partitions."""
    owned = draft.event.owned
    return bool(places) if owned is None else any(place in owned for place in places)


def _subscribed_by(draft: Draft) -> set[bytes]:
    """Return the ids of the topics that the member subscribes."""
    topics = map(draft.group.topics.get, topics_of(draft.said, draft.body.regexes))
    return {topic.id for topic in topics if topic is not None}


def _owners(draft: Draft) -> dict[Place, str]:
    """Return the owner of each partition. What a static member had is its own under its new id."""
    owners = draft.body.owners
    member = draft.member
    own = member.current.assigned.keys() | member.current.revoking.keys()
    if any(owners.get(place, member.member_id) != member.member_id for place in own):
        return {**owners, **dict.fromkeys(own, member.member_id)}
    return owners
