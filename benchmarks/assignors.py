"""Measure assignors with 1,000 members and 10,000 partitions: seconds, loads of members, and moved partitions.

    python -m benchmarks.assignors
    python -m benchmarks.assignors --members 200 --partitions 4000 --rounds 1

Each group is assigned by range and round-robin, then by sticky: with no history, again without a change, after a
twentieth of the members left, after as many joined, and with a random history. Seconds are the best of the rounds.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from odradek.client.assignors import Assignor, Member, Racks, RangeAssignor, RoundRobinAssignor, StickyAssignor
from odradek.client.record import TopicPartition

ZONES = "abc"
STICKY = StickyAssignor()
Assignment = dict[str, list[TopicPartition]]


@dataclass(frozen=True)
class Shape:
    """A kind of group: so many topics, and each member subscribes `subscribed` of them (0: all)."""

    name: str
    topics: int
    subscribed: int = 0
    racks: bool = False


@dataclass(frozen=True)
class Group:
    members: list[Member]
    partitions: dict[str, int]
    racks: Racks


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    count = arguments.partitions
    shapes = [
        Shape("1 topic", 1),
        Shape("100 topics", 100),
        Shape(f"{count} topics", count),
        Shape("100 topics, in racks", 100, racks=True),
        Shape(f"{count // 10} topics, 20 a member", count // 10, 20),
        Shape(f"{count // 10} topics, 100 a member", count // 10, 100),
        Shape(f"{count // 10} topics, 100 a member, in racks", count // 10, 100, racks=True),
    ]
    print(f"{arguments.members} members, {count} partitions")
    for shape in shapes:
        print(f"\n{shape.name}\n{'':28}{'seconds':>10}{'loads':>12}{'moved':>8}")
        measure(draw(shape, arguments.members, count), arguments.rounds)


def measure(group: Group, rounds: int) -> None:
    twentieth = max(1, len(group.members) // 20)
    print_line("range", RangeAssignor(), group, rounds)
    print_line("roundrobin", RoundRobinAssignor(), group, rounds)
    assignment = print_line("sticky, first time", STICKY, group, rounds)
    settled = [with_history(member, assignment[member.member_id]) for member in group.members]
    newcomers = [replace(each, member_id=f"new {each.member_id}") for each in group.members[:twentieth]]
    print_line("sticky, nothing changed", STICKY, replace(group, members=settled), rounds)
    print_line("sticky, 5 % left", STICKY, replace(group, members=settled[twentieth:]), rounds)
    print_line("sticky, 5 % joined", STICKY, replace(group, members=settled + newcomers), rounds)
    print_line("sticky, disordered", STICKY, replace(group, members=disordered(group)), rounds)


def print_line(name: str, assignor: Assignor, group: Group, rounds: int) -> Assignment:
    seconds, assignment = float("inf"), Assignment()
    for _ in range(rounds):
        start = time.perf_counter()
        assignment = assignor.assign_with_racks(group.members, group.partitions, group.racks)
        seconds = min(seconds, time.perf_counter() - start)
    loads = [len(hand) for hand in assignment.values()]
    # Histories are without contradictions here; owned is the same as the user data says.
    had = {partition: member.member_id for member in group.members for partition in member.owned}
    moved = sum(had.get(partition, owner) != owner for owner, hand in assignment.items() for partition in hand)
    print(f"  {name:26}{seconds:10.3f}{f'{min(loads)}..{max(loads)}':>12}{moved:8}")
    return assignment


def draw(shape: Shape, members: int, partitions: int) -> Group:
    source = random.Random(shape.name)
    names = [f"topic-{number}" for number in range(shape.topics)]
    counts = dict.fromkeys(names, max(1, partitions // shape.topics))
    racks: dict[str, list[frozenset[str]]] = {}
    if shape.racks:
        racks = {name: [frozenset(source.sample(ZONES, 2)) for _ in range(count)] for name, count in counts.items()}
    drawn = [
        Member(
            f"member-{number}",
            tuple(source.sample(names, shape.subscribed) if shape.subscribed else names),
            rack_id=source.choice(ZONES) if shape.racks else None,
        )
        for number in range(members)
    ]
    return Group(drawn, counts, racks)


def disordered(group: Group) -> list[Member]:
    """Return the members with a history in which each partition went to a random subscriber."""
    source = random.Random(1)
    readers: dict[str, list[str]] = {}
    for member in group.members:
        for topic in member.topics:
            readers.setdefault(topic, []).append(member.member_id)
    hands: dict[str, list[TopicPartition]] = {}
    for topic, who in readers.items():
        for number in range(group.partitions[topic]):
            hands.setdefault(source.choice(who), []).append(TopicPartition(topic, number))
    return [with_history(member, hands.get(member.member_id, [])) for member in group.members]


def with_history(member: Member, hand: Sequence[TopicPartition]) -> Member:
    """Return the member after it got that assignment."""
    return replace(member, owned=tuple(hand), user_data=STICKY.user_data(member.topics, hand, 1))


if __name__ == "__main__":
    main()
