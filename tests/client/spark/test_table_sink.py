"""The sink `odradek-archive`: each batch of a query is in its table once, and rows are checked first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="the Spark source needs pyspark (extra `spark`)")
pytest.importorskip("pyiceberg", reason="pip install 'odradek[archive]'")

from odradek.client.archive import ArchiveError, upkeep
from odradek.client.archive.places import catalog_of
from odradek.client.archive.row_tables import last_batch
from odradek.client.errors import InvalidOption
from odradek.client.spark.columns import OptionError
from odradek.client.spark.table_sink import TableSink
from odradek.tests.support.clients.archive_world import data_files, files_in
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType, YearMonthIntervalType

# The sockets are pyspark's own.
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas", "ignore::ResourceWarning")


ID = LongType()
# A field of a row that Spark never has without a value.
WHO = StructType([StructField("name", StringType(), False)])


def loaded(place: Path, name: str = "air.delays") -> Any:
    catalog = catalog_of(str(place))
    try:
        return catalog.load_table(name)
    finally:
        catalog.close()


def rows_of(place: Path) -> list[dict[str, Any]]:
    return sorted(loaded(place).scan().to_arrow().to_pylist(), key=lambda row: row["id"])


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema("id bigint, at timestamp").option("maxFilesPerTrigger", "1").json(str(folder))


def run(frame: DataFrame, place: Path, checkpoint: Path, **options: str) -> Any:
    """Run a query over what there is, and return it. Raises what it failed with."""
    given = {"to": str(place), "table": "air.delays", "checkpointLocation": str(checkpoint), **options}
    query = frame.writeStream.format("odradek-archive").options(**given).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def put(folder: Path, name: str, ids: range) -> None:
    folder.mkdir(exist_ok=True)
    lines = (f'{{"id": {each}, "at": "2013-01-0{1 + each % 3}T00:00:00Z"}}\n' for each in ids)
    (folder / name).write_text("".join(lines))


def test_each_batch_of_a_query_is_one_commit_also_when_it_is_played_again(spark: SparkSession, tmp_path: Path) -> None:
    spark.dataSource.register(TableSink)
    place, checkpoint, source = tmp_path / "archive", tmp_path / "checkpoint", tmp_path / "in"
    put(source, "1.json", range(5))
    put(source, "2.json", range(5, 10))
    query = run(stream(spark, source), place, checkpoint, partitionBy="day(at)")
    assert [row["id"] for row in rows_of(place)] == list(range(10))
    assert len(loaded(place).metadata.snapshots) == 2
    assert last_batch(loaded(place).metadata, str(query.id)) == 1
    assert [field.name for field in loaded(place).spec().fields] == ["at_day"]
    # The driver died behind the commit of the table, and before Spark's own.
    (checkpoint / "commits" / "1").unlink()
    run(stream(spark, source), place, checkpoint)
    assert [row["id"] for row in rows_of(place)] == list(range(10))
    # Both its times left files, and one of them has names.
    assert len(data_files(place)) > len(files_in(loaded(place)))
    # A write without a query is a commit of its own, and brings a column along.
    frame = spark.range(10, 12).selectExpr("id", "struct(id as twice) as more")
    frame.write.format("odradek-archive").options(to=str(place), table="air.delays").mode("append").save()
    assert [row["more"] for row in rows_of(place)] == [*[None] * 10, {"twice": 10}, {"twice": 11}]
    assert len(loaded(place).metadata.snapshots) == 3


def test_options_modes_and_types_are_refused_by_name(tmp_path: Path) -> None:
    def made(kind: DataType = ID, *, overwrite: bool = False, is_stream: bool = True, **options: str) -> object:
        given = {"to": str(tmp_path / "archive"), "table": "air.delays", **options}
        sink, kind = (
            TableSink({name: text for name, text in given.items() if text}),
            StructType([StructField("id", kind)]),
        )
        return sink.streamWriter(kind, overwrite) if is_stream else sink.writer(kind, overwrite)

    with pytest.raises(OptionError, match="option 'outputMode': complete is not supported"):
        made(overwrite=True)
    with pytest.raises(OptionError, match="option 'mode': overwrite is not supported"):
        made(overwrite=True, is_stream=False)
    for name, text in (("to", ""), ("table", ""), ("table", "delays"), ("partitionBy", "hour(at)"), ("path", "/tmp"),
                       ("strictOptions", "maybe"), ("subscribe", "t")):  # fmt: skip
        with pytest.raises(OptionError, match=f"option '{name}'"):
            made(**{"strictOptions": "true", name: text})
    with pytest.raises(ArchiveError, match="a column has a type that tables do not have"):
        made(YearMonthIntervalType())
    with pytest.raises(InvalidOption, match="needs a file for its catalog"):
        made(to="s3://bucket/x")
    with pytest.raises(OptionError, match="odradek-archive is for writes alone"):
        TableSink({}).schema()
    assert not [*tmp_path.rglob("*.json")], "no table is made"


def test_upkeep_that_fails_does_not_fail_a_batch_that_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    columns = StructType([StructField("id", LongType(), False), StructField("who", WHO)])
    writer = TableSink({"to": str(tmp_path), "table": "air.delays"}).writer(columns, False)
    monkeypatch.setattr(upkeep, "_COMMITS", 1)
    rows = [pa.RecordBatch.from_pydict({"id": [1, 2]})]
    messages = [writer.write(iter(rows)), None, writer.write(iter([]))]
    with monkeypatch.context() as patched:
        patched.setattr(upkeep, "expire", lambda *_: Path("/dev/null/x").mkdir())
        writer.commit(messages)
    assert "the rows are in air.delays, but its old snapshots stay" in caplog.text
    assert [row["id"] for row in rows_of(tmp_path)] == [1, 2]
    assert not any(each.required for each in loaded(tmp_path).schema().fields[1].field_type.fields), "rows may lack it"
    writer.commit([writer.write(iter([]))])
    assert len(loaded(tmp_path).metadata.snapshots) == 1
