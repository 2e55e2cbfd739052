"""Groups to share partitions out in: drawn by Hypothesis, or kept with what Kafka's own assignors made of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st
from odradek.client.assignors import Member
from odradek.client.assignors.sticky import Claim, encode_generation, encode_sticky, owners
from odradek.client.record import TopicPartition

GOLDEN = Path(__file__).parents[1] / "golden" / "assignments_with_history.jsonl"
RACKS = "abc"
Assignment = Mapping[str, Sequence[TopicPartition]]


class Cost(NamedTuple):
    """What sticky assignments are compared by, in this order: the less, the better."""

    unevenness: int  # sum of squared loads
    far: int  # partitions read from another rack
    moved: int  # partitions that had an owner and now have another


@dataclass(frozen=True)
class Group:
    """The input of an assignor. Members have in `owned` what they had, since `generation_id`."""

    members: tuple[Member, ...]
    partitions: dict[str, int]
    racks: dict[str, list[frozenset[str]]]

    @property
    def wanted(self) -> list[TopicPartition]:
        topics = {topic for member in self.members for topic in member.topics}
        return [TopicPartition(t, p) for t, count in self.partitions.items() if t in topics for p in range(count)]

    @property
    def owners(self) -> dict[TopicPartition, str]:
        return owners({member.member_id: Claim(member.owned, member.generation_id) for member in self.members})

    @property
    def racks_matter(self) -> bool:
        """By KIP-881: somebody is near something, and not everything is everywhere."""
        wanted = {self.racks[topic][number] for topic, number in self.wanted} if self.racks else set()
        everywhere = frozenset[str]().union(*wanted)
        return any(member.rack_id in everywhere for member in self.members) and wanted != {everywhere}

    def eager(self) -> tuple[Member, ...]:
        """The members as the eager `sticky` sees them: their history in the user data, nothing owned."""
        return tuple(
            replace(member, owned=(), generation_id=-1, user_data=encode_sticky(member.owned, member.generation_id))
            for member in self.members
        )

    def with_owned(self, assignment: Assignment, generation_id: int) -> Group:
        """This group after it was given that."""
        members = tuple(
            replace(
                member,
                owned=tuple(assignment.get(member.member_id, ())),
                generation_id=generation_id,
                user_data=encode_generation(generation_id),
            )
            for member in self.members
        )
        return Group(members, self.partitions, self.racks)

    def cost(self, assignment: Assignment) -> Cost:
        had, at = self.owners, {member.member_id: member.rack_id for member in self.members}
        given = [(partition, member) for member, hand in assignment.items() for partition in hand]
        return Cost(
            sum(len(hand) ** 2 for hand in assignment.values()),
            sum(self.racks_matter and at[m] is not None and at[m] not in self.racks[p.topic][p[1]] for p, m in given),
            sum(had.get(partition, member) != member for partition, member in given),
        )

    def least_cost(self) -> Cost:
        """By trying every assignment."""
        readers = [[m.member_id for m in self.members if partition.topic in m.topics] for partition in self.wanted]
        return min(
            self.cost(
                {
                    m.member_id: [p for p, owner in zip(self.wanted, choice, strict=True) if owner == m.member_id]
                    for m in self.members
                }
            )
            for choice in product(*readers)
        )


def is_complete(group: Group, assignment: Assignment) -> bool:
    """Whether every wanted partition has one owner, who wants it, and every member is named."""
    topics = {member.member_id: member.topics for member in group.members}
    return (
        topics.keys() == assignment.keys()
        and sorted(p for hand in assignment.values() for p in hand) == sorted(group.wanted)
        and all(partition.topic in topics[member] for member, hand in assignment.items() for partition in hand)
    )


@st.composite
def drawn_groups(
    draw: st.DrawFn, *, members: int, topics: int, partitions: int, equal: bool | None = None, racks: bool = False
) -> Group:
    """Groups of up to so many members, topics and partitions in all, with histories that may contradict themselves."""
    names = [f"t{number}" for number in range(draw(st.integers(1, topics)))]
    sizes = draw(st.lists(st.integers(0, partitions // len(names)), min_size=len(names), max_size=len(names)))
    counts = dict(zip(names, sizes, strict=True))
    where = st.frozensets(st.sampled_from(RACKS), min_size=1, max_size=2)
    told = {t: draw(st.lists(where, min_size=n, max_size=n)) for t, n in counts.items()} if racks else {}
    alike = draw(st.booleans()) if equal is None else equal
    everything = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
    made: list[Member] = []
    for number in range(draw(st.integers(1, members))):
        subscribed = names if alike else draw(st.lists(st.sampled_from(names), unique=True))
        owned = draw(st.lists(st.sampled_from(everything), unique=True)) if everything else []
        rack = draw(st.sampled_from([None, *RACKS])) if racks else None
        generation_id = draw(st.sampled_from([4, 5]))
        made.append(_member(f"m{number}", subscribed, owned, generation_id, rack))
    return Group(tuple(made), counts, told)


class Case(NamedTuple):
    """A group, and what Kafka's assignors made of it, by their names."""

    group: Group
    results: dict[str, dict[str, list[TopicPartition]]]


class KafkasUserData(NamedTuple):
    """What a member of Kafka's sticky assignors tells, by their names."""

    previous: tuple[TopicPartition, ...]
    generation_id: int
    by_name: dict[str, bytes]


@cache
def kafkas_cases() -> list[Case]:
    return [_case(line) for line in _lines() if "members" in line]


@cache
def kafkas_user_data() -> list[KafkasUserData]:
    names = ("sticky", "cooperative-sticky")
    return [
        KafkasUserData(
            _partitions(line["previous"]), line["generation"], {name: bytes.fromhex(line[name]) for name in names}
        )
        for line in _lines()
        if "previous" in line
    ]


def _lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in GOLDEN.read_text().splitlines()]


def _case(line: dict[str, Any]) -> Case:
    members = tuple(
        replace(
            _member(m["id"], m["topics"], _partitions(m["owned"]), m["generation"], m.get("rack")),
            group_instance_id=m.get("instance"),
        )
        for m in line["members"]
    )
    racks = {topic: [frozenset(each) for each in told] for topic, told in line.get("racks", {}).items()}
    results = {
        name: {member: sorted(_partitions(hand)) for member, hand in line[name].items()}
        for name in ("range", "roundrobin", "sticky", "cooperative-sticky")
    }
    return Case(Group(members, line["partitions"], racks), results)


def _partitions(pairs: Iterable[tuple[str, int]]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, number) for topic, number in pairs)


def _member(
    member_id: str, topics: Iterable[str], owned: Iterable[TopicPartition], generation_id: int, rack: str | None
) -> Member:
    return Member(
        member_id,
        tuple(topics),
        owned=tuple(owned),
        user_data=encode_generation(generation_id),
        generation_id=generation_id,
        rack_id=rack,
    )
