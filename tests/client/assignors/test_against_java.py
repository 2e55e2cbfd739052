"""Our assignors against the results of Kafka's own classes on the same input (golden/assignments.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.client.assignors import Assignor, Member, RangeAssignor, RoundRobinAssignor

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "golden" / "assignments.json").read_text())
ASSIGNORS = [RangeAssignor(), RoundRobinAssignor()]


@pytest.mark.parametrize("assignor", ASSIGNORS, ids=lambda assignor: assignor.name)
def test_the_result_is_kafkas(assignor: Assignor) -> None:
    for case in CASES:
        members = [Member(m["id"], tuple(m["topics"]), m["instance"]) for m in case["members"]]
        assignment = assignor.assign(members, case["partitions"])
        assert {member: sorted(partitions) for member, partitions in assignment.items()} == {
            member: sorted((topic, partition) for topic, partition in partitions)
            for member, partitions in case[assignor.name].items()
        }, case


MEMBERS = st.lists(
    st.builds(
        Member, st.text("abc", min_size=1, max_size=4), st.lists(st.sampled_from("stuv"), unique=True).map(tuple)
    ),
    max_size=6,
    unique_by=lambda member: member.member_id,
)


@pytest.mark.parametrize("assignor", ASSIGNORS, ids=lambda assignor: assignor.name)
@given(MEMBERS, st.dictionaries(st.sampled_from("stuv"), st.integers(0, 9)))
def test_every_wanted_partition_has_one_owner_who_wants_it(
    assignor: Assignor, members: list[Member], partitions: dict[str, int]
) -> None:
    assignment = assignor.assign(members, partitions)
    assert set(assignment) == {member.member_id for member in members}
    wanted = {topic for member in members for topic in member.topics}
    dealt = [partition for owned in assignment.values() for partition in owned]
    assert sorted(dealt) == sorted((t, p) for t, count in partitions.items() if t in wanted for p in range(count))
    for member in members:
        assert {partition.topic for partition in assignment[member.member_id]} <= set(member.topics)
