"""Three brokers and a ZooKeeper under load, killed and paused by seed: no acknowledged record is lost or doubled."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support.cluster import cluster_processes
from odradek.tests.support.cluster_chaos import PARTITIONS, Chaos, History, check, check_replicas
from odradek.tests.support.zookeeper import why_missing

FAULTS = 2


@pytest.mark.skipif(bool(why_missing()), reason=why_missing())
@pytest.mark.parametrize("seed", [1, 2])
def test_no_acknowledged_record_is_lost_or_doubled(tmp_path: Path, seed: int) -> None:
    with cluster_processes(tmp_path) as cluster:
        Chaos(cluster, seed).run(FAULTS)


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


def test_the_checker_finds_replicas_that_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.tests.support.cluster_chaos.WAIT_S", 0.0)
    for name, content in (("a", b"1"), ("b", b"2")):
        (tmp_path / name / "chaos-0").mkdir(parents=True)
        (tmp_path / name / "chaos-0" / "0.log").write_bytes(content)
    with pytest.raises(AssertionError, match="the replicas of partition 0 differ"):
        check_replicas([tmp_path / "a", tmp_path / "b"])
