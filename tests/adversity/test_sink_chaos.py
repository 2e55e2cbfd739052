"""Kills while Spark copies a topic exactly once, at steps of a batch."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the sink needs pyspark (extra `spark`)")

from odradek.tests.support.clients.java import require_spark_java
from odradek.tests.support.seeds import IS_SOAK
from odradek.tests.support.spark.sink_chaos import Chaos, Fault, faults_of

# Starts of a JVM are what this test costs, so it has one second driver. It plays a batch again that was committed, as
# after a kill of the first one, which lives on and must fail. `make soak` kills drivers too.
FAULTS = [
    Fault(0, "rows", "worker"),
    Fault(1, "written", "broker"),
    Fault(2, "half ended", "broker"),
    Fault(3, "committed", "rival"),
]


def test_a_topic_is_copied_exactly_once_whatever_is_killed(tmp_path: Path) -> None:
    require_spark_java()
    Chaos(tmp_path, FAULTS).run()


@pytest.mark.skipif(not IS_SOAK, reason="each seed starts many JVMs: make soak")
@pytest.mark.parametrize("seed", range(20))
def test_drivers_too(tmp_path: Path, seed: int) -> None:
    require_spark_java()
    Chaos(tmp_path, faults_of(seed)).run()
