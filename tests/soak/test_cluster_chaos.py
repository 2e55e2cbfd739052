"""Three brokers and a ZooKeeper under load, whose processes and wires fail by 50 seeds."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support.cluster import linked_processes
from odradek.tests.support.cluster_chaos import Chaos
from odradek.tests.support.zookeeper import why_missing

FAULTS = 5


@pytest.mark.skipif(bool(why_missing()), reason=why_missing())
@pytest.mark.parametrize("seed", range(100, 150))
def test_records_transactions_and_groups_outlive_faults(tmp_path: Path, seed: int) -> None:
    with linked_processes(tmp_path) as cluster:
        Chaos(cluster).run([seed], FAULTS)
