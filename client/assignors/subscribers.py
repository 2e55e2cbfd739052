"""The subscribers of each topic, from the subscriptions of the members."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from .assignor import Member


def subscribers(members: Sequence[Member], topics: Collection[str]) -> dict[str, tuple[int, ...]]:
    """Return the subscribed ones of `topics`, each with the places of its subscribers in `members`, in order.

    Topics with the same subscribers share one tuple object. In many groups all members subscribe the same thousands of
    topics. So members are grouped by subscription first, and each different subscription is read once.
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
