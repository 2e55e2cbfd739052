"""Sharing out as evenly as can be, and then moving as little as can be. Numbers only, no names (see `filling`).

Where all members subscribe the same, even means loads that differ by one at most. Where they do not, a sharing-out is
even if no partition, and no chain of partitions handed on, can be moved from a member to another with two fewer. That
is the least sum of squared loads, and has the least maximum and the greatest minimum too.

Members fall into levels: what those of a level read, nobody of a lower one subscribes, so their loads are fixed at
`low` or one more, whatever is done elsewhere. `balance` finds the levels by filling up to the average: whom the
partitions left over can reach lie at or above it, the others below. Within a level each sharing-out under its bounds
is equally even, and the one with the least cost is chosen: fewest read from another rack, then fewest moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .filling import Bundle, Filling


def balance(members: Sequence[int], bundles: Sequence[Bundle]) -> list[dict[int, int]]:
    """For each bundle, how many of it every member gets (those that get none are left out).

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
    # One even sharing-out, by bundle.
    given: list[dict[int, int]]


def _levels(members: frozenset[int], bundles: Sequence[Bundle]) -> Iterator[_Level]:
    """The levels. Each round ends with one, or with fewer members to look at."""
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
            # Without anything left over the average was met by all.
            yield _Level(members, numbers, low, filling.given)
            continue
        below = members - above[0], [number for at, number in enumerate(numbers) if at not in above[1]]
        filling.fill(low + 1)
        beyond = filling.stuck
        here = sorted(above[1] - beyond[1])
        yield _Level(above[0] - beyond[0], [numbers[at] for at in here], low, [filling.given[at] for at in here])
        to_do += [below, (beyond[0], [numbers[at] for at in sorted(beyond[1])])]


def _cheapest(level: _Level, bundles: Sequence[Bundle]) -> list[dict[int, int]]:
    """The cheapest sharing-out within a level."""
    own = [bundles[number].among(level.members) for number in level.bundles]
    if all(bundle.indifferent for bundle in own):
        return level.given
    filling = Filling(sorted(level.members), own)
    filling.fill(level.low)
    filling.fill(level.low + 1)
    return filling.given
