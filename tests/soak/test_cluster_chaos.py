"""Three brokers and a ZooKeeper under load, whose processes and wires fail by 50 seeds, or restart in turn."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from odradek.tests.support.clusters.cluster import linked_processes
from odradek.tests.support.clusters.cluster_chaos import Chaos
from odradek.tests.support.clusters.zookeeper import why_missing

FAULTS = 5


@pytest.mark.skipif(bool(why_missing()), reason=why_missing())
@pytest.mark.parametrize("seed", range(100, 150))
def test_records_transactions_and_groups_outlive_faults(tmp_path: Path, seed: int) -> None:
    # Half a second and more, ahead and behind; less than the time-out of a transaction.
    skews = random.Random(seed).choices((0, 500, 20_000, -500, -20_000), k=3)
    with linked_processes(tmp_path, skews_ms=dict(enumerate(skews, 1))) as cluster:
        Chaos(cluster).run([seed], FAULTS)


@pytest.mark.skipif(bool(why_missing()), reason=why_missing())
@pytest.mark.parametrize("how", ("stop", "kill"))
def test_commits_outlive_restarts_in_turn_where_clocks_differ(tmp_path: Path, how: str) -> None:
    with linked_processes(tmp_path, skews_ms={1: 500, 3: -500}) as cluster:
        Chaos(cluster).roll(how, rounds=3)
