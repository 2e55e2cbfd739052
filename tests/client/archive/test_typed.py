"""Typed columns beside the raw ones: bad records keep their bytes and their error, and the table follows the schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="pip install 'odradek[archive]'")

from odradek.client.archive import ArchiveError, upkeep
from odradek.client.archive.check import check, check_rows
from odradek.client.archive.typed import TypedValues, of_json, of_registry
from odradek.client.errors import InvalidOption, SchemaRegistryRefused
from odradek.client.schemas import Avro
from odradek.client.schemas.schema_registry import Registered, Schema
from odradek.client.schemas.tables import MAX_LEVELS
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.tests.support.clients.archive_world import World, files_in
from odradek.tests.support.fakes.faulty_catalog import FaultyCatalog

FIELDS = "a int, s string, d date, t timestamp, p decimal(9,2)"
GOOD = {"a": 1, "s": "x", "d": "2026-11-28", "t": "2026-11-28T10:00:00", "p": "1.25", "more": [1]}


def rows_of(catalog: Any, topic: str) -> list[dict[str, Any]]:
    """The rows as pyiceberg reads them, in the order of offsets."""
    rows = catalog.load_table(("odradek", topic)).scan().to_arrow().sort_by("offset").to_pylist()
    return [{name: each[name] for name in ("value", "value_", "_error")} for each in rows]


def round_of(world: World, catalog: Any, topic: str, values: TypedValues) -> int:
    return world.archiver(catalog, topic, values=lambda: values).round().rows


def test_json_values_have_columns_and_bad_ones_keep_their_error(world: World, catalog: Any) -> None:
    values = [json.dumps(GOOD).encode(), b"{", None, b'{"a": "text"}', b"[1]", b"{}"]
    world.send("json", *values)
    assert round_of(world, catalog, "json", of_json(FIELDS)) == 6
    rows = rows_of(catalog, "json")
    assert [each["value"] for each in rows] == values
    first = rows[0]["value_"]
    assert (first["a"], first["s"], str(first["d"]), str(first["p"])) == (1, "x", "2026-11-28", "1.25")
    assert first["t"].isoformat() == "2026-11-28T10:00:00+00:00"
    assert [each["value_"] is None for each in rows] == [False, True, True, True, True, False]
    assert [each["_error"] is None for each in rows] == [True, False, True, False, False, True]
    assert "no JSON object" in rows[4]["_error"]
    table = catalog.load_table(("odradek", "json"))
    assert not [*check(table), *check_rows(table, "json", world.reading)]
    world.send("json", b'{"a": 2}', new=False)
    assert world.archiver(catalog, "json").round().rows == 1, "an archiver without types leaves them null"
    assert rows_of(catalog, "json")[-1]["value_"] is None


def test_bad_records_end_an_archive_or_are_left_out_where_that_is_wanted(world: World, catalog: Any) -> None:
    world.send("bad", b'{"a": 1}', b"bad", b'{"a": 3}')
    with pytest.raises(ArchiveError, match="offset 1 of partition 0 does not fit the fields: JSONDecodeError"):
        round_of(world, catalog, "bad", of_json("a int", "fail"))
    assert round_of(world, catalog, "bad", of_json("a int", "skip")) == 2
    assert [each["value_"] for each in rows_of(catalog, "bad")] == [{"a": 1}, {"a": 3}]
    world.send("bad", b"all", b"bad", new=False)
    assert round_of(world, catalog, "bad", of_json("a int", "skip")) == 0


@pytest.mark.parametrize("fields", ["a", "a blob", "a int, a long", "", "a b int", "a decimal"])
def test_fields_that_are_none_are_rejected(fields: str) -> None:
    with pytest.raises(InvalidOption, match="--fields"):
        of_json(fields)


def test_a_table_follows_fields_as_iceberg_can_and_has_a_column_beside_where_it_cannot(
    world: World, catalog: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for number, fields in enumerate(("a int, b int", "a long, c string", "a string", "a int, b string")):
        world.send("evolving", b'{"a": %d, "b": 7, "c": "x"}' % number if number < 2 else b'{"a": "1", "b": "y"}',
             new=not number)  # fmt: skip
        assert round_of(world, catalog, "evolving", of_json(fields)) == 1
    assert "the field a is of another type now: its values go to a_2" in caplog.text
    schema = catalog.load_table(("odradek", "evolving")).schema()
    assert [each.name for each in schema.find_field("value_").field_type.fields] == ["a", "b", "c", "a_2", "b_2"]
    expected = [
        {"a": 0, "b": 7, "c": None, "a_2": None, "b_2": None},
        {"a": 1, "b": None, "c": "x", "a_2": None, "b_2": None},
        {"a": None, "b": None, "c": None, "a_2": "1", "b_2": None},
        None,
    ]
    assert [each["value_"] for each in rows_of(catalog, "evolving")] == expected
    assert upkeep.compact(catalog, ("odradek", "evolving"), min_files=2) == 4
    assert len(files_in(catalog.load_table(("odradek", "evolving")))) == 1
    assert [each["value_"] for each in rows_of(catalog, "evolving")] == expected


def test_a_column_beside_is_of_one_field_alone(world: World, catalog: Any) -> None:
    world.send("sided", b'{"a": 1, "a_2": "y"}')
    round_of(world, catalog, "sided", of_json("a int, a_2 string"))
    for fields in ("a string, a_2 string", "a_2 string, a string"):
        world.send("sided", b'{"a": "x", "a_2": "y"}', new=False)
        round_of(world, catalog, "sided", of_json(fields))
        assert rows_of(catalog, "sided")[-1]["value_"] == {"a": None, "a_2": "y", "a_3": "x"}


def test_two_archivers_may_give_a_table_its_columns_at_a_time(world: World, catalog: Any) -> None:
    world.send("two", b'{"a": 1}')
    first = world.archiver(catalog, "two", values=lambda: of_json("a int, b int"))
    beside = FaultyCatalog(catalog)
    # The third look is that of the change.
    beside.beside = [lambda: None, lambda: None, first.round]
    second = world.archiver(beside, "two", values=lambda: of_json("a int"))
    assert not second.round().is_committed
    assert [each["value_"] for each in rows_of(catalog, "two")] == [{"a": 1, "b": None}]


class OneSubject:
    """A registry with one subject, whose versions a test gives."""

    def __init__(self) -> None:
        self.versions: list[Schema] = []
        self.is_away = False

    def latest(self, subject: str) -> Registered:
        if self.is_away:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no answer of the registry")
        return Registered(len(self.versions), len(self.versions), self.versions[-1])

    def schema(self, schema_id: int) -> Schema:
        if not 0 < schema_id <= len(self.versions):
            raise SchemaRegistryRefused(404, 40403, "Schema not found")
        return self.versions[schema_id - 1]

    def referenced(self, schema: Schema) -> dict[str, str]:
        return {}

    def add(self, *fields: dict[str, Any]) -> Any:
        """Add a version, and return what makes records of it."""
        text = json.dumps({"type": "record", "name": "Flight", "fields": list(fields)})
        self.versions.append(Schema(text, "AVRO"))
        number, schema = len(self.versions), self.versions[-1]
        encode = Avro(self, text).writer(number, schema)  # type: ignore[arg-type]
        return encode


def test_values_of_a_registry_have_the_columns_of_its_latest_schema(world: World, catalog: Any) -> None:
    pytest.importorskip("fastavro", reason="pip install 'odradek[avro]'")
    registry = OneSubject()
    first = registry.add({"name": "carrier", "type": "string"}, {"name": "delay", "type": "int"})
    archiver = world.archiver(catalog, "avro", values=lambda: of_registry(registry, "avro", "avro"))
    world.send("avro", first({"carrier": "AA", "delay": 1}), b"none", b"\0\0\0\0\x63x")
    assert archiver.round().rows == 3
    second = registry.add(
        {"name": "airline", "type": "string", "aliases": ["carrier"]}, {"name": "delay", "type": "long"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
    )  # fmt: skip
    world.send("avro", second({"airline": "UA", "delay": 2**40, "at": 1000}), new=False)
    assert archiver.round().rows == 1
    registry.is_away = True
    world.send("avro", first({"carrier": "DL", "delay": 3}), new=False)
    assert archiver.round().rows == 1, "the schema of the last round"
    registry.is_away = False
    registry.versions.append(Schema('"string"', "AVRO"))
    world.send("avro", first({"carrier": "DL", "delay": 4}), new=False)
    assert archiver.round().rows == 1, "no schema of the topic ends an archiver that has had one"
    rows = rows_of(catalog, "avro")
    assert [each["value_"] and (each["value_"]["airline"], each["value_"]["delay"]) for each in rows] == [
        ("AA", 1), None, None, ("UA", 2**40), ("DL", 3), ("DL", 4),
    ]  # fmt: skip
    assert rows[2]["_error"] == "BadFrame: the schema registry has no schema 99" and rows[1]["_error"]
    with pytest.raises(InvalidOption, match="are of the type AVRO, not json-schema"):
        of_registry(registry, "avro", "json-schema")


def nested(levels: int) -> dict[str, Any]:
    """A field of maps in maps."""
    kind = '{"type": "map", "values": ' * levels + '"int"' + "}" * levels
    return {"name": "deep", "type": json.loads(kind)}


def test_a_schema_without_columns_keeps_no_record_out(
    world: World, catalog: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where it is the first one. Readers of tables end at too many levels."""
    pytest.importorskip("fastavro", reason="pip install 'odradek[avro]'")
    registry = OneSubject()
    write = registry.add(nested(300))
    value = b"\0\0\0\0\1\0"
    for rows, kind in enumerate(({**nested(300)}, {"name": "both", "type": ["int", "string"]}, nested(900))):
        registry.versions[:] = [Schema(json.dumps({"type": "record", "name": "F", "fields": [kind]}), "AVRO")]
        world.send("deep", value, new=not rows)
        archiver = world.archiver(catalog, "deep", values=lambda: of_registry(registry, "deep", "avro"))
        assert archiver.round().rows == 1
        assert "deep: values get no types: the schema of deep-value makes no columns" in caplog.text
        caplog.clear()
    write = registry.add(nested(MAX_LEVELS - 1))
    inner: Any = 7
    for _ in range(MAX_LEVELS - 1):
        inner = {"k": inner}
    world.send("deep", write({"deep": inner}), new=False)
    assert archiver.round().rows == 1
    assert [each["value"] for each in rows_of(catalog, "deep")[:3]] == [value] * 3
    found = rows_of(catalog, "deep")[-1]["value_"]["deep"]
    for _ in range(MAX_LEVELS - 1):
        (found,) = (each for _, each in found)
    assert found == 7
