"""The cooperative-sticky strategy: sticky's plan, and nobody is given what somebody else still holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.client.assignors import CooperativeStickyAssignor, Member, StickyAssignor
from odradek.client.assignors.sticky import decode_generation, encode_generation
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
COOPERATIVE = CooperativeStickyAssignor()
STICKY = StickyAssignor()


def share_out(group: Group) -> Assignment:
    return COOPERATIVE.assign_with_racks(group.members, group.partitions, group.racks)


def holding(member_id: str, held: str, generation_id: int = 5, **more: object) -> Member:
    """One that holds these partitions of t, written as their digits."""
    partitions = tuple(TopicPartition("t", int(digit)) for digit in held)
    return replace(Member(member_id, ("t",), owned=partitions, generation_id=generation_id), **more)


def hands(members: list[Member], count: int) -> dict[str, str]:
    assigned = COOPERATIVE.assign(members, {"t": count})
    return {name: "".join(str(number) for _, number in hand) for name, hand in assigned.items()}


# -- who may read what, when -------------------------------------------------------------------------------------------


@given(drawn_groups(members=7, topics=5, partitions=40, racks=True))
@settings(max_examples=examples(80))
def test_two_generations_carry_out_stickys_plan_and_nobody_is_given_what_another_still_holds(group: Group) -> None:
    planned = STICKY.assign_with_racks(group.eager(), group.partitions, group.racks)
    believed = group.owners
    held = {partition for member in group.members for partition in member.owned}
    first = share_out(group)
    for member_id, hand in first.items():
        assert all(believed.get(partition) == member_id for partition in hand if partition in held)
        assert set(hand) <= set(planned[member_id])
        assert set(planned[member_id]) - set(hand) <= held
    second = share_out(group.with_owned(first, 6))
    assert is_complete(group, second)
    assert all(set(first[member_id]) <= set(second[member_id]) for member_id in first)
    assert group.cost(second)[:2] == group.cost(planned)[:2]
    # And then there is nothing left to do.
    assert share_out(group.with_owned(second, 7)) == second


def test_after_two_generations_kafkas_plan_is_not_better() -> None:
    for case in kafkas_cases()[::2]:
        group = case.group
        ours = share_out(group.with_owned(share_out(group), 6))
        assert is_complete(group, ours), group
        # Kafka's own plan of both strategies is one.
        assert group.cost(ours) <= group.cost(case.results["sticky"]), group


def test_a_partition_that_moves_is_first_given_to_nobody() -> None:
    assert hands([holding("a", "0123"), holding("b", "", -1)], 4) == {"a": "01", "b": ""}
    assert hands([holding("a", "01", 6), holding("b", "", 6)], 4) == {"a": "01", "b": "23"}


def test_a_partition_that_nobody_holds_is_given_at_once() -> None:
    assert hands([holding("a", "01"), holding("b", "", -1)], 4) == {"a": "01", "b": "23"}


def test_a_member_that_does_not_subscribe_the_topic_any_more_still_holds_it() -> None:
    members = [holding("a", "0", topics=("s",)), holding("b", "")]
    assert hands(members, 1) == {"a": "", "b": ""}
    assert hands([replace(members[0], owned=()), members[1]], 1) == {"a": "", "b": "0"}


# -- whose claim counts ------------------------------------------------------------------------------------------------


def test_of_two_claims_the_higher_generation_keeps_its_partition() -> None:
    assert hands([holding("a", "0", 4), holding("b", "0", 5)], 1) == {"a": "", "b": "0"}


def test_a_claim_that_is_not_believed_still_keeps_the_partition_from_others() -> None:
    # b was given 0 and 1 last, and must give up one; a was away, and still reads what it is to get.
    assigned = hands([holding("a", "01", 4), holding("b", "01", 5)], 2)
    assert assigned == {"a": "", "b": "0"}


def test_of_two_claims_in_the_same_generation_both_are_given_up() -> None:
    assert hands([holding("a", "0"), holding("b", "0")], 1) == {"a": "", "b": ""}


def test_the_generation_is_read_from_the_user_data_where_the_subscription_has_none() -> None:
    older = holding("a", "0", -1, user_data=encode_generation(6))
    assert hands([older, holding("b", "0", 5)], 1) == {"a": "0", "b": ""}
    assert hands([older, holding("b", "0", 7)], 1) == {"a": "", "b": "0"}
    # The subscription's own is the newer way.
    both = holding("a", "0", 4, user_data=encode_generation(6))
    assert hands([both, holding("b", "0", 5)], 1) == {"a": "", "b": "0"}


# -- what members tell -------------------------------------------------------------------------------------------------


def test_user_data_is_kafkas_to_the_byte() -> None:
    for kafkas in kafkas_user_data():
        theirs = kafkas.by_name["cooperative-sticky"]
        assert COOPERATIVE.user_data(["t"], kafkas.previous, kafkas.generation_id) == theirs, kafkas
        assert decode_generation(theirs) == kafkas.generation_id


@pytest.mark.parametrize("data", [None, b"", b"\x00\x01\x02"])
def test_user_data_that_cannot_be_read_has_no_generation(data: bytes | None) -> None:
    assert decode_generation(data) == -1


@given(st.binary(max_size=12))
def test_any_bytes_are_read(data: bytes) -> None:
    assert isinstance(decode_generation(data), int)


def test_members_keep_their_partitions_through_a_rebalance() -> None:
    assert CooperativeStickyAssignor.cooperative
    assert not StickyAssignor.cooperative
