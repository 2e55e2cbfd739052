"""An archive by Spark beside one by a single process, and cold rows in Spark beside its own reader of the same files.

    python -m benchmarks.archive_spark [--rows 2000000] [--runs 3]

Goals: on two cores Spark's archive is at least as fast as the single process, and cold rows are at least as fast as
Spark's own Parquet reader. Wall times, in turn: the machine must be quiet. Each way has a run before that is not
measured.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from odradek.client import NewTopic
from odradek.client.archive import Archive
from odradek.client.archive.places import catalog_of
from odradek.client.archive.run import ArchiveOptions, Archiver
from odradek.client.arrow.read_options import read_options
from odradek.client.blocking import Admin, Producer
from odradek.client.spark import archive, table
from pyspark.sql import SparkSession

from .brokers import Odradek

_PARTITIONS = 4
_VALUE_BYTES = 110


def run() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    spark = builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    spark = spark.config("spark.ui.showConsoleProgress", "false").config("spark.log.level", "ERROR").getOrCreate()
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as folder, Odradek(Path(folder) / "broker") as broker:
        _measure(spark, broker.address, str(Path(folder) / "archive"), given.rows, given.runs)
    spark.stop()


def _measure(spark: SparkSession, address: str, place: str, rows: int, runs: int) -> None:
    _produce(address, rows)
    options: dict[str, Any] = {"kafka.bootstrap.servers": address}
    reading, catalog = read_options(options, "archives"), catalog_of(place, create=True)

    def alone(number: int) -> None:
        done = Archiver(catalog, "bulk", reading, ArchiveOptions(table=("odradek", f"alone_{number}"))).round()
        assert done.rows == rows

    def by_spark(number: int) -> None:
        done = archive(spark, "bulk", Archive(place, table=f"odradek.spark_{number}"), **options)
        assert done.rows == rows

    one, other = _medians(runs, alone, by_spark)
    print(f"archive: {rows / one / 1e6:.2f} million rows/s alone, {rows / other / 1e6:.2f} by Spark on two cores")
    held = Archive(place, table="odradek.spark_0")
    paths = [each.file.file_path for each in catalog.load_table(("odradek", "spark_0")).scan().plan_files()]
    cold = partial(table, spark, "bulk", held, archive_only=True)
    own = partial(spark.read.parquet, *paths)
    one, other = _medians(runs, lambda _: _read(own()), lambda _: _read(cold()))
    print(f"cold rows: {rows / one / 1e6:.2f} million/s by Spark's own reader, {rows / other / 1e6:.2f} as a table")


def _read(frame: Any) -> None:
    """Read the columns that both have."""
    frame = frame.select("key", "value", "partition", "offset", "timestamp")
    frame.write.format("noop").mode("overwrite").save()


def _produce(address: str, rows: int) -> None:
    with Admin(address) as admin, Producer(address) as producer:
        admin.create_topics(NewTopic("bulk", _PARTITIONS))
        for partition in range(_PARTITIONS):
            values = ((b"%08d" % each, b'{"flight": %d}' % (each * 7) + b"." * _VALUE_BYTES)
                      for each in range(partition, rows, _PARTITIONS))  # fmt: skip
            producer.send_many("bulk", values, partition=partition)


def _medians(runs: int, *ways: Callable[[int], None]) -> list[float]:
    """Return the median time of each way, in turn."""
    times: list[list[float]] = [[] for _ in ways]
    for number in range(runs + 1):
        for each, held in zip(ways, times, strict=True):
            began = time.perf_counter()
            each(number)
            held.append(time.perf_counter() - began)
    return [statistics.median(each[1:]) for each in times]


if __name__ == "__main__":
    run()
