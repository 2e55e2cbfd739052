"""Queries of Spark whose driver and workers die, by seed: after each restart the rows are the same, each once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the Spark source needs pyspark (extra `spark`)")

from odradek.tests.support.brokers.process import BrokerProcess, broker_process
from odradek.tests.support.clients.java import require_spark_java
from odradek.tests.support.spark.spark_kills import KilledQueries


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    require_spark_java()
    started = broker_process(tmp_path_factory.mktemp("broker"))
    try:
        yield started.start()
    finally:
        started.close()


# The driver is killed at each of the five steps, in each of the three queries.
@pytest.mark.parametrize("seed", range(20))
def test_queries_lose_and_repeat_nothing_whatever_dies(seed: int, broker: BrokerProcess, tmp_path: Path) -> None:
    killed = KilledQueries(broker.address, tmp_path / "queries", seed)
    killed.run()
    killed.check()
