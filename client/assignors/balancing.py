"""The balance of the sticky strategies: loads as even as possible, then as few moves as possible.

Members and partitions are numbers here (see `filling`). If all members subscribe the same topics, even means that loads
differ by one at most. Otherwise an assignment is even if no partition, and no chain of partitions handed on, can move
from a member to another that has at least two fewer. Such an assignment has the least sum of squared loads, the least
maximum and the greatest minimum.

Members fall into levels. Members of a lower level subscribe nothing that a level reads, so the loads of a level are
fixed at `low` or one more, and the other levels cannot change them. `balance` finds the levels by filling up to the
average. The members that the remaining partitions can reach lie at or above the average, the others below it. All
assignments within the bounds of a level are equally even. The cheapest is chosen: first the fewest partitions read from
another rack, then the fewest moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .filling import Bundle, Filling


def balance(members: Sequence[int], bundles: Sequence[Bundle]) -> list[dict[int, int]]:
    """Return how many of each bundle every member gets, without the members that get none.

    Each bundle must have a subscriber.
    """
    result: list[dict[int, int]] = [{} for _ in bundles]
    for level in _levels(frozenset(members), bundles):
        for bundle, given in zip(level.bundles, _cheapest(level, bundles), strict=True):
            result[bundle] = given
    return result


@dataclass(frozen=True, slots=True)
class _Level:
    """Members whose loads are `low` or one more, and the bundles that are theirs alone."""

    members: frozenset[int]
    bundles: list[int]
    low: int
    # One even assignment, by bundle.
    given: list[dict[int, int]]


def _levels(members: frozenset[int], bundles: Sequence[Bundle]) -> Iterator[_Level]:
    """Yield the levels. Each round yields one or leaves smaller sets of members to look at."""
    to_do = [(members, list(range(len(bundles))))]
    while to_do:
        members, numbers = to_do.pop()
        if not members:
            continue
        filling = Filling(sorted(members), [bundles[number].plain().among(members) for number in numbers])
        low = sum(filling.left) // len(members)
        filling.fill(low)
        above = filling.stuck
        if not above[0]:
            # Nothing is left over, so the load of every member is the average.
            yield _Level(members, numbers, low, filling.given)
            continue
        below = members - above[0], [number for at, number in enumerate(numbers) if at not in above[1]]
        filling.fill(low + 1)
        beyond = filling.stuck
        here = sorted(above[1] - beyond[1])
        yield _Level(above[0] - beyond[0], [numbers[at] for at in here], low, [filling.given[at] for at in here])
        to_do += [below, (beyond[0], [numbers[at] for at in sorted(beyond[1])])]


def _cheapest(level: _Level, bundles: Sequence[Bundle]) -> list[dict[int, int]]:
    """Return the cheapest assignment within a level."""
    own = [bundles[number].among(level.members) for number in level.bundles]
    if all(bundle.indifferent for bundle in own):
        return level.given
    filling = Filling(sorted(level.members), own)
    filling.fill(level.low)
    filling.fill(level.low + 1)
    return filling.given
