"""The numbers under the sticky strategies, where names and partitions are out of the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations_with_replacement, product

from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.client.assignors.filling import Bundle, Filling
from odradek.client.assignors.sticky import balance
from odradek.tests.support.seeds import examples

MEMBERS = range(4)


@st.composite
def bundles(draw: st.DrawFn) -> Bundle:
    size = draw(st.integers(0, 3))
    readers = draw(st.lists(st.sampled_from(MEMBERS), min_size=1, unique=True).map(sorted))
    far = draw(st.lists(st.sampled_from(readers), unique=True).map(sorted))
    previous = Counter(draw(st.lists(st.sampled_from(readers), max_size=size)))
    return Bundle(size, tuple(each for each in readers if each not in far), tuple(far), dict(previous))


GROUPS = st.lists(bundles(), min_size=1, max_size=3)


def cost(group: list[Bundle], given: list[dict[int, int]]) -> tuple[int, int, int]:
    """Sum of squared loads, partitions read from afar, and (negated) partitions that stayed."""
    loads: Counter[int] = Counter()
    far = stayed = 0
    for bundle, counts in zip(group, given, strict=True):
        loads.update(counts)
        far += sum(count for member, count in counts.items() if member in bundle.far)
        stayed += sum(min(count, bundle.previous.get(member, 0)) for member, count in counts.items())
    return sum(load * load for load in loads.values()), far, -stayed


def every_sharing_out(group: list[Bundle]) -> Iterator[list[dict[int, int]]]:
    hands = [list(combinations_with_replacement(bundle.near + bundle.far, bundle.size)) for bundle in group]
    for choice in product(*hands):
        yield [dict(Counter(hand)) for hand in choice]


@given(GROUPS)
@settings(max_examples=examples(120))
def test_no_other_sharing_out_costs_less(group: list[Bundle]) -> None:
    found = balance(MEMBERS, group)
    assert [sum(counts.values()) for counts in found] == [bundle.size for bundle in group]
    assert cost(group, found) == min(cost(group, given) for given in every_sharing_out(group))


@given(GROUPS, st.integers(0, 4))
@settings(max_examples=examples(60))
def test_a_filling_gives_out_all_that_fits_under_the_cap(group: list[Bundle], cap: int) -> None:
    filling = Filling(MEMBERS, group)
    filling.fill(cap)
    assert max(filling.load.values()) <= cap
    for bundle, left, given_out in zip(group, filling.left, filling.given, strict=True):
        assert left + sum(given_out.values()) == bundle.size
        assert given_out.keys() <= {*bundle.near, *bundle.far}
    # What is left over is stuck: all who could take it are full, and so are those they could hand on to.
    members, numbers = filling.stuck
    assert {number for number, left in enumerate(filling.left) if left} <= numbers
    assert all(filling.load[member] == cap for member in members)
    for number in numbers:
        assert {*group[number].near, *group[number].far} <= members


def test_levels_below_and_above_the_average_are_found_in_one_go() -> None:
    group = [Bundle(9, (0,)), Bundle(3, (0, 1)), Bundle(4, (1, 2)), Bundle(1, (3,))]
    loads: Counter[int] = Counter()
    for counts in balance(MEMBERS, group):
        loads.update(counts)
    assert [loads[member] for member in MEMBERS] == [9, 4, 3, 1] or [loads[m] for m in MEMBERS] == [9, 3, 4, 1]


def test_a_long_chain_is_handed_on_to_its_end() -> None:
    # Each member reads two neighbouring bundles; the first bundle has one partition too many for its readers.
    length = 300
    group = [Bundle(3, (0,))] + [Bundle(1, (at, at + 1)) for at in range(length)]
    loads: Counter[int] = Counter()
    for counts in balance(range(length + 1), group):
        loads.update(counts)
    assert [loads[member] for member in range(length + 1)] == [3] + [1] * length


def test_members_with_nothing_to_read_get_nothing() -> None:
    assert balance(MEMBERS, [Bundle(5, (2,))]) == [{2: 5}]
    assert balance(MEMBERS, []) == []
