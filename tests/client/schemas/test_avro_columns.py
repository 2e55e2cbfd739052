"""Avro's records become the same columns by the compiled kernel as by fastavro: random schemas, versions and bytes."""
# pyright: basic

from __future__ import annotations

import json
import random
import struct
import subprocess
import sys
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("fastavro", reason="Avro needs fastavro (extra `avro`)")
pytest.importorskip("pyarrow", reason="tables need pyarrow (extra `tables`)")

import fastavro
import numpy as np
import pyarrow as pa
from fastavro.utils import generate_one
from odradek.client.errors import InvalidOption, SchemaRegistryRefused
from odradek.client.schemas import Avro, Schema, SchemaRegistry
from odradek.client.schemas.avro_columns import avro_rows, decoded, of_registry, of_schema
from odradek.client.schemas.avro_places import Columns
from odradek.client.schemas.registered import frame
from odradek.client.schemas.tables import ArrowAvro, TableAvro, in_microseconds
from odradek.tests.support.brokers.compiled_kernel import needed_kernel, records_by
from odradek.tests.support.seeds import seeds

PLAIN = ["boolean", "int", "long", "float", "double", "bytes", "string"]
LOGICAL: list[tuple[str, str, dict[str, Any]]] = [
    ("int", "date", {}), ("int", "time-millis", {}), ("long", "time-micros", {}), ("long", "timestamp-millis", {}),
    ("long", "timestamp-micros", {}), ("long", "timestamp-nanos", {}), ("long", "local-timestamp-millis", {}),
    ("long", "local-timestamp-micros", {}), ("string", "uuid", {}),
    ("bytes", "decimal", {"precision": 38, "scale": 3}), ("bytes", "decimal", {"precision": 30, "scale": 30}),
]  # fmt: skip
NUMBERS = [b"\xff" * 9 + b"\x01", b"\xfe\xff\xff\xff\x0f", b"\x80" * 11]
TEXTS = ["é€😀".encode(), b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\0"]
WIDER = {"int": ["long", "float", "double"], "long": ["float", "double"], "float": ["double"], "bytes": ["string"]}


def logical(name: str, **more: Any) -> dict[str, Any]:
    return {"logicalType": name, **more}


class Registered(SchemaRegistry):
    """A registry of these schemas, whose ids are their places."""

    def __init__(self, *versions: Any) -> None:
        super().__init__("http://h")
        self.at_once = self
        self.versions = [Schema(json.dumps(each)) for each in versions]

    def schema(self, schema_id: int) -> Schema:
        if not 0 <= schema_id < len(self.versions):
            raise SchemaRegistryRefused(404, 40403, "Schema not found")
        return self.versions[schema_id]


class Chance(random.Random):
    """Schemas and bytes by a seed."""

    named: list[str]

    def record(self, depth: int) -> dict[str, Any]:
        name = f"R{len(self.named)}"
        self.named.append("")  # no record holds itself here
        fields = [{"name": f"f{number}", "type": self.kind(depth - 1)} for number in range(self.randint(1, 6))]
        made = {"type": "record", "name": name, "fields": fields}
        self.named.append(name)
        return made

    def kind(self, depth: int) -> Any:
        known = [each for each in self.named if each]
        number = len(self.named)
        match self.randrange(16 if depth > 0 else 11):
            case 0 | 1 | 2 | 3:
                return self.choice(PLAIN)
            case 4:
                return self.choice(known) if known else "string"
            case 5 | 6:
                primitive, name, more = self.choice(LOGICAL)
                return {"type": primitive, **logical(name, **more)}
            case 7:
                self.named.append(f"E{number}")
                return {"type": "enum", "name": f"E{number}", "symbols": ["A", "BC", "D"][: self.randint(1, 3)]}
            case 8:
                self.named.append(f"F{number}")
                more = self.choice([{"size": 1}, {"size": 20}, {"size": 3} | logical("decimal", precision=6, scale=1)])
                return {"type": "fixed", "name": f"F{number}"} | more
            case 9:
                return self.choice([["int", "long"], ["null", "double", "float"]])
            case 10 | 11:
                inner = self.kind(depth - 1)
                return inner if isinstance(inner, list) else self.sample(["null", inner], 2)
            case 12 | 13:
                return {"type": "array", "items": self.kind(depth - 1)}
            case 14:
                return {"type": "map", "values": self.kind(depth - 1)}
            case _:
                return self.record(depth - 1)

    def later(self, kind: Any) -> Any:
        """A later version of a schema; some cannot read the earlier one."""
        if isinstance(kind, str):
            return self.choice(WIDER[kind]) if kind in WIDER and self.random() < 0.3 else kind
        if isinstance(kind, list):
            return [self.later(each) for each in kind if len(kind) > 2 or self.random() < 0.95] or "null"
        made = dict(kind)
        for name in ("items", "values"):
            if name in made:
                made[name] = self.later(made[name])
        if made["type"] == "enum" and self.random() < 0.3:
            made |= {"symbols": ["BC", "A", "X"], "default": "X"}
        if made["type"] == "record":
            fields = [each | {"type": self.later(each["type"])} for each in kind["fields"]]
            if len(fields) > 1 and self.random() < 0.3 and isinstance(fields[-1]["type"], str):
                fields.pop()
            if self.random() < 0.2:
                fields[0] |= {"name": "renamed", "aliases": [fields[0]["name"]]}
            if self.random() < 0.5:
                fields.append(self.choice([
                    {"name": "new", "type": "string"}, {"name": "new", "type": "string", "default": "é"},
                    {"name": "new", "type": {"type": "array", "items": "int"}, "default": []},
                    {"name": "new", "type": "double", "default": 5},
                    {"name": "new", "type": "bytes", "default": "\u00ff"},
                    {"name": "new", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 7},
                    {"name": "new", "type": {"type": "record", "name": "New", "fields": [
                        {"name": "a", "type": ["null", "long"], "default": None}]}, "default": {"a": None}},
                ]))  # fmt: skip
            self.shuffle(fields) if self.random() < 0.2 else None
            made["fields"] = fields
        return made

    def damaged(self, content: bytes) -> bytes:
        """The bytes after one mistake."""
        at = self.randrange(len(content) + 1)
        match self.randrange(5):
            case 0:
                return content[:at]
            case 1:
                return content + bytes([self.randrange(256)])
            case 2:
                return content[:at] + bytes([self.randrange(256)]) + content[at + 1 :]
            case 3:
                return content[:at] + self.choice(NUMBERS) + content[at:]
            case _:
                return content[:at] + self.choice(TEXTS) + content[at:]


def both(column: Any, raw: Any, final: Any, unpack: Any, programs: Any) -> tuple[list[Any], list[bool]]:
    """The rows and marks that both ways make of a column."""
    ways: list[tuple[Any, list[bool]]] = []
    for way in ("kernel", "Python"):
        with records_by(way):
            marks = np.zeros(len(column), np.bool_)
            array = pa.concat_arrays(avro_rows(column, raw, final, marks, unpack, programs))
            array.validate(full=True)
            assert array.type == final
            ways.append((array, marks.tolist()))
    (one, bad), (two, other) = ways
    assert bad == other
    assert one.equals(two) or repr(one.to_pylist()) == repr(two.to_pylist())
    return one, bad


def values_of(chance: Chance, written: Any, count: int, number: int) -> list[bytes | None]:
    avro = Avro(SchemaRegistry("http://h"), written)
    write = avro.writer(number, Schema(json.dumps(written)))
    values: list[bytes | None] = [None]
    for _ in range(count):
        random.seed(chance.random())
        values.append(write(generate_one(fastavro.parse_schema(json.loads(json.dumps(written))))))
    return values


@pytest.mark.parametrize("seed", seeds(range(12), range(2000)))
def test_random_records_are_the_same_columns_both_ways(seed: int) -> None:
    needed_kernel()
    chance = Chance(seed)
    chance.named = []
    earlier = chance.record(3)
    registry = Registered(earlier, chance.later(earlier))
    values = [*values_of(chance, earlier, 8, 0)]
    column = pa.array(values + [chance.damaged(each) if each else each for each in values * 3], pa.binary())[1:]
    for version in (0, 1):
        for kind in (TableAvro, ArrowAvro):
            try:
                reader = kind(registry, registry.versions[version])
                raw = reader.type
            except InvalidOption:
                continue  # a schema that makes no columns
            both(column, raw, in_microseconds(raw), reader.decode, of_registry(reader))


def left_for_python(column: Any, raw: Any, programs: Any) -> list[int]:
    with records_by("kernel"):
        array, rows = decoded(column, raw, in_microseconds(raw), programs)
        assert all(array[row].as_py() is None for row in rows.tolist())
        return rows.tolist()


def record(*kinds: Any, **defaults: Any) -> dict[str, Any]:
    fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(kinds)]
    for each in fields:
        each |= {"default": defaults[each["name"]]} if each["name"] in defaults else {}
    return {"type": "record", "name": "R", "fields": fields}


EVERYTHING = record(
    *PLAIN, *({"type": kind, **logical(name, **more)} for kind, name, more in LOGICAL), ["null", "string"],
    {"type": "enum", "name": "E", "symbols": ["A", "BC"]}, {"type": "fixed", "name": "F", "size": 3},
    {"type": "fixed", "name": "D", "size": 20} | logical("decimal", precision=7, scale=1), ["int", "null", "long"],
    {"type": "array", "items": ["null", record("E") | {"name": "I"}]},
    {"type": "map", "values": {"type": "array", "items": "I"}},
)  # fmt: skip


def test_good_records_of_every_type_and_of_other_versions_never_reach_python() -> None:
    values = {f"f{number}": value for number, value in enumerate((
        True, -1, 2**63 - 1, 1.5, -0.0, b"\xff", "é€😀" * 3, -1, 5, 6, -(2**40), 2**50, 2**62, 7, -8,
        str(UUID(int=5)), Decimal("-12345678901234567890.125"), Decimal("1E-30"), None, "BC", b"abc", Decimal("-1.5"),
        None, [None, {"f0": "A"}] * 5, {f"key {number}": [{"f0": "BC"}] for number in range(40)},
    ))}  # fmt: skip
    later = json.loads(json.dumps(EVERYTHING))
    later["fields"] = [
        *later["fields"][2::-1], *later["fields"][3:],
        {"name": "text", "type": "string", "default": "é"}, {"name": "none", "type": "long"},
        {"name": "list", "type": {"type": "array", "items": "int"}, "default": []},
    ]  # fmt: skip
    later["fields"][0]["type"], later["fields"][1]["type"] = "double", "double"  # of long, of int
    registry = Registered(EVERYTHING, EVERYTHING, later)
    write = [Avro(SchemaRegistry("http://h"), EVERYTHING).writer(number, registry.versions[0]) for number in (0, 1)]
    column = pa.array([None, write[0](values), write[1](values), write[0](values)], pa.binary())
    for version in (0, 2):
        reader = ArrowAvro(registry, registry.versions[version])
        array, bad = both(column, reader.type, in_microseconds(reader.type), reader.decode, of_registry(reader))
        assert not any(bad) and not left_for_python(column, reader.type, of_registry(reader))
    assert array[1]["text"].as_py() == "é" and array[1]["list"].as_py() == [] and array[1]["none"].as_py() is None


def zigzag(number: int) -> bytes:
    found, made = (number << 1) ^ (number >> 63), bytearray()
    while found > 0x7F:
        made.append(found & 0x7F | 0x80)
        found >>= 7
    return bytes([*made, found])


MANY = b"".join(zigzag(5) + b"k%04d" % number + b"\2" for number in range(1000))


@pytest.mark.parametrize(
    ("kind", "content", "is_usual"),
    [
        ("boolean", b"\2", False),
        ("int", zigzag(2**31), False),
        ("int", b"\xff" * 10, False),
        ("int", b"", False),
        ("long", zigzag(-(2**63)), True),
        ("long", b"\x80" * 11 + b"\0", False),
        ("float", b"\0" * 3, False),
        ("bytes", zigzag(-1), False),
        ("bytes", zigzag(2**62), False),
        ("string", b"\2\xff", False),
        ("string", b"\6\xed\xa0\x80", False),
        ("string", b"\4\xc0\x80", False),
        ("string", b"\6\xe0\x9f\xbf", False),
        ("string", b"\x08\xf4\x90\x80\x80", False),
        ("string", b"\x08\xf4\x8f\xbf\xbf", True),
        ("string", b"\4\xe2\x82", False),
        (["null", "int"], b"\4", False),
        (["null", "int"], b"\1", False),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\2", False),
        ({"type": "array", "items": "int"}, zigzag(2**40) + b"\2", False),
        ({"type": "array", "items": "int"}, zigzag(-(2**63)) + b"\2", False),
        ({"type": "array", "items": "int"}, zigzag(-2) + zigzag(9) + b"\2\2" + zigzag(1) + b"\4\0", True),
        ({"type": "array", "items": "int"}, zigzag(2) + b"\2\2", False),
        ({"type": "map", "values": "int"}, b"\4\2a\2\2a\4\0", False),
        ({"type": "map", "values": "int"}, b"\2\1", False),
        ({"type": "map", "values": "int"}, zigzag(1000) + MANY + b"\0", True),
        ({"type": "map", "values": "int"}, zigzag(1001) + MANY + MANY[:7] + b"\0", False),
        ({"type": "bytes", **logical("decimal", precision=2)}, b"\2\x63", True),
        ({"type": "bytes", **logical("decimal", precision=2)}, b"\2\x64", False),
        ({"type": "bytes", **logical("decimal", precision=2)}, b"\2\x9c", False),
        ({"type": "bytes", **logical("decimal", precision=38)}, zigzag(20) + b"\xff" * 20, True),
        ({"type": "bytes", **logical("decimal", precision=38)}, zigzag(17) + b"\x80" + b"\0" * 16, False),
        ({"type": "long", **logical("timestamp-millis")}, zigzag(253402300799999), True),
        ({"type": "long", **logical("timestamp-millis")}, zigzag(253402300800000), False),
        ({"type": "int", **logical("date")}, zigzag(-719162), True),
        ({"type": "int", **logical("date")}, zigzag(-719163), False),
    ],
)
def test_what_is_not_usual_is_left_for_python(kind: Any, content: bytes, is_usual: bool) -> None:
    registry = Registered(record("string", kind, "int"))
    reader = ArrowAvro(registry, registry.versions[0])
    column = pa.array([frame(0) + b"\0" + content + b"\2", frame(0) + b"\0" + content, b"\1" + content], pa.binary())
    both(column, reader.type, in_microseconds(reader.type), reader.decode, of_registry(reader))
    assert left_for_python(column, reader.type, of_registry(reader)) == ([1, 2] if is_usual else [0, 1, 2])


def test_keys_that_meet_in_one_hash_are_left_for_python() -> None:
    kernel = needed_kernel()
    alike: dict[int, list[bytes]] = {}
    for number in range(40_000):
        alike.setdefault(kernel.murmur2(b"%06d" % number) & 0xFF, []).append(b"%06d" % number)
    keys = max(alike.values(), key=len)[:100]
    content = zigzag(100) + b"".join(zigzag(6) + each + b"\2" for each in keys) + b"\0"
    registry = Registered(record({"type": "map", "values": "int"}))
    reader = ArrowAvro(registry, registry.versions[0])
    column = pa.array([frame(0) + content], pa.binary())
    _, bad = both(column, reader.type, reader.type, reader.decode, of_registry(reader))
    assert bad == [False] and left_for_python(column, reader.type, of_registry(reader)) == [0]


@pytest.mark.parametrize(
    ("kind", "wanted", "value"),
    [
        ("long", pa.int16(), 5),
        ("long", pa.int8(), 200),
        ("int", pa.float64(), 3),
        ("long", pa.float64(), 2**53 + 1),
        ("int", pa.float32(), 2**24 + 1),
        ("string", pa.binary(), "é"),
        ("bytes", pa.string(), b"a"),
        ("double", pa.float32(), 0.1),
        ("bytes", pa.string(), b"\xff"),
        ("long", pa.timestamp("us", "UTC"), 5),
        ("int", pa.date32(), 5),
        ("int", pa.string(), 5),
        ({"type": "long", **logical("timestamp-micros")}, pa.timestamp("us"), 5),
        ({"type": "int", **logical("date")}, pa.int32(), 5),
        ({"type": "string", **logical("uuid")}, pa.string(), str(UUID(int=5))),
        (["int", "string"], pa.string(), "a"),
        ({"type": "bytes", **logical("decimal", precision=5, scale=2)}, pa.decimal128(9, 2), Decimal("1.25")),
        ({"type": "bytes", **logical("decimal", precision=5, scale=2)}, pa.decimal128(9, 3), Decimal("1.25")),
        ({"type": "bytes", **logical("decimal", precision=5, scale=2)}, pa.decimal128(2, 2), Decimal("1.25")),
        (record("int", "string"), pa.struct([("f1", pa.string()), ("other", pa.int32())]), {"f0": 1, "f1": "a"}),
        ({"type": "array", "items": "int"}, pa.map_(pa.string(), pa.int32()), [1]),
        (["null", "int"], pa.int32(), None),
        ({"type": "map", "values": "int"}, pa.map_(pa.string(), pa.int64()), {"a": 1}),
        ("null", pa.int32(), None),
    ],
)
def test_types_that_a_user_gives_take_what_pyarrow_takes(kind: Any, wanted: Any, value: Any) -> None:
    """Without a registry, as Spark's `valueSchema` beside `valueAvroSchema`."""
    schema = fastavro.parse_schema(record(kind) | {"name": "Outer"})
    content = BytesIO()
    fastavro.schemaless_writer(content, schema, {"f0": value})
    raw = pa.struct([("f0", wanted)])

    def unpack(given: bytes) -> Any:
        stream = BytesIO(given)
        return fastavro.schemaless_reader(stream, schema, None)

    both(pa.array([content.getvalue(), None], pa.binary()), raw, raw, unpack, of_schema(schema))


def test_a_program_that_does_not_fit_its_columns_is_rejected() -> None:
    kernel = needed_kernel()
    shapes = Columns(kind := pa.struct([("a", pa.int32())]), kind).shapes
    for steps in ((4, 0), (4, 2), (8, 1), (99, 1), (13, 1), (6, -2)):
        with pytest.raises(ValueError, match="does not fit its columns"):
            kernel.AvroProgram(shapes, struct.pack("<8q", *steps, -1, 0, 0, 0, 0, 0), b"", b"")
    for first, count in ((0, 1), (-1, 1), (0, -1), (1, 0)):
        with pytest.raises(ValueError, match="does not fit its columns"):
            kernel.AvroProgram(shapes, struct.pack("<8q", 11, 0, -1, 0, 0, 0, first, count), b"", b"")
    with pytest.raises(ValueError, match="does not fit its columns"):
        kernel.AvroProgram(shapes, struct.pack("<8q", 11, 0, -1, 0, 0, 0, 0, 1), struct.pack("<i", 0), b"")


_WITHOUT_MEMORY = """
import resource, struct, sys
from importlib import util
spec = util.spec_from_file_location("loops", sys.argv[1])
kernel = util.module_from_spec(spec)
spec.loader.exec_module(kernel)
# Lists of texts, of which one has three million that are empty: only their ends take memory.
shapes = struct.pack("<8q", 2, 0, 1, -1, 1, 0, -1, -1)
steps = struct.pack("<16q", 8, 1, -1, 1, 0, 0, 0, 0, 12, 0, -1, 0, 0, 0, 0, 1)
program = kernel.AvroProgram(shapes, steps, bytes(4), b"")
content = bytes.fromhex("809bee02") + bytes(3_000_000 + 1)
values = kernel.BytesColumn(0, 1, None, struct.pack("<2i", 0, len(content)), content)
columns, marks = kernel.AvroColumns(shapes), bytearray(1)
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (6 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    columns.append(values, 0, program, None, marks)
except MemoryError:
    print("no memory")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit and its measure are those of Linux")
def test_a_column_that_gets_no_more_memory_writes_nowhere_else() -> None:
    command = [sys.executable, "-c", _WITHOUT_MEMORY, str(needed_kernel().__file__)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "no memory\n"), ended.stderr
