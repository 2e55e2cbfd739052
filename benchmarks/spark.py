"""Compare the Spark source and sink with Spark's own Kafka connector, on one broker of ours and the same topics.

    python -m benchmarks.spark [--rows 1000000] [--value-bytes 100 1000] [--runs 3]      (make bench-spark)

SPARK_KAFKA_PYTHON names a Python with PySpark 4.2.0 and what `odradek[spark]` needs, SPARK_KAFKA_JARS the folder with
the connector's jars; without them only our source is measured. The connector is tuned (TUNED). Each contender has a
session of its own, in turn: a warm run of each query, then the median of `--runs`. Reads write to `noop`, which takes
every row; "direct" reads the broker's files, which only ours can. The sinks write rows that Spark makes, with a key of
8 bytes; ours is exactly once, the connector's is not. The "floor" is what Spark itself costs with a Python source that
has its rows ready, and with a Python sink that drops them (spark_floor.py). Printed are rows a second, the CPU seconds
of Python and of the JVM per million rows, which other work on the machine moves least, and the most memory that a
Python worker had so far. Then comes what a batch of a stream costs beside that of an empty Python source
(spark_triggers.py), and when a fresh worker has its first rows (spark_worker.py).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from odradek.benchmarks import spark_floor, spark_topics, spark_triggers, spark_worker
from odradek.benchmarks.brokers import Odradek
from odradek.client import NewTopic
from odradek.client.blocking import Admin

ROOT = Path(__file__).parent.parent
# What makes Spark's own connector fastest.
TUNED = {
    "kafka.receive.buffer.bytes": "1048576",
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": "4194304",
}
# The same for both sinks: larger batches are faster in both.
TUNED_SINK = {"kafka.batch.size": "524288", "kafka.linger.ms": "5", "kafka.compression.type": "lz4"}
LARGE_FETCHES = {"kafka.fetch.max.bytes": "50000000", "kafka.max.partition.fetch.bytes": "50000000"}
JSON_DDL = "id BIGINT, name STRING, at DOUBLE"
# A slice of 1 % of the offsets.
SLICE = 100
SINK_TOPIC = "written"
CONTENDERS = ("odradek", "odradek, Unix sockets", "kafka, tuned")


def main() -> None:
    """See the module's text."""
    arguments = parse_arguments()
    if arguments.contender is not None:
        measure(arguments)
        return
    python, jars = os.environ.get("SPARK_KAFKA_PYTHON", sys.executable), os.environ.get("SPARK_KAFKA_JARS")
    contenders = CONTENDERS if jars else CONTENDERS[:2]
    if not jars:
        print("SPARK_KAFKA_JARS is not set: only our source is measured")
    with tempfile.TemporaryDirectory(prefix="odradek-spark-") as folder, Odradek(Path(folder)) as broker:
        for size in arguments.value_bytes:
            for shape in topics(arguments, size):
                filled = argparse.Namespace(**vars(shape), bootstrap=broker.address)
                asyncio.run(spark_topics.fill(filled))
            for contender in contenders:
                with sink_topic(broker.address, arguments.partitions):
                    run_contender(python, jars, broker.address, contender, size, arguments)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--value-bytes", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--memory", default="2g", help="of the driver")
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", help=argparse.SUPPRESS)
    parser.add_argument("--jars", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def topic_shape(arguments: argparse.Namespace, size: int, **other: Any) -> argparse.Namespace:
    """Return the arguments of spark_topics.py that describe a topic."""
    usual = {"rows": arguments.rows, "batch_rows": 1000, "codec": "none", "json": False, "option": []}
    return argparse.Namespace(**(usual | {"value_bytes": size, "partitions": arguments.partitions} | other))


def topics(arguments: argparse.Namespace, size: int) -> list[argparse.Namespace]:
    """Return the topics that are read: plain, JSON, zstd, and a small one with a record for each batch of a stream."""
    small = {"rows": spark_triggers.BATCHES * arguments.partitions, "batch_rows": 1}
    others: list[dict[str, Any]] = [{"json": True}, {"codec": "zstd"}, small]
    return [topic_shape(arguments, size, **each) for each in ({}, *others)]


@contextmanager
def sink_topic(address: str, partitions: int) -> Iterator[None]:
    """Create the topic that a sink writes to, and delete it."""
    with Admin(address) as admin:
        admin.create_topics([NewTopic(SINK_TOPIC, num_partitions=partitions)])
        try:
            yield
        finally:
            admin.delete_topics(SINK_TOPIC)


def run_contender(
    python: str, jars: str | None, address: str, contender: str, size: int, arguments: argparse.Namespace
) -> None:
    with tempfile.TemporaryDirectory(prefix="odradek-path-") as path:
        Path(path, "odradek").symlink_to(ROOT)
        command = [python, "-m", "odradek.benchmarks.spark", "--contender", contender, "--bootstrap", address]
        command += ["--value-bytes", str(size), "--jars", jars or ""]
        for name in ("rows", "partitions", "runs", "memory"):
            command += [f"--{name}", str(getattr(arguments, name))]
        environment = os.environ | {"PYTHONPATH": path, "PYSPARK_PYTHON": python}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{contender}: {done.stderr[-2000:]}")
    for line in done.stdout.splitlines():
        if line.startswith("["):
            query, said = json.loads(line)
            print(f"{contender:22} {size:5} B  {query:13} {said}", flush=True)


# -- In the contender's own Python


def measure(arguments: argparse.Namespace) -> None:
    """Print a line of JSON for each figure of a contender: its name, and what is to be said of it."""
    spark = session(arguments)
    rows = arguments.rows // arguments.partitions * arguments.partitions
    for query, count, frame in queries(spark, arguments, rows):
        tell(query, timed(reading(frame), count, arguments.runs))
    name = "odradek" if arguments.contender.startswith("odradek") else "kafka"
    tell("sink", timed(writing(spark, arguments, rows, name), rows, arguments.runs))
    if name == "odradek":
        for query, schema in (("floor, all", spark_floor.ALL_COLUMNS), ("floor, value", "value binary")):
            frame = floor(spark, arguments, schema)
            tell(query, timed(reading(lambda: frame), rows, arguments.runs))  # noqa: B023 - called at once
        tell("floor, sink", timed(writing(spark, arguments, rows, "floor"), rows, arguments.runs))
    *_, small = topics(arguments, arguments.value_bytes[0])
    texts = {"kafka.bootstrap.servers": arguments.bootstrap, "subscribe": spark_topics.topic_name(small)}
    seconds, empty = spark_triggers.measured(spark, name, texts, arguments.partitions)
    tell("trigger", f"{seconds:.3f} s a batch, {seconds / empty:.2f} of an empty Python source's")
    if name == "odradek":
        seconds, cpu = min(spark_worker.first_rows(texts) for _ in range(arguments.runs))
        tell("first rows", f"{seconds:.2f} s after the start of a worker, {cpu:.2f} s of CPU")
    spark.stop()


def tell(query: str, said: str) -> None:
    print(json.dumps([query, said]), flush=True)


def reading(frame: Callable[[], Any]) -> Callable[[], None]:
    """Return what reads every row of a frame."""
    return lambda: frame().write.format("noop").mode("overwrite").save()


def floor(spark: Any, arguments: argparse.Namespace, schema: str) -> Any:
    """Return a frame of rows that a Python source has ready."""
    reader = spark.read.format("floor").schema(schema).option("rows", str(arguments.rows))
    return (
        reader.option("valueBytes", str(arguments.value_bytes[0]))
        .option("partitions", str(arguments.partitions))
        .load()
    )


def writing(spark: Any, arguments: argparse.Namespace, rows: int, name: str) -> Callable[[], None]:
    """Return what writes rows that Spark makes to the sink `name`."""
    from pyspark.sql import functions

    number = functions.col("id").cast("string")
    key = functions.lpad(number, 8, "0").cast("binary").alias("key")
    value = functions.lpad(number, arguments.value_bytes[0], "value ").cast("binary").alias("value")

    def write() -> None:
        writer = spark.range(0, rows, 1, arguments.partitions).select(key, value).write.format(name)
        writer = writer.options(**TUNED_SINK).option("kafka.bootstrap.servers", arguments.bootstrap)
        writer.option("topic", SINK_TOPIC).mode("append").save()

    return write


def timed(run: Callable[[], None], count: int, runs: int) -> str:
    """Run a query a few times, after a warm run, and return its figures."""
    run()
    seconds: list[float] = []
    before = spark_topics.cpu_seconds()
    for _ in range(runs):
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    cpu = {kind: (now - before[kind]) / runs / count * 1e6 for kind, now in spark_topics.cpu_seconds().items()}
    rate = f"{count / statistics.median(seconds) / 1e6:6.2f} M rows/s"
    return f"{rate}; CPU-s per M rows: {cpu['Python']:.2f} Python + {cpu['JVM']:.2f} JVM; {worker_mb():4.0f} MB"


def session(arguments: argparse.Namespace) -> Any:
    from odradek.client.spark.source import OdradekSource
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    builder = builder.master("local[2]").config("spark.driver.memory", arguments.memory)
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.python.unix.domain.socket.enabled": str("Unix" in arguments.contender).lower(),
    }.items():
        builder = builder.config(name, value)
    if arguments.jars:
        builder = builder.config("spark.jars", ",".join(map(str, sorted(Path(arguments.jars).glob("*.jar")))))
    spark = builder.getOrCreate()
    spark.dataSource.register(OdradekSource)
    spark.dataSource.register(spark_floor.FloorSource)
    return spark


def queries(spark: Any, arguments: argparse.Namespace, rows: int) -> Iterator[tuple[str, int, Callable[[], Any]]]:
    """Yield the name, the rows and the DataFrame of each query."""
    ours = arguments.contender.startswith("odradek")
    plain, with_json, with_zstd, _ = map(spark_topics.topic_name, topics(arguments, arguments.value_bytes[0]))

    def load(topic: str = plain, schema: str | None = None, **options: str) -> Any:
        reader = spark.read.format("odradek" if ours else "kafka").options(**({} if ours else TUNED))
        reader = reader.option("kafka.bootstrap.servers", arguments.bootstrap).option("subscribe", topic)
        return (reader if schema is None else reader.schema(schema)).options(**options).load()

    def typed() -> Any:
        from pyspark.sql import functions

        if ours:
            schema = f"value STRUCT<{JSON_DDL}>"
            return load(with_json, schema, valueFormat="json", valueSchema=JSON_DDL).select("value.*")
        value = functions.from_json(functions.col("value").cast("string"), JSON_DDL)
        return load(with_json).select(value.alias("value")).select("value.*")

    def part() -> Any:
        """The first of a hundred parts of each partition: by a slice here, by a filter there."""
        least = rows // arguments.partitions // SLICE
        return load(maxOffset=str(least)) if ours else load().where(f"offset < {least}")

    yield "all columns", rows, load
    yield "value only", rows, lambda: load(schema="value binary") if ours else load().select("value")
    if ours:
        yield "direct, all", rows, lambda: load(path="direct")
        yield "direct, value", rows, lambda: load(schema="value binary", path="direct")
    yield "typed JSON", rows, typed
    yield "1 % slice", rows // SLICE, part
    # Last, because the memory of a worker is the most that it ever had.
    yield "zstd, 50 MB", rows, lambda: load(with_zstd, **LARGE_FETCHES)


def worker_mb() -> float:
    """Return the most memory in MB that a living Python worker of this process has had. Linux."""
    most = 0
    for number, _, _ in spark_topics.descendants():
        entry = Path("/proc", str(number))
        with suppress(OSError):
            if b"pyspark.daemon" in (entry / "cmdline").read_bytes():
                lines = (entry / "status").read_text().splitlines()
                most = max([most, *(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))])
    return most / 1024


if __name__ == "__main__":
    main()
