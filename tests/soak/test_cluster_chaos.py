"""Three brokers and a ZooKeeper under load, killed and paused by 50 seeds."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support.cluster import cluster_processes
from odradek.tests.support.cluster_chaos import Chaos
from odradek.tests.support.zookeeper import why_missing

FAULTS = 5


@pytest.mark.skipif(bool(why_missing()), reason=why_missing())
@pytest.mark.parametrize("seed", range(100, 150))
def test_no_acknowledged_record_is_lost_or_doubled(tmp_path: Path, seed: int) -> None:
    with cluster_processes(tmp_path) as cluster:
        Chaos(cluster, seed).run(FAULTS)
