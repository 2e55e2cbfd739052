"""`odradek sql`: topics as tables, what of them is read, and how rows are printed."""

from __future__ import annotations

import asyncio
import csv
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="pip install 'odradek[sql]'")
pytest.importorskip("numpy", reason="pip install 'odradek[sql]'")

from odradek.client import Admin, NewTopic, Producer
from odradek.client.arrow import decoder
from odradek.client.arrow.brokers import Brokers
from odradek.client.arrow.direct_read import range_reader
from odradek.client.arrow.fetch import OffsetRange, RangeFetch
from odradek.client.errors import InvalidOption
from odradek.client.spark.options import SourceOptions
from odradek.client.sql.fields import parse_fields
from odradek.client.sql.topic_dataset import Span
from odradek.client.sql.topic_tables import TopicTables
from odradek.tests.support.documents.command import run, threaded_broker

# Of today: a broker deletes what is older than its retention.
FIRST_MS = int(time.time()) * 1000 - 3_600_000
ROWS = 60
# Topics that a careless view makes unusable: name -> value, and what the columns behind those of every topic hold.
ODD: dict[str, tuple[bytes | None, dict[str, Any]]] = {
    "alike": (b'{"Id": 1, "id": 2, "KEY": 3, "x": {"A": 1, "a": 2}}', {"Id": 1, "x": '{"A":1,"a":2}'}),
    "nameless": (b'{"": 1, "a": 2, "x": {"": 3}}', {"a": 2, "x": '{"":3}'}),
    "quoting": (b"""{"a\\"b": 1, "c'd": 2, "e;f": 3}""", {'a"b': 1, "c'd": 2, "e;f": 3}),
    "deep": (b'{"a": ' * 200 + b"1" + b"}" * 200, {}),
    "select": (b'{"order": 1}', {"order": 1}),
    "nothing": (None, {}),
    "x.y.z": (b'{"a": 1}', {"a": 1}),
    # Views of DuckDB.
    "duckdb_tables": (b'{"a": 1}', {"a": 1}),
    "sqlite_master": (b'{"a": 1}', {"a": 1}),
}


async def _fill(address: str) -> None:
    async with Admin(address) as admin, Producer(address) as producer:
        single = (NewTopic(name, 1) for name in ("my-topic", "a.b", *ODD))
        await admin.create_topics([NewTopic("flights", 3), *single])
        for number in range(ROWS):
            value = {"carrier": "LH" if number % 2 else "AF", "delay": number - 10, "place": {"gate": f"A{number}"}}
            await producer.send("flights", json.dumps(value).encode(), key=b"k%d" % number, partition=number % 3,
                                timestamp_ms=FIRST_MS + number * 1000)  # fmt: skip
        for value in (b"plain", None, "ü".encode()):
            await producer.send("my-topic", value)
        await producer.send("a.b", b"\xff\x00", key=b"\xfe", headers=[("h", b"1")])
        for name, (value, _) in ODD.items():
            if value is not None:
                await producer.send(name, value)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with threaded_broker(tmp_path_factory.mktemp("data")) as broker:
        asyncio.run(_fill(broker.address))
        yield broker.address


def asked(address: str, sql: str, **rest: Any) -> list[tuple[Any, ...]]:
    with tables_of(address, **rest) as tables:
        return [row for portion in tables.run(sql)[1] for row in portion]


def tables_of(address: str, **rest: Any) -> TopicTables:
    options = {"kafka.bootstrap.servers": address, "path": rest.pop("path", "auto")}
    return TopicTables(options, **rest)


def lines(address: str, *args: str) -> list[str]:
    result = run("sql", *args, "-b", address)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


@pytest.mark.parametrize("path", ["direct", "fetch"])
def test_fields_of_json_are_columns(address: str, path: str) -> None:
    sql = "select carrier, sum(delay), max(place.gate) from flights group by 1 order by 1"
    expected = [("AF", sum(range(-10, 50, 2)), "A8"), ("LH", sum(range(-9, 50, 2)), "A9")]
    assert asked(address, sql, path=path) == expected


@pytest.mark.parametrize(
    ("where", "spans", "count"),
    [
        ("partition = 1", [Span(1, 0, 20)], 20),
        ('"offset" >= 15 and partition in (0, 2)', [Span(0, 15, 20), Span(2, 15, 20)], 10),
        ('"offset" between 3 and 4 and delay > 0', [Span(0, 3, 5), Span(1, 3, 5), Span(2, 3, 5)], 4),
        (
            f"timestamp >= '{datetime.fromtimestamp(FIRST_MS / 1000 + 50, UTC).isoformat()}'",
            [Span(0, 17, 20), Span(1, 17, 20), Span(2, 16, 20)],
            10,
        ),
        ("partition = 7", [], 0),
    ],
    # The processes of a test run must give a test the same name, and the time is in one of them.
    ids=["partition", "offset and partition", "offset and field", "time", "nothing"],
)
def test_only_what_can_match_is_read(address: str, where: str, spans: list[Span], count: int) -> None:
    fields = {"carrier": "string", "delay": "int"}
    with tables_of(address, fields=fields) as tables:
        _, portions = tables.run(f"select count(*) from flights where {where}")
        assert [row for portion in portions for row in portion] == [(count,)]
        assert tables.datasets["flights"].scanned == spans


def test_a_limit_ends_the_read(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counting(wanted: OffsetRange, options: SourceOptions, brokers: Brokers) -> RangeFetch:
        read.append(wanted.partition)
        return range_reader(wanted, options, brokers)

    monkeypatch.setattr(decoder, "range_reader", counting)
    assert asked(address, "select partition from flights limit 1", fields={}) == [(0,)]
    assert read == [0]


def test_topics_are_joined_and_quoted(address: str) -> None:
    sql = "select f.key, m.value from flights f, \"my-topic\" m where f.delay = 5 and m.value like 'pl%'"
    assert asked(address, sql) == [("k15", "plain")]
    assert asked(address, 'select count(value), count(*) from "my-topic"') == [(2, 3)]
    assert asked(address, "with x as (select 1 as one) select one from x") == [(1,)]


@pytest.mark.parametrize("topic", ODD)
def test_no_name_of_a_topic_or_of_a_field_makes_a_topic_unusable(address: str, topic: str) -> None:
    value, fields = ODD[topic]
    with tables_of(address) as tables:
        names, portions = tables.run(f'select * exclude (key, value, timestamp) from "{topic}"')
        rows = [dict(zip(names, row, strict=True)) for portion in portions for row in portion]
    always = {"topic": topic, "partition": 0, "offset": 0, "headers": None}
    assert rows == ([] if value is None else [always | fields])
    assert asked(address, f'select count(*) from "{topic}" t tablesample 100%') == [(len(rows),)]


def test_text_must_be_text_unless_bytes_are_asked_for(address: str) -> None:
    assert asked(address, 'select count(*) from "a.b"') == [(1,)]
    with pytest.raises(InvalidOption, match=r"a\.b-0 has a key or value that is no UTF-8"):
        asked(address, 'select value from "a.b"')
    sql = "select key, value, headers from a.b"
    assert asked(address, sql, is_binary=True) == [(b"\xfe", b"\xff\x00", [{"key": "h", "value": b"1"}])]


def test_fields_can_be_given(address: str) -> None:
    sql = "select delay, carrier, extra from flights where key = 'k3'"
    fields = parse_fields("delay double, carrier string, extra decimal(10, 2)")
    assert fields == {"delay": "double", "carrier": "string", "extra": "decimal(10, 2)"}
    assert asked(address, sql, fields=fields) == [(-7.0, "LH", None)]
    for wrong in ("delay", "delay int, delay int", "offset int", "a int; drop", ""):
        with pytest.raises(InvalidOption, match="--schema"):
            parse_fields(wrong)


def test_rows_are_printed_for_pipes_as_json_and_as_csv(address: str) -> None:
    sql = "select key, delay, timestamp from flights where key in ('k1', 'k2') order by 1"
    moments = [datetime.fromtimestamp(FIRST_MS / 1000 + number, UTC).isoformat() for number in (1, 2)]
    assert lines(address, sql) == [f"k1\t-9\t{moments[0]}", f"k2\t-8\t{moments[1]}"]
    assert json.loads(lines(address, sql, "--json")[0]) == {"key": "k1", "delay": -9, "timestamp": moments[0]}
    assert lines(address, sql, "--csv") == ["key,delay,timestamp", f"k1,-9,{moments[0]}", f"k2,-8,{moments[1]}"]


def test_a_result_goes_to_a_file(address: str, tmp_path: Path) -> None:
    target = tmp_path / "flights.parquet"
    lines(address, f"copy (select key, delay from flights) to '{target}'")
    assert asked(address, f"select count(*) from '{target}'") == [(ROWS,)]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["select * from flihgts"], "no topic 'flihgts'; did you mean 'flights'?"),
        (["select * from nope"], "no topic 'nope'; `odradek topics list` has all topics with their partitions\n"),
        (["select * from my-topic"], 'quote "my-topic" and "offset"'),
        (["insert into flights values (1)"], "; topics cannot be written by SQL"),
        (["select 1; select 2"], "odradek: give one statement of SQL, not 2\n"),
        (["/* nothing */"], "odradek: give one statement of SQL, not 0\n"),
        (["select nothing from flights"], "nothing"),
        (["select 1 from x.y.z"], 'a name with two dots needs quotes: "x.y.z"'),
        (['select value from "a.b"'], "--binary"),
    ],
)
def test_what_is_wrong_is_one_line(address: str, args: list[str], text: str) -> None:
    result = run("sql", *args, "-b", address)
    assert result.exit_code == 1
    assert text in result.output
    assert len(result.output.splitlines()) == 1


@pytest.mark.parametrize("sql", ["", " \n"])
def test_no_sql_is_wrong_usage(address: str, sql: str) -> None:
    result = run("sql", sql, "-b", address)
    assert result.exit_code == 2 and result.stderr.endswith("Error: SQL is empty\n")


def test_intervals_and_times_are_iso_8601_wherever_they_stand(address: str) -> None:
    sql = """select interval '1 month' + interval '2 day' + interval '1 hour 90 second 5 millisecond' as a,
             -interval '61 second' as b, interval '0 day' as c, interval '1 hour' - interval '3 day' as d,
             [interval '1 month', null] as e, {'at': timestamp '2026-01-01'} as f, map{interval '1 day': 2} as g"""
    shown = {
        "a": "P1M2DT1H1M30.005S", "b": "PT-1M-1S", "c": "PT0S", "d": "P-3DT1H", "e": ["P1M", None],
        "f": {"at": "2026-01-01T00:00:00"}, "g": [["P1D", 2]],
    }  # fmt: skip
    assert json.loads(lines(address, sql, "--json")[0]) == shown
    assert next(csv.DictReader(lines(address, sql, "--csv"))) == {
        name: each if isinstance(each, str) else json.dumps(each) for name, each in shown.items()
    }
    assert lines(address, sql)[0].split("\t")[:4] == [shown[name] for name in "abcd"]


def test_lists_and_structs_in_csv_are_the_json_of_the_rows(address: str) -> None:
    pairs = "{'key': 'k', 'value': '\\xC3\\xA9\\xFF'::blob}, {'key': 'ü', 'value': 'v'::blob}"
    sql = f"select [{pairs}] as a, ['nan'::double] as b"
    (shown,) = lines(address, sql, "--json")
    assert json.loads(shown) == {
        "a": [{"key": "k", "value": {"base64": "w6n/"}}, {"key": "ü", "value": "v"}], "b": [None],
    }  # fmt: skip
    (row,) = csv.DictReader(lines(address, sql, "--csv"))
    assert {name: json.loads(each) for name, each in row.items()} == json.loads(shown)


def test_a_schema_that_is_none_is_wrong_usage(address: str) -> None:
    result = run("sql", "select a from flights", "--schema", "a", "-b", address)
    assert result.exit_code == 2
    assert result.stderr.endswith("Error: --schema: 'a' is no name and type, as in: carrier string, delay int\n")


@pytest.mark.parametrize("gone", [("duckdb",), ("duckdb", "pyarrow", "numpy")], ids=" ".join)
def test_without_the_packages_it_says_what_to_install(gone: tuple[str, ...]) -> None:
    code = (
        "import importlib.util as util, sys; find = util.find_spec\n"
        f"util.find_spec = lambda name, *more: None if name in {gone} else find(name, *more)\n"
        f"sys.modules.update(dict.fromkeys({gone}))\n"
        "from odradek.cli import main; main(['sql', 'select 1'])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    remedy = f"odradek: SQL needs {' and '.join(gone)}: pip install 'odradek[sql]' ('.[sql]' in a clone)\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", remedy)


def test_a_join_prints_the_columns_of_both_sides(address: str) -> None:
    sql = "select a.key, b.key from flights a join flights b on a.key = 'k0' and b.key = 'k1'"
    assert lines(address, sql) == ["k0\tk1"]
    assert json.loads(lines(address, sql, "--json")[0]) == {"key": "k0", "key_1": "k1"}
