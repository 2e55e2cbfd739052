"""docs/assignors.md: its code runs, and its own assignor does what the text says of one."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given, settings
from odradek.client import Assignor, Consumer
from odradek.client.assignors.assignor import RackAssignor
from odradek.tests.client.assignors.groups import Group, drawn_groups, is_complete

TEXT = (Path(__file__).parents[3] / "docs" / "assignors.md").read_text()


def run_the_code() -> dict[str, object]:
    """What all code of the page has defined, run in order."""
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        exec(block, names)
    return names


NAMES = run_the_code()


@given(drawn_groups(members=5, topics=4, partitions=20))
@settings(max_examples=30)
def test_the_random_assignor_gives_every_partition_to_a_subscriber(group: Group) -> None:
    random_assignor = NAMES["RandomAssignor"]
    assert isinstance(random_assignor, type)
    assert issubclass(random_assignor, Assignor)
    subscribed = {topic for member in group.members for topic in member.topics}
    partitions = {topic: count for topic, count in group.partitions.items() if topic in subscribed}
    assignment = random_assignor().assign_with_racks(group.members, partitions, {})
    assert is_complete(group, assignment)


def test_a_consumer_takes_it() -> None:
    assert isinstance(NAMES["consumer"], Consumer)
    assert len(re.findall(r"partition_assignment_strategy=\[RandomAssignor\]", TEXT)) == 1


def test_every_strategy_of_the_client_is_in_the_table() -> None:
    rows = dict(re.findall(r"^\| `([a-z-]+)`[^|]*\| `(\w+)`", TEXT, re.MULTILINE))
    own = [cls for cls in (*Assignor.__subclasses__(), *RackAssignor.__subclasses__()) if cls is not RackAssignor]
    strategies = {cls.name: cls.__name__ for cls in own if cls.__module__.startswith("odradek.")}
    assert rows == strategies
