"""Spark in an environment that is not activated: its Python processes are those that PYSPARK_PYTHON names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from odradek.client.blocking import Producer
from odradek.tests.support.clients.java import require_spark_java
from odradek.tests.support.documents.command import threaded_broker
from odradek.tests.support.spark.spark_jvm import java_options

pytest.importorskip("pyspark", reason="the Spark source needs PySpark")

PROGRAM = """
import sys
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.extraJavaOptions", sys.argv[2]).getOrCreate()
frame = spark.read.format("odradek").option("kafka.bootstrap.servers", sys.argv[1]).option("subscribe", "flights")
print("rows", frame.load().count())
"""


def test_spark_finds_the_source_where_its_python_is_named_and_otherwise_says_that_it_does_not(tmp_path: Path) -> None:
    require_spark_java()
    (tmp_path / "bin").mkdir()
    # The system's Python, as the shell of a user has it who did not activate the environment.
    (tmp_path / "bin" / "python3").symlink_to(Path(sys.executable).resolve())
    (tmp_path / "program.py").write_text(PROGRAM)
    activated = {str(Path(sys.executable).parent), ""}
    path = [each for each in os.environ["PATH"].split(os.pathsep) if each not in activated]
    plain = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "VIRTUAL_"))
    }
    plain |= {"PATH": os.pathsep.join([str(tmp_path / "bin"), *path]), "SPARK_LOCAL_IP": "127.0.0.1"}
    with threaded_broker(tmp_path / "data") as broker:
        with Producer(broker.address) as producer:
            producer.send_and_wait("flights", b"UA 1545")
        command = [sys.executable, str(tmp_path / "program.py"), broker.address, java_options()]
        named, unnamed = (
            subprocess.Popen(
                command, cwd=tmp_path, env=plain | more, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for more in ({"PYSPARK_PYTHON": sys.executable}, {})
        )
        printed, said = named.communicate(timeout=120)
        assert (named.returncode, printed) == (0, "rows 1\n"), said[-2000:]
        _, said = unnamed.communicate(timeout=120)
    assert unnamed.returncode == 1 and "DATA_SOURCE_NOT_FOUND" in said
