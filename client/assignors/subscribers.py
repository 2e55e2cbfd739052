"""Who reads what: the members' subscriptions the other way round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from .assignor import Member


def subscribers(members: Sequence[Member], topics: Collection[str]) -> dict[str, tuple[int, ...]]:
    """Each of `topics` that is subscribed, with the places of its subscribers in `members`, in order.

    The same subscribers are the same tuple object. In many groups all members subscribe the same, and to thousands of
    topics: so members are gathered by subscription first, and the cost is of the different ones.
    """
    alike: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, member in enumerate(members):
        alike[member.topics].append(place)
    crowds = list(alike.values())
    found: defaultdict[str, list[int]] = defaultdict(list)
    for crowd, subscription in enumerate(alike):
        for topic in dict.fromkeys(subscription):
            if topic in topics:
                found[topic].append(crowd)
    places: dict[tuple[int, ...], tuple[int, ...]] = {}
    for key in map(tuple, found.values()):
        if key not in places:
            places[key] = tuple(sorted(place for crowd in key for place in crowds[crowd]))
    return {topic: places[tuple(key)] for topic, key in found.items()}
