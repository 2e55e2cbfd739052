"""Queries whose driver and Python workers die at any step of a batch: after a restart each row is there once."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the Spark source needs pyspark (extra `spark`)")

from odradek.tests.support.brokers.process import broker_process
from odradek.tests.support.clients.java import require_spark_java
from odradek.tests.support.spark.spark_kills import KilledQueries

# The driver dies while a task reads the first batch of the stream that begins at a time. tests/soak has more seeds.
SEED = 67


def test_queries_lose_and_repeat_nothing_whatever_dies(tmp_path: Path) -> None:
    require_spark_java()
    broker = broker_process(tmp_path)
    try:
        broker.start()
        killed = KilledQueries(broker.address, tmp_path / "queries", SEED)
        killed.run()
        killed.check()
    finally:
        broker.close()
