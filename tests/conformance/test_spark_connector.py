"""Spark's own Kafka connector against our broker, and beside our source, on the same topics.

SPARK_KAFKA_PYTHON is a Python with PySpark 4.2.0 and what `odradek[spark]` needs; SPARK_KAFKA_JARS is a folder with the
four jars of `spark-sql-kafka-0-10_2.13` 4.2.0. tests/client/spark/test_source.py runs the same table for our source.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from odradek.tests.conformance import spark_beside
from odradek.tests.support.brokers.process import broker_process
from odradek.tests.support.clients.java import require_spark_java
from odradek.tests.support.spark.spark_cases import CASES
from odradek.tests.support.spark.spark_topics import fill

ROOT = Path(__file__).parents[2]
# Each of the 29 cases is a query or some, in a JVM that starts cold.
WITHIN_S = 1200


@cache
def settings() -> tuple[str, str]:
    """The Python and the jars; skips the test where they are not named."""
    python, folder = os.environ.get("SPARK_KAFKA_PYTHON"), os.environ.get("SPARK_KAFKA_JARS")
    if not python or not folder:
        pytest.skip("set SPARK_KAFKA_PYTHON (PySpark 4.2.0) and SPARK_KAFKA_JARS (the connector's jars)")
    require_spark_java()
    return python, ",".join(str(each) for each in sorted(Path(folder).glob("*.jar")))


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str | None]]:
    """What was wrong with each case, None where nothing was."""
    python, jars = settings()
    folder = tmp_path_factory.mktemp("spark")
    path = folder / "path"
    path.mkdir()
    (path / "odradek").symlink_to(ROOT)
    broker = broker_process(tmp_path_factory.mktemp("broker"))
    try:
        broker.start()
        topics = fill(broker.address)
        module = "odradek.tests.conformance.spark_beside"
        command = [python, "-m", module, topics.address, str(topics.first_ms), str(folder), f"spark.jars={jars}"]
        environment = os.environ | {"PYTHONPATH": str(path), "PYSPARK_PYTHON": python}
        with (folder / "errors").open("w") as errors:
            done = subprocess.run(
                command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True,
                timeout=WITHIN_S, check=False,
            )  # fmt: skip
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        assert lines and lines[-1] == {"ended": True}, (folder / "errors").read_text()[-3000:]
        yield {line["case"]: line["wrong"] for line in lines[:-1]}
    finally:
        broker.close()


@pytest.mark.parametrize("name", [each.name for each in (*CASES, *spark_beside.BESIDE)])
def test_sparks_own_connector(name: str, said: dict[str, str | None]) -> None:
    assert said[name] is None, said[name]
