"""The assignors of the broker: `uniform` and `range`. Pure: members and topics in, partitions of each member out.

Which member gets which partition is no promise of Kafka's either. Promised are: each partition has one member that
subscribes its topic; `uniform` balances, and moves no partition that it need not; `range` gives each member a run of
partitions of each topic, so that topics with as many partitions are partitioned alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..modern.state import Place, Subscriber, Targets

# Subscribers and the number of partitions of each topic -> partitions of each member.
Assignor = Callable[[list[Subscriber], Mapping[bytes, int]], Targets]


def assign_uniform(subscribers: list[Subscriber], topics: Mapping[bytes, int]) -> Targets:
    """Balance the number of partitions. Members keep their partitions where that is no worse."""
    targets = _kept(subscribers, topics)
    is_homogeneous = all(each.topics == subscribers[0].topics for each in subscribers)
    if subscribers and is_homogeneous:
        _give_up_to_quota(targets, sum(topics[topic] for topic in subscribers[0].topics))
    _give_free(subscribers, topics, targets)
    if not is_homogeneous:
        _balance(subscribers, topics, targets)
    return targets


def assign_range(subscribers: list[Subscriber], topics: Mapping[bytes, int]) -> Targets:
    """Give each member a run of partitions of each topic, static members first, by instance id and member id."""
    targets: Targets = {each.member_id: set() for each in subscribers}
    in_order = sorted(subscribers, key=lambda each: (each.instance_id is None, each.instance_id or "", each.member_id))
    for topic, count in topics.items():
        takers = [each.member_id for each in in_order if topic in each.topics]
        at = 0
        for number, member_id in enumerate(takers):
            size = count // len(takers) + (number < count % len(takers))
            targets[member_id].update((topic, index) for index in range(at, at + size))
            at += size
    return targets


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}


def _kept(subscribers: list[Subscriber], topics: Mapping[bytes, int]) -> Targets:
    """Return the partitions of the old targets that exist and are still subscribed, each with one member."""
    taken: set[Place] = set()
    targets: Targets = {}
    for each in subscribers:
        kept = {
            (topic, index)
            for topic, index in each.target
            if topic in each.topics and index < topics.get(topic, 0) and (topic, index) not in taken
        }
        taken |= kept
        targets[each.member_id] = kept
    return targets


def _give_up_to_quota(targets: Targets, partitions: int) -> None:
    """Take partitions from members that have more than their part, where all members subscribe the same topics."""
    quota, extra = divmod(partitions, len(targets))
    for kept in targets.values():
        allowed = quota
        if len(kept) > quota and extra:
            allowed += 1
            extra -= 1
        for place in sorted(kept)[allowed:]:
            kept.discard(place)


def _give_free(subscribers: list[Subscriber], topics: Mapping[bytes, int], targets: Targets) -> None:
    """Give each partition that nobody has to the subscriber with the fewest. Topics with few subscribers go first."""
    takers = _takers(subscribers, topics)
    taken = {place for kept in targets.values() for place in kept}
    for topic in sorted(topics, key=lambda topic: len(takers[topic])):
        members = takers[topic]
        free = [(topic, index) for index in range(topics[topic]) if (topic, index) not in taken]
        if members and free:
            _spread(free, [targets[member_id] for member_id in members])


def _spread(free: list[Place], parts: list[set[Place]]) -> None:
    """Add partitions to the smallest parts, as water fills vessels: no part is looked at for each partition."""
    parts = sorted(parts, key=len)
    at = 0
    while at < len(free):
        level = len(parts[0])
        for part in parts:
            if len(part) > level or at == len(free):
                break
            part.add(free[at])
            at += 1
        parts.sort(key=len)


def _balance(subscribers: list[Subscriber], topics: Mapping[bytes, int], targets: Targets) -> None:
    """Move partitions from members with more to those with fewer, where their subscriptions differ.

    Each move brings two members closer, so it ends; a pass that moves nothing is the last.
    """
    takers = _takers(subscribers, topics)
    moved = True
    while moved:
        moved = False
        for member_id in sorted(targets, key=lambda each: -len(targets[each])):
            moved |= _move_away(member_id, takers, targets)


def _move_away(member_id: str, takers: Mapping[bytes, list[str]], targets: Targets) -> bool:
    moved, own = False, targets[member_id]
    for topic in sorted({place[0] for place in own}):
        places = sorted(place for place in own if place[0] == topic)
        while places:
            least = min(takers[topic], key=lambda each: len(targets[each]))
            if len(targets[least]) + 1 >= len(own):
                break
            place = places.pop()
            own.discard(place)
            targets[least].add(place)
            moved = True
    return moved


def _takers(subscribers: list[Subscriber], topics: Mapping[bytes, int]) -> dict[bytes, list[str]]:
    return {topic: [each.member_id for each in subscribers if topic in each.topics] for topic in topics}
