"""Giving out partitions along cheapest paths: the engine of the sticky strategies. Numbers only, no names.

Members are numbers; a `Bundle` is so many partitions that differ in nothing but who had them before. One that goes to
a member costs nothing, `far` more where the member must read from another rack, and one less where the member had it.
So a filling that costs the least has the fewest partitions read from afar, and among those the most left in place.

    bundle with partitions left --> member with room
    bundle with partitions left --> member --(gives one back)--> bundle --> member with room, and so on

That is a flow of least cost, found by successive shortest paths: `_reprice` finds how far everything lies from the
bundles (Dijkstra on reduced costs), `_push_all` gives out along all shortest paths at once (layers, then depth first).

Promise: after `fill(cap)` nobody has more than `cap`, as much as possible is given out, and no other way to give out as
much under that cap is cheaper. Raising the cap and filling again keeps that: the units above the old cap are then as
few as can be. `stuck` says which members and bundles what is left could reach: those are full, whatever is tried.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import chain, pairwise
from typing import NamedTuple

_UNREACHED = 1 << 62


@dataclass(frozen=True, slots=True)
class Bundle:
    """Partitions with the same subscribers and replicas in the same racks: nobody can tell them apart.

    `near` and `far` are the subscribers, by whether they read from their own rack; `previous` counts how many of these
    partitions a member had before.
    """

    size: int
    near: tuple[int, ...]
    far: tuple[int, ...] = ()
    previous: Mapping[int, int] = field(default_factory=dict[int, int])

    @property
    def indifferent(self) -> bool:
        """Whether it is all the same who gets them."""
        return not self.far and not self.previous

    def among(self, members: frozenset[int]) -> Bundle:
        """The same bundle where there are only these members."""
        previous = {member: count for member, count in self.previous.items() if member in members}
        near, far = (tuple(member for member in each if member in members) for each in (self.near, self.far))
        return Bundle(self.size, near, far, previous)

    def plain(self) -> Bundle:
        """The same bundle where it is all the same who gets them."""
        return self if self.indifferent else Bundle(self.size, self.near + self.far)


class Filling:
    """Who gets how many of each bundle, while it is being found out."""

    def __init__(self, members: Iterable[int], bundles: Sequence[Bundle]) -> None:
        self._bundles = bundles
        self.load = dict.fromkeys(members, 0)
        # Invariant: left[b] + sum(given[b].values()) == bundles[b].size
        self.left = [bundle.size for bundle in bundles]
        self.given: list[dict[int, int]] = [{} for _ in bundles]
        # Invariant: b in held[m] exactly where given[b].get(m, 0) > 0
        self._held: dict[int, dict[int, None]] = {member: {} for member in self.load}
        self._is_far = [frozenset(bundle.far) for bundle in bundles]
        # More than everything that stickiness could save.
        self._far = 1 + sum(self.left)
        # Invariant: price[to] <= price[from] + cost on each way that is open: then reduced costs are never negative.
        # A partition that stays saves one: no way into a member costs less than -1.
        self._bundle_price = [0] * len(bundles)
        self._member_price = dict.fromkeys(self.load, -1)
        self._goal_price = -1
        self.stuck: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())

    def fill(self, cap: int) -> None:
        """Give out as much as can be while nobody has more than `cap`, as cheaply as can be."""
        open_prices = [self._member_price[member] for member, load in self.load.items() if load < cap]
        self._goal_price = min(open_prices, default=0)
        while self._reprice(cap):
            while self._push_all(cap):
                pass

    # -- how far things lie ------------------------------------------------------------------------

    def _reprice(self, cap: int) -> bool:
        """Move the prices so that all cheapest ways to a member with room are level. False where there is no way."""
        member_at = dict.fromkeys(self.load, _UNREACHED)
        bundle_at = [_UNREACHED] * len(self._bundles)
        heap: list[tuple[int, bool, int]] = []
        for bundle, left in enumerate(self.left):
            if left:
                bundle_at[bundle] = -self._bundle_price[bundle]
                heap.append((bundle_at[bundle], True, bundle))
        heapify(heap)
        goal = _UNREACHED
        while heap and heap[0][0] < goal:
            at, is_bundle, node = heappop(heap)
            if is_bundle:
                if at == bundle_at[node]:
                    self._look_from_bundle(node, at, member_at, heap)
            elif at == member_at[node]:
                if self.load[node] < cap:
                    goal = min(goal, at + self._member_price[node] - self._goal_price)
                self._look_from_member(node, at, bundle_at, heap)
        if goal == _UNREACHED:
            members = frozenset(member for member, at in member_at.items() if at < _UNREACHED)
            self.stuck = members, frozenset(bundle for bundle, at in enumerate(bundle_at) if at < _UNREACHED)
            return False
        self._member_price = {
            member: price + min(member_at[member], goal) for member, price in self._member_price.items()
        }
        self._bundle_price = [price + min(at, goal) for price, at in zip(self._bundle_price, bundle_at, strict=True)]
        self._goal_price += goal
        return True

    def _look_from_bundle(
        self, bundle: int, at: int, member_at: dict[int, int], heap: list[tuple[int, bool, int]]
    ) -> None:
        what, prices = self._bundles[bundle], self._member_price
        base = at + self._bundle_price[bundle]
        for members, cost in ((what.near, base), (what.far, base + self._far)):
            for member in members:
                there = cost - prices[member]
                if there < member_at[member]:
                    member_at[member] = there
                    heappush(heap, (there, False, member))
        for member in self._staying(bundle):
            there = base + self._give_cost(bundle, member) - prices[member]
            if there < member_at[member]:
                member_at[member] = there
                heappush(heap, (there, False, member))

    def _look_from_member(self, member: int, at: int, bundle_at: list[int], heap: list[tuple[int, bool, int]]) -> None:
        base = at + self._member_price[member]
        for bundle in self._held[member]:
            there = base + self._take_cost(bundle, member) - self._bundle_price[bundle]
            if there < bundle_at[bundle]:
                bundle_at[bundle] = there
                heappush(heap, (there, True, bundle))

    def _staying(self, bundle: int) -> list[int]:
        """Who could get more of what it had."""
        given, previous = self.given[bundle], self._bundles[bundle].previous
        return [member for member, count in previous.items() if given.get(member, 0) < count]

    def _give_cost(self, bundle: int, member: int) -> int:
        """Of a partition that stays with `member`."""
        return (self._far if member in self._is_far[bundle] else 0) - 1

    def _take_cost(self, bundle: int, member: int) -> int:
        """Of taking one back: those that were there before go last."""
        far = self._far if member in self._is_far[bundle] else 0
        return (1 if self._stayed(bundle, member) else 0) - far

    def _stayed(self, bundle: int, member: int) -> bool:
        """Whether all that `member` has of the bundle was there before."""
        return self.given[bundle][member] <= self._bundles[bundle].previous.get(member, 0)

    # -- giving out --------------------------------------------------------------------------------

    def _push_all(self, cap: int) -> bool:
        """Give out along the shortest of the level ways until there are none of that length. False: there were none."""
        layers = self._layers(cap)
        if layers is None:
            return False
        for bundle in layers.starts:
            while self.left[bundle] and (path := self._find(bundle, layers, cap)):
                self._push(path, self._amount(path, cap, -(-self.left[bundle] // layers.from_bundle[bundle].total())))
                for step in path:
                    layers.from_bundle[step.bundle].of(step.stays).rotate(-1)
        return True

    def _layers(self, cap: int) -> _Layers | None:
        """The level ways from bundles with partitions left to the nearest members with room, None where there are
        none."""
        prices = self._bundle_price
        frontier = [bundle for bundle, left in enumerate(self.left) if left and prices[bundle] == 0]
        layers, bundles_seen = _Layers(frontier), set(frontier)
        members_seen: set[int] = set()
        while frontier:
            reached: dict[int, None] = {}
            for bundle in frontier:
                ways = layers.from_bundle[bundle] = self._level_members(bundle, members_seen)
                reached.update(dict.fromkeys(chain(ways.staying, ways.fresh)))
            if any(self._has_room(member, cap) for member in reached):
                return layers
            members_seen.update(reached)
            for member in reached:
                ahead = [b for b in self._held[member] if b not in bundles_seen and self._is_level(member, b)]
                layers.from_member[member] = deque(ahead)
            frontier = list(dict.fromkeys(b for member in reached for b in layers.from_member[member]))
            bundles_seen.update(frontier)
        return None

    def _level_members(self, bundle: int, seen: set[int]) -> _Ways:
        what, price, prices = self._bundles[bundle], self._bundle_price[bundle], self._member_price
        staying = [m for m in self._staying(bundle) if prices[m] == price + self._give_cost(bundle, m)]
        fresh = [m for m in what.near if prices[m] == price]
        fresh += [m for m in what.far if prices[m] == price + self._far]
        return _Ways(deque(m for m in staying if m not in seen), deque([m for m in fresh if m not in seen]))

    def _is_level(self, member: int, bundle: int) -> bool:
        return self._member_price[member] + self._take_cost(bundle, member) == self._bundle_price[bundle]

    def _has_room(self, member: int, cap: int) -> bool:
        return self.load[member] < cap and self._member_price[member] == self._goal_price

    def _find(self, start: int, layers: _Layers, cap: int) -> list[_Step]:
        """One way through the layers, empty where there is none left. Dead ends are taken out on the way."""
        path: list[_Step] = []
        bundle = start
        while True:
            step = self._next_step(bundle, layers, cap)
            if step is not None:
                path.append(step)
                if self._has_room(step.member, cap):
                    return path
                bundle = layers.from_member[step.member][0]
            elif path:
                back = path.pop()
                layers.from_member[back.member].popleft()
                bundle = back.bundle
            else:
                return []

    def _next_step(self, bundle: int, layers: _Layers, cap: int) -> _Step | None:
        for stays in (True, False):
            ways = layers.from_bundle[bundle].of(stays)
            while ways:
                step = _Step(bundle, ways[0], stays)
                open_still = not stays or self.given[bundle].get(step.member, 0) < self._previous(step)
                if open_still and (self._has_room(step.member, cap) or self._can_give_back(step.member, layers)):
                    return step
                ways.popleft()
        return None

    def _can_give_back(self, member: int, layers: _Layers) -> bool:
        """Whether `member` has something level to give back; it then is the first of its ways."""
        ways = layers.from_member.get(member)
        while ways:
            if ways[0] in self._held[member] and self._is_level(member, ways[0]):
                return True
            ways.popleft()
        return False

    def _previous(self, step: _Step) -> int:
        return self._bundles[step.bundle].previous.get(step.member, 0)

    def _amount(self, path: Sequence[_Step], cap: int, share: int) -> int:
        """How many can go this way at once: as long as no cost on it changes, and no more than a fair share."""
        amount = min(share, self.left[path[0].bundle], cap - self.load[path[-1].member])
        for step in path:
            if step.stays:
                amount = min(amount, self._previous(step) - self.given[step.bundle].get(step.member, 0))
        for here, ahead in pairwise(path):
            has = self.given[ahead.bundle][here.member]
            stayed = self._bundles[ahead.bundle].previous.get(here.member, 0)
            amount = min(amount, has - stayed if has > stayed else has)
        return amount

    def _push(self, path: Sequence[_Step], amount: int) -> None:
        self.left[path[0].bundle] -= amount
        self.load[path[-1].member] += amount
        for step in path:
            given = self.given[step.bundle]
            given[step.member] = given.get(step.member, 0) + amount
            self._held[step.member][step.bundle] = None
        for here, ahead in pairwise(path):
            given = self.given[ahead.bundle]
            given[here.member] -= amount
            if not given[here.member]:
                del given[here.member], self._held[here.member][ahead.bundle]


class _Step(NamedTuple):
    """A partition of `bundle` given to `member`: one that `stays` where it was, or one that the member did not have."""

    bundle: int
    member: int
    stays: bool


class _Ways(NamedTuple):
    """The members that a bundle can go to, by whether a partition would stay there. The first is the one to try."""

    staying: deque[int]
    fresh: deque[int]

    def of(self, stays: bool) -> deque[int]:
        return self.staying if stays else self.fresh

    def total(self) -> int:
        return len(self.staying) + len(self.fresh)


@dataclass(slots=True)
class _Layers:
    """Ways of one length: each step leads one layer on."""

    starts: list[int]
    from_bundle: dict[int, _Ways] = field(default_factory=dict[int, _Ways])
    # The bundles that a member can give back to, the first again the one to try.
    from_member: dict[int, deque[int]] = field(default_factory=dict[int, "deque[int]"])
