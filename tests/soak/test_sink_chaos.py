"""Spark copies a topic exactly once while its driver, its workers and the broker are killed, 20 seeds; planted bugs."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the sink needs pyspark (extra `spark`)")

from odradek.tests.support.clients.java import require_spark_java
from odradek.tests.support.spark.sink_chaos import Chaos, Fault, faults_of


@pytest.mark.parametrize("seed", range(20))
def test_a_topic_is_copied_exactly_once_whatever_is_killed(tmp_path: Path, seed: int) -> None:
    require_spark_java()
    Chaos(tmp_path, faults_of(seed)).run()


@pytest.mark.parametrize("bug", ["skip-the-fence", "commit-twice", "write-again"])
def test_a_bug_that_is_planted_into_the_sink_is_found(tmp_path: Path, bug: str) -> None:
    require_spark_java()
    # With this fault alone a correct sink passes: see the seeds.
    chaos = Chaos(tmp_path, [Fault(1, "committed", "driver")], bug)
    with pytest.raises(AssertionError, match=r"where batch .* ends at"):
        chaos.run()
