"""kill -9 of brokers under a share group, twenty rounds alone and in a cluster. A failure names its seed."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support.clusters import share_cluster_killing
from odradek.tests.support.clusters.zookeeper import why_missing
from odradek.tests.support.histories import share_killing


@pytest.mark.parametrize("seed", range(200, 220))
def test_no_record_of_a_share_group_is_lost_by_kill_9(tmp_path: Path, seed: int) -> None:
    share_killing.run(tmp_path, seed)


@pytest.mark.skipif(bool(why_missing()), reason=why_missing() or "ZooKeeper is here")
@pytest.mark.parametrize("seed", range(20))
def test_nor_by_kill_9_of_its_leader_or_coordinator_in_a_cluster(tmp_path: Path, seed: int) -> None:
    share_cluster_killing.run(tmp_path, seed)
