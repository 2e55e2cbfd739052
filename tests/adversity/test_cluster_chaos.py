"""Three brokers and a ZooKeeper under load, whose processes fail by seed: what was promised holds."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
from odradek.tests.support.clusters.cluster import cluster_processes
from odradek.tests.support.clusters.cluster_chaos import (
    PARTITIONS,
    Chaos,
    History,
    check,
    check_replicas,
    check_watchers,
)
from odradek.tests.support.clusters.cluster_loads import check_transactions
from odradek.tests.support.clusters.zookeeper import why_missing
from odradek.tests.support.seeds import seeds

FAULTS = [
    ("kill", "leader"),
    ("kill", "coordinator"),
    ("kill", "zookeeper"),
    ("pause", "controller"),
    ("pause", "zookeeper"),
]
EVERYTHING = [*product(("kill", "stop", "pause"), ("leader", "follower", "controller", "coordinator", "zookeeper"))]


@pytest.mark.skipif(bool(why_missing()), reason=why_missing())
@pytest.mark.parametrize("seed", seeds([0], range(20)))
def test_records_transactions_and_groups_outlive_faults(tmp_path: Path, seed: int) -> None:
    """All go over one cluster and one load: its start and the reading at the end take longer than a fault."""
    with cluster_processes(tmp_path) as cluster:
        Chaos(cluster, seed).run(random.Random(seed).sample(EVERYTHING, 5) if seed else FAULTS)


def history() -> History:
    """Three acknowledged records in partition 0, and none in the others."""
    made = History()
    made.acknowledged[0] = {0: 0, 1: 1, 2: 2}
    return made


GOOD = [(0, 0), (1, 1), (2, 2)]


def test_the_checker_accepts_a_whole_history() -> None:
    check(history(), [GOOD, *([] for _ in range(PARTITIONS - 1))])


@pytest.mark.parametrize(
    ("records", "why"),
    [
        (GOOD[:2], "has lost the acknowledged records"),
        ([*GOOD, (3, 2)], "has records twice"),
        ([(0, 1), (1, 0), (2, 2)], "is out of order"),
        ([(0, 0), (1, 1), (3, 2)], "at other offsets"),
    ],
)
def test_the_checker_finds_what_is_wrong(records: list[tuple[int, int]], why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        check(history(), [records, *([] for _ in range(PARTITIONS - 1))])


def test_the_checker_finds_transactions_that_are_not_whole() -> None:
    outcomes: dict[int, bool | None] = {1: True, 2: False, 3: None}
    check_transactions(outcomes, [[1, 3], [1, 3]])
    for wrong, why in (
        ([[1], [1, 3]], "in some partitions only"),
        ([[], []], "was True to its producer"),
        ([[1, 2], [1, 2]], "was False to its producer"),
        ([[1, 1], [1]], "twice"),
    ):
        with pytest.raises(AssertionError, match=why):
            check_transactions(outcomes, wrong)


def test_the_checker_finds_members_and_offsets_that_are_lost() -> None:
    member = SimpleNamespace(failures=[], assignments=[[0, 1]], committed={0: 5})
    check_watchers([member], lambda: {0: 5})  # type: ignore[list-item]

    def go_on() -> dict[int, int]:
        member.committed[0] = 6
        return {0: 5}

    check_watchers([member], go_on)  # type: ignore[list-item]
    with pytest.raises(AssertionError, match="committed offsets went back"):
        check_watchers([member], lambda: {0: 5})  # type: ignore[list-item]
    member.assignments.append([0])
    with pytest.raises(AssertionError, match="a stable member has lost partitions"):
        check_watchers([member], lambda: {0: 6})  # type: ignore[list-item]


def test_the_checker_finds_replicas_that_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.tests.support.clusters.cluster_chaos.WAIT_S", 0.0)
    for name, content in (("a", b"1"), ("b", b"2")):
        (tmp_path / name / "chaos-0").mkdir(parents=True)
        (tmp_path / name / "chaos-0" / "0.log").write_bytes(content)
    with pytest.raises(AssertionError, match="the replicas of partition 0 differ"):
        check_replicas([tmp_path / "a", tmp_path / "b"])
