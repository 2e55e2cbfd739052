"""Our sources and archives from a session of Spark Connect, whose server is a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the Spark source needs pyspark (extra `spark`)")
pytest.importorskip("grpc_status", reason="pip install 'pyspark[connect]'")

from odradek.client.archive import ArchiveError
from odradek.client.archive.places import catalog_of
from odradek.client.spark import archive, table
from odradek.client.spark.listener import LagListener
from odradek.tests.support.clients.archive_world import World, offsets_in, whole
from odradek.tests.support.clients.java import require_spark_java
from odradek.tests.support.documents.command import threaded_broker
from odradek.tests.support.spark.spark_jvm import home, java_options
from pyspark.errors import PySparkException

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # pyspark's own sockets
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # grpc's
]
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_STARTS_WITHIN_S = 180


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with threaded_broker(tmp_path_factory.mktemp("data")) as broker:
        yield World(broker.address)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session of Connect. Its server is stopped by its process."""
    require_spark_java()
    from pyspark.sql.connect.session import SparkSession

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("connect")
    env = {**os.environ, "SPARK_HOME": str(home()), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    configs = {
        "spark.connect.grpc.binding.port": port, "spark.driver.extraJavaOptions": java_options(),
        "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": 1,
    }  # fmt: skip
    words = [word for name, value in configs.items() for word in ("--conf", f"{name}={value}")]
    submit = [home() / "bin" / "spark-submit", "--master", "local[2]", "--class", SERVER, *words, "spark-internal"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(submit, env=env, cwd=folder, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + _STARTS_WITHIN_S
        while True:
            with socket.socket() as attempt:
                if attempt.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert server.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.1)
        session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
        yield session
        session.stop()
    finally:
        server.kill()
        server.wait()


def options(world: World, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": world.address, **more}


def loaded(place: Path, name: str) -> Any:
    catalog = catalog_of(str(place))
    try:
        return catalog.load_table(name)
    finally:
        catalog.close()


def test_topics_are_read_and_written(spark: Any, world: World) -> None:
    world.fill("flown", 60, partitions=3)
    read = spark.read.format("odradek").options(**options(world, subscribe="flown"))
    assert read.load().where("partition = 1").count() == 20
    rows = spark.range(5).selectExpr("cast(id as string) as value")
    rows.write.format("odradek").options(**options(world, topic="flown")).mode("append").save()
    assert read.load().count() == 65


def test_an_archive_is_written_by_the_server_and_committed_by_the_client(
    spark: Any, world: World, tmp_path: Path
) -> None:
    world.fill("kept", 60, partitions=3)
    typed = options(world, value_format="json", fields="a int")
    with pytest.raises(ArchiveError, match=r"nothing is committed.*does not fit the fields"):
        archive(spark, "kept", str(tmp_path), bad="fail", **typed)
    assert archive(spark, "kept", str(tmp_path), minPartitions="5", **typed).rows == 60
    found = loaded(tmp_path, "odradek.kept")
    assert offsets_in(found) == whole(3, 20) and len(found.metadata.snapshots) == 1
    assert not archive(spark, "kept", str(tmp_path), **options(world)).is_committed
    world.fill("kept", 9, partitions=3, new=False)
    both = table(spark, "kept", str(tmp_path), includeHeaders="true", **options(world))
    assert sorted(map(tuple, both.groupBy("partition").count().collect())) == [(number, 23) for number in range(3)]
    assert table(spark, "kept", str(tmp_path), archive_only=True).count() == 60


def test_streams_write_to_tables_and_tell_their_lag(spark: Any, world: World, tmp_path: Path) -> None:
    world.fill("streamed", 9, partitions=3)
    told: list[Any] = []
    listener = LagListener({"kafka.bootstrap.servers": world.address}, report=told.append)
    spark.streams.addListener(listener)
    rows = spark.readStream.format("odradek").options(
        **options(world, subscribe="streamed", startingOffsets="earliest")
    )
    given = {"to": str(tmp_path / "archive"), "table": "air.rows", "checkpointLocation": str(tmp_path / "checkpoint")}
    for _ in range(2):
        query = rows.load().writeStream.format("odradek-archive").options(**given).trigger(availableNow=True).start()
        query.awaitTermination()
        assert query.exception() is None
    spark.streams.removeListener(listener)
    assert offsets_in(loaded(tmp_path / "archive", "air.rows")) == whole(3, 3)
    assert told
    with pytest.raises(PySparkException, match=r"option 'table': 'rows' is no table"):
        spark.range(1).write.format("odradek-archive").options(**given | {"table": "rows"}).mode("append").save()
