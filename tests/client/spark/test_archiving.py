"""Archives by Spark: each record once, no rows of tasks that failed, and both halves as one DataFrame."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the Spark source needs pyspark (extra `spark`)")
pytest.importorskip("pyiceberg", reason="pip install 'odradek[archive]'")

from odradek.client.archive import ArchiveError, layout
from odradek.client.archive.check import check, check_rows
from odradek.client.archive.places import catalog_of
from odradek.client.errors import InvalidOption
from odradek.client.spark import archive, table
from odradek.pipelines import archive as pipeline
from odradek.tests.support.clients.archive_world import World, files_in, offsets_in, whole
from odradek.tests.support.documents.command import threaded_broker
from pyspark.sql import SparkSession, functions

# The sockets are pyspark's own.
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas", "ignore::ResourceWarning")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with threaded_broker(tmp_path_factory.mktemp("data")) as broker:
        yield World(broker.address)


def options(world: World) -> dict[str, str]:
    return {"kafka.bootstrap.servers": world.address}


def loaded(place: Path, topic: str) -> Any:
    catalog = catalog_of(str(place))
    try:
        return catalog.load_table(("odradek", topic))
    finally:
        catalog.close()


def test_tasks_write_the_files_and_the_driver_commits_them_once(
    spark: SparkSession, world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.fill("flown", 60, partitions=3)
    done = archive(spark, "flown", str(tmp_path), minPartitions="5", **options(world))
    assert (done.rows, done.files, done.lag) == (60, 5, 0)
    found = loaded(tmp_path, "flown")
    assert offsets_in(found) == whole(3, 20) and len(found.metadata.snapshots) == 1
    assert not [*check(found), *check_rows(found, "flown", world.reading)]
    assert not archive(spark, "flown", str(tmp_path), **options(world)).is_committed
    world.fill("flown", 9, partitions=3, new=False)
    both = table(spark, "flown", str(tmp_path), includeHeaders="true", **options(world))
    counted = both.groupBy("partition").agg(functions.count("*"), functions.countDistinct("offset")).collect()
    assert sorted(map(tuple, counted)) == [(number, 23, 23) for number in range(3)]
    hot = both.where("partition = 1 and offset >= 19").orderBy("offset")
    assert [row.asDict() for row in hot.select("offset", "value", "topic", "headers").collect()] == [
        {"offset": offset, "value": value, "topic": "flown", "headers": None}
        for offset, value in ((19, b"58"), (20, b"1"), (21, b"4"), (22, b"7"))
    ]
    assert table(spark, "flown", str(tmp_path), archive_only=True).count() == 60
    pipeline.main(["--topic", "flown", "--to", str(tmp_path), "--bootstrap", world.address])
    assert "flown: 9 rows in 3 files, 0 offsets left" in capsys.readouterr().out
    assert offsets_in(loaded(tmp_path, "flown")) == whole(3, 23)


def test_tasks_that_fail_commit_nothing_and_the_next_run_begins_again(
    spark: SparkSession, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.fill("failed", 20, partitions=2)
    with monkeypatch.context() as patched:
        # Tasks cannot make files below a file.
        patched.setattr(layout, "place_of", lambda found: plain(found)._replace(root="/dev/null"))
        with pytest.raises(ArchiveError, match="tasks of Spark failed, and nothing is committed"):
            archive(spark, "failed", str(tmp_path), **options(world))
    assert not files_in(loaded(tmp_path, "failed"))
    assert archive(spark, "failed", str(tmp_path), **options(world)).rows == 20
    assert offsets_in(loaded(tmp_path, "failed")) == whole(2, 10)


plain = layout.place_of


def test_json_values_have_the_fields_that_are_given(spark: SparkSession, world: World, tmp_path: Path) -> None:
    world.fill("typed", 3)
    typed = {"value_format": "json", "fields": "a int", **options(world)}
    assert archive(spark, "typed", str(tmp_path), **typed).rows == 3
    found = loaded(tmp_path, "typed").scan().to_arrow()
    assert found["value_"].null_count == 3 and found["_error"].null_count == 0
    world.fill("typed", 2, new=False)
    assert not archive(spark, "typed", str(tmp_path), bad="skip", **typed).rows


def test_a_choice_that_is_none_is_rejected_before_anything_is_made(tmp_path: Path) -> None:
    nobody: Any = None
    with pytest.raises(InvalidOption, match="failOnDataLoss must be one of true, false, not 'no'"):
        archive(nobody, "flights", str(tmp_path / "archive"), failOnDataLoss="no")
    with pytest.raises(InvalidOption, match="option 'minPartitions': 'many'"):
        archive(nobody, "flights", str(tmp_path / "archive"), minPartitions="many")
    with pytest.raises(InvalidOption, match="values in avro need a registry"):
        archive(nobody, "flights", str(tmp_path / "archive"), value_format="avro")
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ArchiveError, match="the archive cannot be used"):
        archive(nobody, "flights", str(tmp_path / "file"), **{"kafka.bootstrap.servers": "127.0.0.1:1"})
