"""kill -9 of brokers under groups, and under their dead letters, twenty rounds. A failure names its seed."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from odradek.tests.support.clusters import group_cluster_killing, share_cluster_killing
from odradek.tests.support.clusters.zookeeper import why_missing
from odradek.tests.support.histories import burial_killing
from odradek.tests.support.seeds import seeds


@pytest.mark.skipif(bool(why_missing()), reason=why_missing() or "ZooKeeper is here")
@pytest.mark.parametrize("kind", [group_cluster_killing, share_cluster_killing], ids=["consumer group", "share group"])
@pytest.mark.parametrize("seed", seeds(range(20)))
def test_a_group_loses_nothing(tmp_path: Path, seed: int, kind: ModuleType) -> None:
    kind.run(tmp_path, seed)


@pytest.mark.parametrize("seed", seeds(range(20)))
def test_each_step_of_a_dead_letter_may_be_the_last_one(tmp_path: Path, seed: int) -> None:
    burial_killing.run(tmp_path, seed)
