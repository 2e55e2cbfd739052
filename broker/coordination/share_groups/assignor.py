"""The assignor `simple` of share groups. Pure: members and partitions in, partitions of each member out.

Each partition has a member that subscribes its topic. Where there are more members than partitions they share them, so
that every member has one. Members keep their partitions where that is no worse. Topics that the same members subscribe
are balanced together.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from heapq import heapify, heappop, heappush

from ..modern.state import Place, Subscriber, Targets


def assign_simple(sharers: list[Subscriber], ready: Mapping[bytes, Set[int]]) -> Targets:
    """Return the partitions of each member. `ready` has the partitions that may be assigned, by topic."""
    targets: Targets = {each.member_id: set() for each in sharers}
    blocks: dict[tuple[int, ...], list[Place]] = {}
    for topic_id, partitions in ready.items():
        takers = tuple(number for number, each in enumerate(sharers) if topic_id in each.topics)
        if takers:
            blocks.setdefault(takers, []).extend((topic_id, index) for index in sorted(partitions))
    for takers, places in blocks.items():
        _share([sharers[number] for number in takers], places, targets)
    return targets


def _share(sharers: list[Subscriber], places: list[Place], targets: Targets) -> None:
    """Share partitions among members that all subscribe them."""
    if not places:
        return
    # How many members each partition still lacks.
    room = dict.fromkeys(places, -(-len(sharers) // len(places)))
    held = {each.member_id: sorted(each.target & room.keys()) for each in sharers}
    # Who has more keeps more.
    in_order = sorted(sharers, key=lambda each: -len(held[each.member_id]))
    lacking: list[tuple[int, str]] = []
    for each, quota in zip(in_order, _quotas(len(sharers), sum(room.values())), strict=True):
        kept = [place for place in held[each.member_id] if room[place]][:quota]
        targets[each.member_id].update(kept)
        for place in kept:
            room[place] -= 1
        lacking.append((quota - len(kept), each.member_id))
    _fill(lacking, room, targets)


def _quotas(members: int, total: int) -> list[int]:
    """Return how many partitions each member gets, the most first. They differ by one at most."""
    least, extra = divmod(total, members)
    return [least + 1] * extra + [least] * (members - extra)


def _fill(lacking: list[tuple[int, str]], room: dict[Place, int], targets: Targets) -> None:
    """Give members what they lack, from the partitions that lack the most members."""
    free = [(-count, place) for place, count in room.items() if count]
    heapify(free)
    for lack, member_id in sorted(lacking, key=lambda each: -each[0]):
        own, passed = targets[member_id], list[tuple[int, Place]]()
        while lack and free:
            count, place = heappop(free)
            if place in own:
                passed.append((count, place))
                continue
            own.add(place)
            lack -= 1
            if count + 1:
                passed.append((count + 1, place))
        for each in passed:
            heappush(free, each)
