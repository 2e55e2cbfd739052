"""The sticky strategy: nothing evener exists, nothing nearer that is as even, nothing that moves less."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.client.assignors import Member, StickyAssignor
from odradek.client.assignors.sticky import Claim, decode_sticky, encode_sticky
from odradek.client.record import TopicPartition
from odradek.tests.client.assignors.groups import (
    Group,
    drawn_groups,
    is_complete,
    kafkas_cases,
    kafkas_user_data,
)
from odradek.tests.support.seeds import examples

Assignment = dict[str, list[TopicPartition]]
STICKY = StickyAssignor()
LARGE = drawn_groups(members=9, topics=6, partitions=60, racks=True)


def share_out(group: Group) -> Assignment:
    return STICKY.assign_with_racks(group.eager(), group.partitions, group.racks)


def loads(assignment: Assignment) -> list[int]:
    return sorted(len(hand) for hand in assignment.values())


def member(member_id: str, had: str, generation_id: int = 1, topics: str = "t") -> Member:
    """One that had these partitions of t, written as their digits."""
    partitions = [TopicPartition("t", int(digit)) for digit in had]
    return Member(member_id, tuple(topics), user_data=encode_sticky(partitions, generation_id))


def hands(members: list[Member], partitions: dict[str, int]) -> dict[str, str]:
    """Each member's partitions of t as their digits."""
    assigned = STICKY.assign(members, partitions)
    return {name: "".join(str(number) for _, number in hand) for name, hand in assigned.items()}


# -- the best there is -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("equal", [True, False], ids=["the same topics", "different topics"])
@pytest.mark.parametrize("racks", [False, True], ids=["no racks", "racks"])
@given(data=st.data())
@settings(max_examples=examples(60))
def test_no_other_assignment_is_better(data: st.DataObject, equal: bool, racks: bool) -> None:
    group = data.draw(drawn_groups(members=3, topics=3, partitions=6, equal=equal, racks=racks))
    assignment = share_out(group)
    assert is_complete(group, assignment)
    assert group.cost(assignment) == group.least_cost()


def test_kafkas_result_is_not_better() -> None:
    for case in kafkas_cases()[::2]:
        group, theirs = case.group, case.results["sticky"]
        ours = share_out(group)
        assert is_complete(group, theirs), group
        assert is_complete(group, ours), group
        assert max(loads(ours)) - min(loads(ours)) <= max(loads(theirs)) - min(loads(theirs)), group
        assert group.cost(ours) <= group.cost(theirs), group


@given(LARGE, st.randoms(use_true_random=False))
@settings(max_examples=examples(60))
def test_a_large_group_is_shared_out_whole_evenly_steadily_and_in_any_order(group: Group, order: random.Random) -> None:
    assignment = share_out(group)
    assert is_complete(group, assignment)
    assert not could_give(group, assignment), "to a member with two fewer, perhaps by a chain"
    assert share_out(group.with_owned(assignment, 6)) == assignment, "what was assigned once stays"
    members, counts = list(group.eager()), list(group.partitions.items())
    order.shuffle(members)
    order.shuffle(counts)
    shuffled = [replace(each, topics=tuple(order.sample(each.topics, len(each.topics)))) for each in members]
    assert STICKY.assign_with_racks(shuffled, dict(counts), group.racks) == assignment


def could_give(group: Group, assignment: Assignment) -> list[str]:
    """Return the members that could pass a partition on to one with two fewer."""
    subscribed = {each.member_id: set(each.topics) for each in group.members}
    found: list[str] = []
    for giver, hand in assignment.items():
        reached, to_do = {giver}, [giver]
        while to_do:
            topics = {partition.topic for partition in assignment[to_do.pop()]}
            more = [other for other in assignment if other not in reached and topics & subscribed[other]]
            reached.update(more)
            to_do += more
        found += [giver] * any(len(assignment[other]) < len(hand) - 1 for other in reached)
    return found


# -- what stays --------------------------------------------------------------------------------------------------------


@given(drawn_groups(members=8, topics=4, partitions=40, equal=True))
@settings(max_examples=40)
def test_a_member_that_leaves_or_joins_moves_its_own_partitions_alone(group: Group) -> None:
    before = share_out(group)
    left = Group(group.members[1:], group.partitions, {}).with_owned(before, 6)
    if left.members:
        assert left.cost(share_out(left)).moved == 0
    new = Member("new", group.members[0].topics)
    joined = Group((*group.members, new), group.partitions, {}).with_owned(before, 6)
    after = share_out(joined)
    assert joined.cost(after).moved == len(after["new"])


def test_partitions_that_are_new_go_to_those_with_the_fewest() -> None:
    assert hands([member("a", "01"), member("b", "2")], {"t": 5}) == {"a": "013", "b": "24"}


def test_topics_are_spread_over_the_members() -> None:
    assignment = STICKY.assign([Member(name, ("s", "t")) for name in "abc"], {"s": 3, "t": 3})
    assert all([topic for topic, _ in hand] == ["s", "t"] for hand in assignment.values())


# -- whose claim counts ------------------------------------------------------------------------------------------------


def test_of_two_claims_the_higher_generation_wins() -> None:
    assert hands([member("a", "01", 4), member("b", "0", 5)], {"t": 2}) == {"a": "1", "b": "0"}
    assert hands([member("a", "0", 5), member("b", "01", 4)], {"t": 2}) == {"a": "0", "b": "1"}


def test_of_two_claims_in_the_same_generation_nobody_wins() -> None:
    group = Group((_owning("a", "01", 5), _owning("b", "01", 5)), {"t": 2}, {})
    assert group.owners == {}
    # Where one of them had it too in an older generation, that does not bring it back.
    older = Group((*group.members, _owning("c", "0", 3)), {"t": 2}, {})
    assert older.owners == {}


def _owning(member_id: str, had: str, generation_id: int) -> Member:
    return Member(member_id, ("t",), owned=tuple(TopicPartition("t", int(p)) for p in had), generation_id=generation_id)


def test_claims_on_what_is_gone_or_not_subscribed_any_more_count_for_nothing() -> None:
    members = [member("a", "0129"), member("b", "", topics="st"), member("c", "01", 7, topics="s")]
    assert STICKY.assign(members, {"t": 2, "s": 1}) == {
        "a": [TopicPartition("t", 0)],
        "b": [TopicPartition("t", 1)],
        "c": [TopicPartition("s", 0)],
    }


@pytest.mark.parametrize("data", [None, b"", b"\x00", b"rr\x00\x01", bytes(3), b"\x7f\xff\xff\xff" * 4])
def test_user_data_that_cannot_be_read_claims_nothing(data: bytes | None) -> None:
    assert decode_sticky(data) == Claim()


# -- what members tell -------------------------------------------------------------------------------------------------


def test_user_data_is_kafkas_to_the_byte_and_is_read() -> None:
    for kafkas in kafkas_user_data():
        theirs = kafkas.by_name["sticky"]
        assert decode_sticky(theirs) == Claim(list(kafkas.previous), kafkas.generation_id)
        if kafkas.generation_id >= 0:
            assert STICKY.user_data(["t"], kafkas.previous, kafkas.generation_id) == theirs, kafkas


def test_user_data_of_the_first_version_has_no_generation() -> None:
    version_0 = encode_sticky([TopicPartition("t", 3)], 9)[:-4]
    assert decode_sticky(version_0) == Claim([TopicPartition("t", 3)], -1)


def test_a_member_that_was_given_nothing_yet_tells_nothing() -> None:
    assert STICKY.user_data(["t"]) is None
    assert STICKY.user_data(["t"], (), 3) is not None


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_claim_nothing(data: bytes) -> None:
    assert isinstance(decode_sticky(data), Claim)
