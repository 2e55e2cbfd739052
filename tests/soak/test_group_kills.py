"""kill -9 of brokers of a cluster under a consumer group (KIP-848), twenty rounds. A failure names its seed."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support.clusters import group_cluster_killing
from odradek.tests.support.clusters.zookeeper import why_missing


@pytest.mark.skipif(bool(why_missing()), reason=why_missing() or "ZooKeeper is here")
@pytest.mark.parametrize("seed", range(20))
def test_no_commit_of_a_consumer_group_is_lost_by_kill_9_of_its_leader_or_coordinator(
    tmp_path: Path, seed: int
) -> None:
    group_cluster_killing.run(tmp_path, seed)
