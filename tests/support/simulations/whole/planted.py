"""Planted faults: known mistakes taken back into today's code, which the simulation must find.

Each is a change of a function's text. Where the text is there no more, the plant says so: it must be planted anew.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from odradek.broker.cluster.member import Member
from odradek.broker.coordination.transactions import markers
from odradek.broker.replication.leadership import Leadership
from odradek.broker.topics.partition import Partition
from odradek.broker.topics.partition_state import PartitionState
from odradek.storage.producers import ProducerStates

from .run import Result, run


@dataclass(frozen=True)
class Change:
    """A text in a function of a class or module, and what stands there instead."""

    owner: Any
    name: str
    old: str
    new: str


@dataclass(frozen=True)
class Plant:
    """A known mistake, and the number of brokers that it needs."""

    what: str
    nodes: int
    changes: tuple[Change, ...]


PLANTS = (
    Plant(
        "the clocks of two brokers decide whether a found commit is an abort",
        3,
        (
            Change(markers.MarkerWriter, "_end", "end.is_found and partition.replication is None", "end.is_found"),
            Change(markers, "_end_of_lost", "last_marker_ms == end", "last_marker_ms >= end"),
        ),
    ),
    Plant(
        "a marker for a partition that another broker leads is lost",
        3,
        (Change(markers.MarkerWriter, "write", "return self._write_remotely(topic_name, index, end)", "return None"),),
    ),
    Plant(
        "a follower that lost records or its directory stays in the ISR",
        3,
        (Change(Member, "leave_isrs", "in replicas.with_losses()", "in ()"),),
    ),
    Plant(
        "the high watermark does not wait for the followers",
        3,
        (Change(Leadership, "_advance", "min(ends)", "max(ends)"),),
    ),
    Plant(
        "a batch is acknowledged before it is forced to disk",
        1,
        (Change(Partition, "_write", "must_flush = end_offset", "must_flush = False and end_offset"),),
    ),
    Plant(
        "read_committed readers see open transactions",
        1,
        (Change(PartitionState, "end_for", "return self.last_stable_offset", "return self.high_watermark"),),
    ),
    Plant(
        "a batch that a producer sends again is appended again",
        1,
        (Change(ProducerStates, "check", "return duplicate\n", "return None\n"),),
    ),
)


@contextmanager
def planted(plant: Plant) -> Iterator[None]:
    """Have the mistake in the code meanwhile."""
    with ExitStack() as undoing:
        for change in plant.changes:
            before = getattr(change.owner, change.name)
            text = textwrap.dedent(inspect.getsource(before))
            assert change.old in text, f"{change.name} has changed: plant {plant.what!r} anew"
            text = "from __future__ import annotations\n" + text.replace(change.old, change.new)
            names: dict[str, Any] = {}
            exec(compile(text, inspect.getfile(before), "exec"), before.__globals__, names)
            setattr(change.owner, change.name, names[change.name])
            undoing.callback(setattr, change.owner, change.name, before)
        yield


def find(plant: Plant, most_seeds: int) -> tuple[int, Result] | None:
    """Return how many seeds it takes to find a mistake, and the failure; None: not found."""
    with planted(plant):
        for seed in range(most_seeds):
            result = run(seed, plant.nodes)
            if result.violations:
                return seed + 1, result
    return None
