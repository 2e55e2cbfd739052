"""Spark's Declarative Pipelines, by `spark-pipelines run`: our source, both sinks, and each row once over two runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the Spark source needs pyspark (extra `spark`)")
pytest.importorskip("grpc_status", reason="pip install 'pyspark[pipelines]'")

from odradek import pipelines
from odradek.client.archive.places import catalog_of
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record
from odradek.tests.support.clients.exactly_once import read_committed
from odradek.tests.support.clients.java import require_spark_java
from odradek.tests.support.documents.command import threaded_broker
from odradek.tests.support.spark.spark_jvm import home, java_options
from odradek.tests.support.spark.spark_topics import Topics

ROOT = Path(pipelines.__file__).parent


def project(folder: Path, address: str) -> Path:
    """The pipeline of the repository, for this broker and below this folder."""
    spec = (ROOT / "spark-pipeline.yml").read_text()
    for what, other in (("/tmp/", f"{folder}/"), ("127.0.0.1:9092", address)):
        assert what in spec
        spec = spec.replace(what, other)
    (folder / "spark-pipeline.yml").write_text(spec)
    (folder / "declared.py").write_text((ROOT / "declared.py").read_text())
    return folder / "spark-pipeline.yml"


def run(spec: Path) -> str:
    """Run the pipeline, and return what it has said."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    env = {**os.environ, "SPARK_HOME": str(home()), "PYSPARK_PYTHON": sys.executable, "PATH": path,
           "SPARK_LOCAL_IP": "127.0.0.1"}  # fmt: skip
    configs = (f"spark.driver.extraJavaOptions={java_options()}", "spark.ui.enabled=false",
               "spark.sql.catalogImplementation=hive")  # fmt: skip
    command = [home() / "bin" / "spark-pipelines", *(part for each in configs for part in ("--conf", each)), "run"]
    done = subprocess.run(
        [*command, "--spec", spec], env=env, cwd=spec.parent, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_pipeline_reads_a_topic_and_writes_a_topic_and_an_archive(tmp_path: Path) -> None:
    require_spark_java()
    (tmp_path / "data").mkdir()
    with threaded_broker(tmp_path / "data") as broker:
        topics = Topics(broker.address, 1_000)
        for name, partitions in (("flights", 2), ("late", 1)):
            topics.create(name, partitions, retention_ms="-1")
        spec = project(tmp_path, broker.address)
        for first in (0, 20):
            for number in range(2):
                flown = [{"carrier": "AA", "flight": each, "dep_delay": 10 * each} for each in range(first, first + 10)]
                records = [Record(-1, 1_000, None, json.dumps(each).encode()) for each in flown]
                topics.produce("flights", number, encode_batch(records))
            said = run(spec)
            assert "has no effect" not in said
            assert said.count("has COMPLETED") == 4
        late = sorted(json.loads(value)["flight"] for _, value in read_committed(broker.address, "late", 0))
        assert late == [each for each in (*range(6, 10), *range(20, 30)) for _ in range(2)]
    catalog = catalog_of(str(tmp_path / "flights-archive"))
    rows = catalog.load_table("air.flights").scan().to_arrow().to_pylist()
    catalog.close()
    assert sorted((row["partition"], row["offset"]) for row in rows) == [
        (p, each) for p in (0, 1) for each in range(20)
    ]
    assert sum(row["dep_delay"] for row in rows) == 2 * 10 * sum((*range(10), *range(20, 30)))
