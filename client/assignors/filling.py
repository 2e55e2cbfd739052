"""The algorithm of the sticky strategies: partitions are given to members along the cheapest paths.

Members are numbers. A `Bundle` is a number of partitions that differ only in their previous owners. To give a partition
to a member costs nothing, `far` more if the member must read it from another rack, and one less if the member had it.
So the cheapest filling has the fewest partitions read from another rack, and then the fewest moved.

    bundle with partitions left --> member with room
    bundle with partitions left --> member --(gives one back)--> bundle --> member with room, and so on

This is a flow of least cost, found by successive shortest paths: `_reprice` finds the distance of every node from the
bundles (Dijkstra on reduced costs), `_push_all` gives out along all shortest paths at once (layers, then depth first).

Promise: after `fill(cap)` no member has more than `cap`, as much as possible is given out, and no other filling of that
size under that cap is cheaper. Filling again under a higher cap keeps this promise, and as few units as possible lie
above the old cap. `stuck` holds the members and bundles that the remaining partitions can reach: these members have no
room in any filling under that cap.
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
    """Partitions that count as equal: they have the same subscribers, and replicas in the same racks.

    `near` and `far` are the subscribers, by whether they read from their own rack; `previous` counts how many of these
    partitions a member had before.
    """

    size: int
    near: tuple[int, ...]
    far: tuple[int, ...] = ()
    previous: Mapping[int, int] = field(default_factory=dict[int, int])

    @property
    def indifferent(self) -> bool:
        """Return whether it makes no difference which subscriber gets them."""
        return not self.far and not self.previous

    def among(self, members: frozenset[int]) -> Bundle:
        """Return the bundle with only those of its subscribers that are in `members`."""
        previous = {member: count for member, count in self.previous.items() if member in members}
        near, far = (tuple(member for member in each if member in members) for each in (self.near, self.far))
        return Bundle(self.size, near, far, previous)

    def plain(self) -> Bundle:
        """Return the bundle without racks and previous owners, so that all subscribers cost the same."""
        return self if self.indifferent else Bundle(self.size, self.near + self.far)


class Filling:
    """The number of partitions of each bundle that every member gets, as far as it has been found."""

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
        # Invariant: price[to] <= price[from] + cost on each open edge, so that reduced costs are never negative.
        # A partition that stays saves one, so no edge into a member costs less than -1.
        self._bundle_price = [0] * len(bundles)
        self._member_price = dict.fromkeys(self.load, -1)
        self._goal_price = -1
        self.stuck: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())

    def fill(self, cap: int) -> None:
        """Give out as much as possible, as cheaply as possible, so that no member has more than `cap`."""
        open_prices = [self._member_price[member] for member, load in self.load.items() if load < cap]
        self._goal_price = min(open_prices, default=0)
        while self._reprice(cap):
            while self._push_all(cap):
                pass

    # -- Distances

    def _reprice(self, cap: int) -> bool:
        """Move the prices so that all edges of the cheapest paths to a member with room are level.

        Return False if there is no such path.
        """
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
        """Return the members that could get back more of what they had."""
        given, previous = self.given[bundle], self._bundles[bundle].previous
        return [member for member, count in previous.items() if given.get(member, 0) < count]

    def _give_cost(self, bundle: int, member: int) -> int:
        """Return the cost of giving `member` a partition that it had."""
        return (self._far if member in self._is_far[bundle] else 0) - 1

    def _take_cost(self, bundle: int, member: int) -> int:
        """Return the cost of taking a partition back: the ones that the member did not have go first."""
        far = self._far if member in self._is_far[bundle] else 0
        had_all = self.given[bundle][member] <= self._bundles[bundle].previous.get(member, 0)
        return (1 if had_all else 0) - far

    # -- Giving out

    def _push_all(self, cap: int) -> bool:
        """Give out along all shortest level paths. Return False if there was none."""
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
        """Return the level paths from bundles with partitions left to the nearest members with room, None if none."""
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
        """Return one path through the layers, empty if there is none left. Remove the dead ends that it meets."""
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
        """Return whether `member` can give back a partition along a level edge, and put that edge first."""
        ways = layers.from_member.get(member)
        while ways:
            if ways[0] in self._held[member] and self._is_level(member, ways[0]):
                return True
            ways.popleft()
        return False

    def _previous(self, step: _Step) -> int:
        return self._bundles[step.bundle].previous.get(step.member, 0)

    def _amount(self, path: Sequence[_Step], cap: int, share: int) -> int:
        """Return how many can go along `path` before a cost on it changes, but no more than `share`."""
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
    """The members that a bundle can go to, by whether a partition would stay there. The first is tried next."""

    staying: deque[int]
    fresh: deque[int]

    def of(self, stays: bool) -> deque[int]:
        return self.staying if stays else self.fresh

    def total(self) -> int:
        return len(self.staying) + len(self.fresh)


@dataclass(slots=True)
class _Layers:
    """Paths of one length: each step leads to the next layer."""

    starts: list[int]
    from_bundle: dict[int, _Ways] = field(default_factory=dict[int, _Ways])
    # The bundles that a member can give back to. The first is tried next.
    from_member: dict[int, deque[int]] = field(default_factory=dict[int, "deque[int]"])
