"""The assignor `simple`: every partition has a member, every member its part, and nothing moves without need."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from odradek.broker.coordination.modern.state import Subscriber
from odradek.broker.coordination.share_groups.assignor import Targets, assign_simple

T, U = b"t" * 16, b"u" * 16


def sharers(count: int, before: Targets | None = None, topics: frozenset[bytes] = frozenset({T})) -> list[Subscriber]:
    return [Subscriber(f"m{n}", None, topics, (before or {}).get(f"m{n}", set())) for n in range(count)]


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=5))
def test_members_and_partitions_of_one_topic_share_alike(steps: list[tuple[int, int]]) -> None:
    before: Targets = {}
    for members, partitions in steps:
        targets = assign_simple(sharers(members, before), {T: set(range(partitions))})
        shares = -(-members // partitions)
        held = Counter(place for own in targets.values() for place in own)
        assert set(held) == {(T, index) for index in range(partitions)}
        assert max(held.values()) <= shares
        sizes = [len(own) for own in targets.values()]
        assert min(sizes) >= 1 and sum(sizes) <= shares * partitions
        if members <= partitions:
            assert max(sizes) - min(sizes) <= 1 and set(held.values()) == {1}
        assert assign_simple(sharers(members, targets), {T: set(range(partitions))}) == targets or members > partitions
        before = targets


@given(st.lists(st.sampled_from([frozenset({T}), frozenset({U}), frozenset({T, U})]), min_size=1, max_size=8))
def test_each_partition_has_a_member_that_subscribes_it(subscriptions: list[frozenset[bytes]]) -> None:
    members = [Subscriber(f"m{n}", None, topics, set()) for n, topics in enumerate(subscriptions)]
    targets = assign_simple(members, {T: {0, 1}, U: {0, 1, 2}})
    for member in members:
        assert {place[0] for place in targets[member.member_id]} <= member.topics
    partitions = {T: 2, U: 3}
    subscribed = frozenset[bytes]().union(*subscriptions)
    wanted = {(topic, index) for topic in subscribed for index in range(partitions[topic])}
    assert {place for own in targets.values() for place in own} == wanted


def test_a_member_that_comes_takes_only_its_part() -> None:
    before = assign_simple(sharers(2), {T: set(range(6))})
    after = assign_simple(sharers(3, before), {T: set(range(6))})
    assert all(after[member] <= before[member] for member in before)
    assert [len(own) for own in after.values()] == [2, 2, 2]


def test_without_partitions_that_are_ready_nobody_has_one() -> None:
    assert assign_simple(sharers(2), {}) == {"m0": set(), "m1": set()}
