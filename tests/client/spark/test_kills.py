"""Queries whose driver and Python workers die at any step of a batch: after a restart each row is there once."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the Spark source needs pyspark (extra `spark`)")

from odradek.tests.support.brokers.process import broker_process
from odradek.tests.support.clients.java import require_spark_java
from odradek.tests.support.seeds import seeds
from odradek.tests.support.spark.spark_kills import KilledQueries


# With 67 the driver dies while a task reads the first batch of the stream that begins at a time. Twenty kill it at each
# of the five steps, in each of the three queries.
@pytest.mark.parametrize("seed", seeds([67], range(20)))
def test_queries_lose_and_repeat_nothing_whatever_dies(tmp_path: Path, seed: int) -> None:
    require_spark_java()
    broker = broker_process(tmp_path)
    try:
        broker.start()
        killed = KilledQueries(broker.address, tmp_path / "queries", seed)
        killed.run()
        killed.check()
    finally:
        broker.close()
