"""Topics as tables: each query sees the log as it is then, names are DuckDB's, and no field takes others away."""
# pyright: basic

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="pip install 'odradek[sql]'")
pytest.importorskip("pyarrow", reason="pip install 'odradek[sql]'")

from odradek.client import Admin, NewTopic, Producer
from odradek.client.errors import InvalidOption, UnknownTopic
from odradek.client.sql import topic_tables
from odradek.client.sql.topic_tables import TopicTables
from odradek.tests.support.documents.command import threaded_broker


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with threaded_broker(tmp_path_factory.mktemp("data")) as broker:
        yield broker.address


def fill(address: str, topic: str, *values: Any, key: bytes | None = None, new: bool = True) -> None:
    async def work() -> None:
        async with Admin(address) as admin, Producer(address) as producer:
            if new:
                await admin.create_topics([NewTopic(topic, 1)])
            for each in values:
                content = each if isinstance(each, bytes) or each is None else json.dumps(each).encode()
                await producer.send(topic, content, key=key)

    asyncio.run(work())


def tables(address: str, **options: Any) -> TopicTables:
    return TopicTables({"kafka.bootstrap.servers": address, "path": "fetch"}, **options)


def rows(using: TopicTables, sql: str) -> list[tuple[Any, ...]]:
    return [row for portion in using.run(sql)[1] for row in portion]


def test_each_query_sees_the_log_as_it_is_then(address: str) -> None:
    fill(address, "growing", {"a": 1})
    with tables(address) as using:
        assert rows(using, "select a from growing") == [(1,)]
        fill(address, "growing", {"a": 2, "b": "new"}, new=False)
        assert rows(using, "select a from growing") == [(1,), (2,)]
        assert rows(using, "select b from growing where b is not null") == [("new",)]
        assert rows(using, "create view mine as select max(a) as most from growing") == []
        fill(address, "growing", {"a": 7}, new=False)
        assert rows(using, "from mine") == [(7,)]


def test_a_topic_that_is_made_again_is_another_one(address: str) -> None:
    async def remove() -> None:
        async with Admin(address) as admin:
            await admin.delete_topics("again")

    fill(address, "again", {"a": 1}, {"a": 2})
    with tables(address) as using:
        assert rows(using, "select a from again") == [(1,), (2,)]
        asyncio.run(remove())
        with pytest.raises(UnknownTopic, match="no topic 'again'"):
            using.run("select a from again")
        fill(address, "again", {"b": "x"})
        assert rows(using, "select b from again") == [("x",)]


def test_names_are_those_of_duckdb(address: str) -> None:
    fill(address, "Orders", {"a": 1})
    fill(address, "Cases", {"a": "upper"})
    fill(address, "cases", {"a": "lower"})
    with tables(address) as using:
        assert rows(using, "select a from orders") == rows(using, 'select a from "Orders"') == [(1,)]
        assert rows(using, 'select a from "Cases"') == [("upper",)]
        assert rows(using, 'select a from "cases"') == [("lower",)]
        assert rows(using, 'select c.a from "Cases" c') == [("upper",)]
        assert rows(using, 'with x as (select * from "cases") select a from x') == [("lower",)]
        for name in ("cases", "CASES", "Cases"):
            with pytest.raises(InvalidOption, match="quote the one that you mean") as refused:
                using.run(f"select a from {name}")
            assert '"Cases"' in refused.value.message and '"cases"' in refused.value.message
        with pytest.raises(InvalidOption, match="differ by upper and lower case alone"):
            using.run('select * from "Cases" a, "cases" b')


def test_every_form_of_a_query_reaches_a_topic(address: str, tmp_path: Any) -> None:
    fill(address, "forms", {"i": 1, "j": "x"}, {"i": 2, "j": "y"})
    (tmp_path / "more.csv").write_text("i,k\n1,one\n2,two\n")
    with tables(address) as using:
        assert len(rows(using, "from forms")) == len(rows(using, "select * from forms")) == 2
        assert rows(using, "select a.i from forms a join forms b using (i) where b.i = 2") == [(2,)]
        joined = f"select j, k from forms join '{tmp_path}/more.csv' using (i) order by 1"
        assert rows(using, joined) == [("x", "one"), ("y", "two")]
        assert rows(using, "select columns('^i$') from forms order by 1") == [(1,), (2,)]
        rows(using, f"copy (select * from forms natural join (select 1 as i)) to '{tmp_path}/out.parquet'")
        assert rows(using, f"select j from '{tmp_path}/out.parquet'") == [("x",)]
        assert "i" in {row[0] for row in rows(using, "summarize forms")}
        rows(using, "create table kept as select i from forms")
        assert rows(using, "select count(*) from kept join forms using (i)") == [(2,)]
        assert rows(using, "with forms as (select 5 as i) select i from forms") == [(5,)]


def test_a_pivot_finds_its_values_itself(address: str) -> None:
    fill(address, "my-sales", *({"c": "ab"[n % 2], "y": 2020 + n % 2, "n": n} for n in range(4)))
    inner = """select c, y, n from "my-sales" where c <> 'my sales'"""
    with tables(address) as using:
        for sql in (
            'pivot "my-sales" on y using sum(n) group by c order by c',
            'select * from (pivot "my-sales" on y using sum(n) group by c) order by c',
            f"with p as (pivot ({inner}) on y using sum(n)) from p order by c",
        ):
            assert rows(using, sql) == [("a", 2, None), ("b", None, 4)]
        with pytest.raises(InvalidOption, match="no-sales"):
            rows(using, 'pivot "no-sales" on y using sum(n)')


def test_a_query_ends_the_one_before(address: str) -> None:
    fill(address, "ended", *({"i": number} for number in range(5_000)))
    with tables(address) as using:
        _, portions = using.run("select i from ended")
        next(portions)
        assert rows(using, "select count(*) from ended") == [(5_000,)]
        with pytest.raises(InvalidOption, match="a later query has ended this one"):
            next(portions)


def test_whole_numbers_of_any_size_come_through(address: str) -> None:
    large = [2**63, 2**64 - 1, -(2**63), 5]
    fill(address, "large", *({"a": each, "b": 1} for each in large))
    with tables(address) as using:
        assert rows(using, "select a, typeof(b) from large") == [(each, "BIGINT") for each in large]
        assert rows(using, "select sum(b) from large") == [(4,)]
        assert all(type(each[0]) is int for each in rows(using, "select a from large"))


def test_decimals_of_many_places_are_not_null(address: str) -> None:
    fill(address, "decimals", {"a": 0.0, "b": "0E-10"}, {"a": 1e-7, "b": "1E-10"}, {"a": 1.00000005, "b": "1e-11"})
    with tables(address, fields={"a": "decimal(18, 7)", "b": "decimal(20, 10)"}) as using:
        found = [
            [None if each is None else str(each) for each in row] for row in rows(using, "select a, b from decimals")
        ]
    assert found == [["0E-7", "0E-10"], ["1E-7", "1E-10"], [None, None]]


def test_one_value_that_is_no_object_takes_no_column_away(address: str) -> None:
    fill(address, "mixed", 7, {"a": 1}, [1], "text", {"b": "x"}, b"not JSON", None)
    with tables(address) as using:
        assert rows(using, "select a, b from mixed where a is not null or b is not null") == [(1, None), (None, "x")]
        assert rows(using, "select count(*), count(value), count(a) from mixed") == [(7, 6, 1)]


def test_a_condition_needs_no_column_that_its_text_only_looks_like(address: str) -> None:
    fill(address, "texts", {"a": "the key"}, {"a": "headers"}, key=b"\xff")
    with tables(address) as using:
        assert rows(using, "select a from texts where a = 'the key'") == [("the key",)]
        assert rows(using, """select "offset" from texts where value like '%headers%'""") == [(1,)]
        with pytest.raises(InvalidOption, match="no UTF-8"):
            rows(using, "select key from texts")
        # What failed in one query says nothing about the next one.
        with pytest.raises(InvalidOption, match="nothing"):
            rows(using, "select nothing from texts")


def test_dates_beyond_those_of_python_are_texts(address: str) -> None:
    sql = (
        "select '12000-01-02'::date, ['12000-01-02'::date], {'x': '12000-01-02 03:04:05'::timestamp}, 'infinity'::date"
    )
    with tables(address) as using:
        ((day, days, moment, _),) = rows(using, sql)
    assert (day, days) == ("12000-01-02", ["12000-01-02"]) and moment["x"].startswith("12000-01-02 03:04:05")


def test_many_fields_cost_little_and_their_bound_is_told(
    address: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_tables, "MAX_FIELDS", 100)
    fill(address, "wide", {f"k{number}": number for number in range(400)})
    asked: list[list[str]] = []
    plain = topic_tables.JsonFields.arrays

    def counting(self: Any, values: Any, names: Any) -> Any:
        asked.append(list(names))
        return plain(self, values, names)

    monkeypatch.setattr(topic_tables.JsonFields, "arrays", counting)
    with tables(address) as using, caplog.at_level(logging.WARNING):
        assert rows(using, "select k7, k99 from wide where k8 = 8") == [(7, 99)]
        assert asked == [["k7", "k8", "k99"]]
        assert "wide: the first 100 of 400 fields of JSON records are columns" in caplog.text
        assert rows(using, "select value ->> 'k399' from wide") == [("399",)]
        with pytest.raises(InvalidOption, match="k399"):
            using.run("select k399 from wide")


def test_only_committed_records_are_read_unless_others_are_asked_for(address: str) -> None:
    async def work() -> None:
        async with Producer(address, transactional_id="sql") as producer:
            async with producer.transaction():
                await producer.send_and_wait("committed", b'{"a": 1}')
            with pytest.raises(RuntimeError, match="given up"):
                async with producer.transaction():
                    await producer.send_and_wait("committed", b'{"a": 2}')
                    raise RuntimeError("given up")

    fill(address, "committed")
    asyncio.run(work())
    with tables(address) as using:
        assert rows(using, "select a from committed") == [(1,)]
    options = {"kafka.bootstrap.servers": address, "kafka.isolation.level": "read_uncommitted"}
    with TopicTables(options) as using:
        assert rows(using, "select a from committed") == [(1,), (2,)]
