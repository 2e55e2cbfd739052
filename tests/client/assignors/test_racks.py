"""Racks: range looks at them as Kafka's does, to the partition; round-robin does not, as Kafka's."""

from __future__ import annotations

import pytest
from odradek.client.assignors import Assignor, Member, RangeAssignor, RoundRobinAssignor
from odradek.client.assignors.assignor import racks_matter
from odradek.client.record import TopicPartition
from odradek.tests.client.assignors.groups import kafkas_cases

WITH_RACKS = [case for case in kafkas_cases() if case.group.racks]
A, B, AB = frozenset("a"), frozenset("b"), frozenset("ab")


@pytest.mark.parametrize("assignor", [RangeAssignor(), RoundRobinAssignor()], ids=lambda assignor: assignor.name)
def test_the_result_is_kafkas(assignor: Assignor) -> None:
    for case in WITH_RACKS:
        group = case.group
        assignment = assignor.assign_with_racks(group.members, group.partitions, group.racks)
        found = {member: sorted(hand) for member, hand in assignment.items()}
        assert found == case.results[assignor.name], group


def test_racks_make_a_difference_to_range_in_some_of_the_cases() -> None:
    """Else the test above would show nothing."""
    groups = [(case.group, case.results["range"]) for case in WITH_RACKS]
    assert any(RangeAssignor().assign(group.members, group.partitions) != result for group, result in groups)


@pytest.mark.parametrize(
    ("at", "replicas", "expected"),
    [
        ("a", [A, B], True),
        ("a", [A, AB], True),
        ("", [A, B], False),  # nobody says where it runs
        ("c", [A, B], False),  # nobody is near anything
        ("ab", [AB, AB], False),  # everything is everywhere
        ("a", [], False),
    ],
)
def test_racks_matter_where_there_is_a_choice(at: str, replicas: list[frozenset[str]], expected: bool) -> None:
    assert racks_matter(set(at), replicas) is expected


def test_partitions_whose_racks_are_not_told_are_in_none() -> None:
    members = [Member("m", ("t",), rack_id="b"), Member("n", ("t",), rack_id="a")]
    told = {"t": [A]}
    assignment = RangeAssignor().assign_with_racks(members, {"t": 2}, told)
    assert assignment == {"n": [TopicPartition("t", 0)], "m": [TopicPartition("t", 1)]}
