"""Spark over a subject that evolves: typed columns, new ones that old records do not have, bad records kept beside."""
# pyright: basic

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the Spark source needs pyspark (extra `spark`)")
pytest.importorskip("fastavro", reason="Avro needs fastavro (extra `avro`)")

from odradek.client.blocking import Producer
from odradek.client.errors import SchemaRegistryUnavailable
from odradek.client.schemas import Avro, JsonSchema
from odradek.client.spark.columns import OptionError
from odradek.client.spark.options import parse_options, parse_sink_options
from odradek.testing import LocalKafka, LocalSchemaRegistry
from odradek.tests.support.documents.page import begin, python_of
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StreamingQueryManager

# The sockets are pyspark's own.
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas", "ignore::ResourceWarning")

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
FIRST = {"type": "record", "name": "Flight", "fields": [{"name": "number", "type": "int"}]}
SECOND = {
    **FIRST,
    "fields": [
        {"name": "number", "type": "long"},
        {"name": "carrier", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "map", "values": "int"}, "default": {}},
        {"name": "stops", "type": {"type": "array", "items": "string"}, "default": []},
    ],
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalKafka]:
    with LocalKafka() as kafka:
        yield kafka


@pytest.fixture(scope="module")
def registry(kafka: LocalKafka) -> Iterator[LocalSchemaRegistry]:
    with LocalSchemaRegistry(kafka) as registry:
        yield registry


def options(kafka: LocalKafka, registry: LocalSchemaRegistry, topic: str, **more: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": kafka.address, "subscribe": topic, "startingOffsets": "earliest",
        "schemaRegistry": registry.url, "valueFormat": "avro", **more,
    }  # fmt: skip


def put(kafka: LocalKafka, registry: LocalSchemaRegistry, topic: str, schema: Any, *values: Any) -> None:
    key = Avro(registry.url, '"string"')
    with Producer(kafka.address, value_serializer=Avro(registry.url, schema), key_serializer=key) as producer:
        producer.send_many(topic, [("k", value) for value in values])


def test_a_batch_has_the_columns_of_the_latest_version(
    spark: SparkSession, kafka: LocalKafka, registry: LocalSchemaRegistry
) -> None:
    put(kafka, registry, "batch", FIRST, {"number": 1})
    given = options(kafka, registry, "batch", keyFormat="avro")
    before = spark.read.format("odradek").options(**given).load()
    assert before.schema["value"].dataType.simpleString() == "struct<number:int,_corrupt_record:string>"
    assert before.schema["key"].dataType.simpleString() == "string"
    put(kafka, registry, "batch", SECOND, {"number": 2, "carrier": "UA", "tags": {"a": 1}, "stops": ["x"]}, None)
    kafka.put("batch", [b"\0\0\0\0\x63?"])
    frame = spark.read.format("odradek").options(**given).load().orderBy("offset")
    rows = [row["value"] and row["value"].asDict() for row in frame.collect()]
    nothing = {"number": None, "carrier": None, "tags": None, "stops": None}
    assert rows == [
        {"number": 1, "carrier": None, "tags": {}, "stops": [], "_corrupt_record": None},
        {"number": 2, "carrier": "UA", "tags": {"a": 1}, "stops": ["x"], "_corrupt_record": None},
        None,
        nothing | {"_corrupt_record": base64.b64encode(b"\0\0\0\0\x63?").decode()},
    ]
    assert [row["key"] for row in frame.collect()] == ["k", "k", "k", None]
    named = spark.read.format("odradek").options(**given, valueSchema="carrier STRING", mode="DROPMALFORMED").load()
    kept = [row["value"] for row in named.orderBy("offset").collect()]
    assert kept == [Row(carrier=None), Row(carrier="UA"), None]


def rows_of_stream(spark: SparkSession, folder: Path, given: dict[str, str]) -> list[dict[str, Any]]:
    """Have a stream go on until the end, and return all that it has written."""
    frame = spark.readStream.format("odradek").options(**given).load().select("offset", "value.*")
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(folder / "rows"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    read = spark.read.option("mergeSchema", "true").parquet(str(folder / "rows"))
    return [row.asDict() for row in read.orderBy("offset").collect()]


def test_a_stream_goes_on_with_new_columns_after_a_restart(
    spark: SparkSession, kafka: LocalKafka, registry: LocalSchemaRegistry, tmp_path: Path
) -> None:
    given = options(kafka, registry, "stream", mode="DROPMALFORMED")

    run = partial(rows_of_stream, spark, tmp_path, given)
    put(kafka, registry, "stream", FIRST, {"number": 1})
    kafka.put("stream", ["bad"])
    assert run() == [{"offset": 0, "number": 1}]
    wider = {**FIRST, "fields": [*FIRST["fields"], {"name": "carrier", "type": ["null", "string"], "default": None}]}
    put(kafka, registry, "stream", wider, {"number": 2, "carrier": "UA"})
    put(kafka, registry, "stream", FIRST, {"number": 3})
    assert run() == [
        {"offset": 0, "number": 1, "carrier": None},
        {"offset": 2, "number": 2, "carrier": "UA"},
        {"offset": 3, "number": 3, "carrier": None},
    ]


def test_the_sink_writes_what_other_serializers_read(
    spark: SparkSession, kafka: LocalKafka, registry: LocalSchemaRegistry
) -> None:
    frame = spark.sql(
        "SELECT named_struct('number', 7L, 'carrier', 'DL', 'tags', map('a', 1), 'stops', array('x')) AS value"
    )
    written = {"kafka.bootstrap.servers": kafka.address, "topic": "sink", "schemaRegistry": registry.url}
    written |= {"valueFormat": "avro", "valueAvroSchema": json.dumps(SECOND)}
    frame.write.format("odradek").options(**written).mode("append").save()
    assert registry.client.latest("sink-value").version == 1
    del written["valueAvroSchema"]
    frame.write.format("odradek").options(**written).mode("append").save()
    value = {"number": 7, "carrier": "DL", "tags": {"a": 1}, "stops": ["x"]}
    assert [Avro(registry.url).decode(each.value) for each in kafka.records("sink")] == [value, value]


JSON_FIRST = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
JSON_SECOND = {
    "type": "object",
    "properties": {
        "number": {"type": "integer"},
        "carrier": {"type": ["null", "string"]},
        "share": {"type": "number"},
        "stops": {"type": "array", "items": {"type": "string"}},
        "tags": {"type": "object", "additionalProperties": {"type": "integer"}},
        "any": {"oneOf": [{"type": "string"}, {"type": "object"}]},
    },
    "required": ["number", "carrier"],
}
JSON_FULL = {"number": 2, "carrier": "UA", "share": 3, "stops": ["x"], "tags": {"a": 1}, "any": {"b": [1]}}


def put_json(kafka: LocalKafka, registry: LocalSchemaRegistry, topic: str, schema: Any, *values: Any) -> None:
    registry.set_compatibility("NONE", f"{topic}-value")
    with Producer(kafka.address, value_serializer=JsonSchema(registry.url, schema)) as producer:
        producer.send_many(topic, [(None, value) for value in values])


def test_a_json_schema_makes_columns_too(spark: SparkSession, kafka: LocalKafka, registry: LocalSchemaRegistry) -> None:
    put_json(kafka, registry, "json", JSON_FIRST, {"number": 1.0})
    given = options(kafka, registry, "json", valueFormat="json-schema")
    before = spark.read.format("odradek").options(**given).load()
    assert before.schema["value"].dataType.simpleString() == "struct<number:bigint,_corrupt_record:string>"
    put_json(kafka, registry, "json", JSON_SECOND, JSON_FULL, {"number": 3, "carrier": None, "any": "text"}, None)
    own = registry.client.latest("json-value").id.to_bytes(4, "big")
    bad = [b"\0\0\0\0\x63{}", b'{"number":1}', b"\0" + own + b'{"number":1}', b"\0" + own + b"{"]
    kafka.put("json", bad)
    frame = spark.read.format("odradek").options(**given).load().orderBy("offset")
    rows = [row["value"] and row["value"].asDict() for row in frame.collect()]
    nothing = dict.fromkeys([*JSON_FULL, "_corrupt_record"])
    assert rows == [
        nothing | {"number": 1},
        nothing | JSON_FULL | {"any": '{"b": [1]}'},
        nothing | {"number": 3, "any": "text"},
        None,
        *[nothing | {"_corrupt_record": base64.b64encode(each).decode()} for each in bad],
    ]
    named = options(kafka, registry, "json", valueFormat="json-schema", mode="DROPMALFORMED")
    chosen = spark.read.format("odradek").options(**named, valueSchema="tags MAP<STRING, INT>, share DECIMAL(4, 1)")
    kept = [row["value"] for row in chosen.load().orderBy("offset").collect()]
    assert kept == [
        Row(tags=None, share=None), Row(tags={"a": 1}, share=Decimal("3.0")), Row(tags=None, share=None), None,
    ]  # fmt: skip


def test_the_sink_writes_json_that_its_schema_allows(
    spark: SparkSession, kafka: LocalKafka, registry: LocalSchemaRegistry
) -> None:
    rows = spark.sql(
        "SELECT named_struct('number', n, 'carrier', CAST(NULL AS STRING), 'share', CAST(NULL AS DOUBLE), "
        "'tags', map('a', 1)) AS value FROM VALUES (7), (8) AS t(n)"
    )
    written = {"kafka.bootstrap.servers": kafka.address, "topic": "json-sink", "schemaRegistry": registry.url}
    written |= {"valueFormat": "json-schema", "valueJsonSchema": json.dumps(JSON_SECOND)}
    rows.coalesce(1).write.format("odradek").options(**written).mode("append").save()
    del written["valueJsonSchema"]
    rows.coalesce(1).write.format("odradek").options(**written).mode("append").save()
    values = [{"number": 7, "carrier": None, "tags": {"a": 1}}, {"number": 8, "carrier": None, "tags": {"a": 1}}]
    assert [JsonSchema(registry.url).decode(each.value) for each in kafka.records("json-sink")] == values * 2
    wrong = spark.sql("SELECT named_struct('number', 'x', 'carrier', 'UA') AS value")
    with pytest.raises(Exception, match="is not of type 'integer'"):
        wrong.write.format("odradek").options(**written).mode("append").save()


@pytest.mark.parametrize(
    ("parse", "given", "option"),
    [
        (parse_options, {"valueFormat": "json", "valueSchema": "a INT"}, "schemaRegistry"),
        (parse_options, {"valueFormat": "avro", "valueAvroSchema": '"int"'}, "valueAvroSchema"),
        (parse_options, {"valueFormat": "avro", "schemaRegistry": "h:1"}, "schemaRegistry"),
        (parse_options, {"valueFormat": "avro", "schemaRegistryUser": "ann"}, "schemaRegistryUser"),
        (parse_options, {"valueFormat": "avro", "keySubject": "s"}, "keySubject"),
        (parse_options, {"valueSubject": "s"}, "valueSubject"),
        (parse_options, {"valueFormat": "json-schema", "valueAvroSchema": '"int"'}, "valueAvroSchema"),
        (parse_sink_options, {"valueJsonSchema": "{}"}, "valueJsonSchema"),
        (parse_sink_options, {"valueFormat": "avro", "valueJsonSchema": "{}"}, "valueJsonSchema"),
        (parse_sink_options, {"valueFormat": "json-schema", "valueJsonSchema": "{"}, "valueJsonSchema"),
        (parse_sink_options, {"valueFormat": "json-schema"}, "schemaRegistry"),
    ],
)
def test_options_that_do_not_fit_are_refused(parse: Any, given: dict[str, str], option: str) -> None:
    base = {"kafka.bootstrap.servers": "h:1"}
    base |= {"topic": "t"} if parse is parse_sink_options else {"subscribe": "t", "schemaRegistry": "http://h:1"}
    with pytest.raises(OptionError) as refused:
        parse(base | given)
    assert option in str(refused.value)


def test_several_topics_need_a_subject_and_a_registry_that_answers(kafka: LocalKafka) -> None:
    given = {"kafka.bootstrap.servers": kafka.address, "valueFormat": "avro", "schemaRegistry": "http://127.0.0.1:1"}
    with pytest.raises(OptionError, match="valueSubject"):
        parse_sink_options(given)
    with pytest.raises(SchemaRegistryUnavailable):
        parse_sink_options(given | {"topic": "t"})


def test_an_archive_by_spark_has_the_columns_of_the_latest_version(
    spark: SparkSession, kafka: LocalKafka, registry: LocalSchemaRegistry, tmp_path: Path
) -> None:
    pytest.importorskip("pyiceberg", reason="pip install 'odradek[archive]'")
    from odradek.client.archive import ArchiveError
    from odradek.client.archive.places import catalog_of
    from odradek.client.spark import archive

    def archived(**more: Any) -> list[Any]:
        given = {"kafka.bootstrap.servers": kafka.address, "value_format": "avro", "registry": registry.url, **more}
        archive(spark, "kept", str(tmp_path), **given)
        catalog = catalog_of(str(tmp_path))
        rows = catalog.load_table("odradek.kept").scan().to_arrow().sort_by("offset").to_pylist()
        catalog.close()
        return [(row["value_"], row["_error"]) for row in rows]

    put(kafka, registry, "kept", FIRST, {"number": 1})
    assert archived() == [({"number": 1}, None)]
    put(kafka, registry, "kept", SECOND, {"number": 2**40, "carrier": "UA", "tags": {"a": 1}, "stops": ["x"]})
    kafka.put("kept", [b"none"])
    with pytest.raises(ArchiveError, match=r"nothing is committed.*offset 2 of partition 0 does not fit"):
        archived(bad="fail")
    first, second, bad = archived()
    assert first == ({"number": 1, "carrier": None, "tags": None, "stops": None}, None)
    assert second == ({"number": 2**40, "carrier": "UA", "tags": [("a", 1)], "stops": ["x"]}, None)
    assert bad[0] is None and bad[1].startswith("BadFrame")


def settle(spark: SparkSession) -> None:
    """Let queries do what there is to do, and end them."""
    for query in spark.streams.active:
        query.processAllAvailable()
        query.stop()


@pytest.fixture
def listeners(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take listeners away again: other tests have the same session."""
    added, add = list[Any](), StreamingQueryManager.addListener

    def note(self: StreamingQueryManager, listener: Any) -> None:
        added.append(listener)
        add(self, listener)

    monkeypatch.setattr(StreamingQueryManager, "addListener", note)
    yield
    for each in added:
        spark.streams.removeListener(each)


@pytest.mark.usefixtures("listeners")
def test_the_blocks_of_the_page_run_as_copied(
    spark: SparkSession, kafka: LocalKafka, registry: LocalSchemaRegistry, tmp_path: Path
) -> None:
    """The README's block, too; not the declared pipeline, which tests/conformance runs."""
    pytest.importorskip("pyiceberg", reason="pip install 'odradek[archive]'")
    from odradek.tests.client.spark.test_table_sink import loaded

    registry.register("flights-value", FIRST)
    kafka.put("flights", [{"carrier": "UA", "flight": 1545, "dep_delay": 2}])
    own = {"127.0.0.1:9092": kafka.address, "http://127.0.0.1:8081": registry.url, '"/': f'"{tmp_path}/'}
    names = {"spark": spark, "__name__": "page"}
    *_, readme = python_of((ROOT / "README.md").read_text(encoding="utf-8"), own)
    begin(readme[1], names)
    assert names["frame"].count() == 1
    batch, typed, of_registry, stream, listener, write, once, archive, declared = python_of(PAGE, own)
    for line, code in (batch, typed):
        begin(code, names, "spark.md", line)
    assert names["frame"].count() == 1
    assert [(row.carrier, row.flight) for row in names["flights"].collect()] == [("UA", 1545)]
    begin(of_registry[1], names)
    assert "number" in names["flights"].columns
    for line, code in (listener, stream, write):
        begin(code, names, "spark.md", line)
    assert [json.loads(each.value or b"")["carrier"] for each in kafka.records("delays")] == ["UA"]
    settle(spark)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.json").write_text('{"value": "late", "window_end": "2013-01-01T01:00:00Z"}')
    names["frame"] = spark.readStream.schema("value string, window_end timestamp").json(str(tmp_path / "in"))
    for line, code in (once, archive):
        begin(code.replace("delays-checkpoint", f"checkpoint-{line}"), names, "spark.md", line)
        settle(spark)
    assert [each.value for each in kafka.records("delays")][1:] == [b"late"]
    assert loaded(tmp_path / "archive").scan().to_arrow()["value"].to_pylist() == ["late"]
    assert "create_sink" in declared[1]
