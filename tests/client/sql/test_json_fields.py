"""Fields of JSON values as columns: a value is what JSON says, or null. Nothing is rounded in silence."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.client.errors import InvalidOption
from odradek.client.sql.fields import as_read, checked, columns_of, sampled_kinds

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-5, 5),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.sampled_from([10.6, 10.0, -0.5, 1e300]),
    st.text(max_size=3),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b b", 'c"']), VALUES, max_size=3)


def columns(kinds: dict[str, Any], value: object) -> dict[str, Any]:
    """Return each column of one JSON value, as a view of a topic takes it."""
    shown = ", ".join(checked(kind, 'fields."' + name.replace('"', '""') + '"') for name, kind in kinds.items())
    asked = f"SELECT {shown} FROM (SELECT from_json(?, ?) AS fields)"
    found = duckdb.execute(asked, [json.dumps(value), json.dumps(as_read(kinds))]).fetchone()
    return dict(zip(kinds, found or (), strict=True))


def sampled(value: object) -> dict[str, Any]:
    found = duckdb.execute("SELECT json_group_structure(?::JSON)", [json.dumps(value)]).fetchone()
    return columns_of(json.loads((found or ("{}",))[0]))


def agrees(shown: Any, value: Any) -> bool:
    """Whether a column says of a value what JSON says, or nothing."""
    if shown is None:
        return True
    if isinstance(shown, dict):
        said = value if isinstance(value, dict) else {}  # for anything else DuckDB has a struct of nulls
        return all(agrees(each, said.get(name)) for name, each in shown.items())
    if isinstance(shown, list):
        return isinstance(value, list) and all(map(agrees, shown, value))
    if isinstance(shown, bool):
        return shown is value or value == ("true" if shown else "false")
    if isinstance(shown, int):
        return not isinstance(value, bool) and (shown == value or str(shown) == str(value))
    if isinstance(shown, Decimal):
        return not isinstance(value, bool) and shown == Decimal(str(value))
    if not isinstance(shown, float):
        return True
    return not isinstance(value, bool) and (isinstance(value, str) or shown == pytest.approx(value))


@given(OBJECTS, OBJECTS)
def test_a_column_has_what_the_value_says_or_null(first: dict[str, Any], later: dict[str, Any]) -> None:
    kinds = sampled(first)
    if kinds:
        found = columns(kinds, later)
        assert all(agrees(shown, later.get(name)) for name, shown in found.items()), (kinds, found)


def test_a_sampled_value_deeper_than_a_stack_is_no_column_or_an_error_in_words() -> None:
    assert sampled_kinds(["[" * 500_000 + "9" * 19, '{"n": 1}']) == {"n": "BIGINT"}
    with pytest.raises(InvalidOption):
        sampled_kinds(['{"a":' * 500_000 + "9" * 19 + "}" * 500_000])


@given(st.sampled_from(["DOUBLE", "FLOAT", "DECIMAL(9,2)", "DECIMAL(38,20)"]), LEAVES | st.decimals(-9, 9).map(str))
def test_a_number_has_what_the_value_says_or_null(kind: str, value: object) -> None:
    (shown,) = columns({"a": kind}, {"a": value}).values()
    assert agrees(shown, value), (kind, value, shown)


@given(st.dictionaries(st.sampled_from(["a", "b b"]), st.integers(-(2**63), 2**63 - 1) | st.booleans(), min_size=1))
def test_whole_numbers_and_booleans_come_through(value: dict[str, Any]) -> None:
    assert columns(sampled(value), value) == value


@pytest.mark.parametrize(
    ("kind", "text", "shown"),
    [
        ("BIGINT", 10.6, None),
        ("BIGINT", 10.0, 10),
        ("BIGINT", 2**53 + 1, 2**53 + 1),
        ("BIGINT", True, None),
        ("INTEGER", 2**31, None),
        ("TINYINT", -128, -128),
        ("DOUBLE", True, None),
        ("DOUBLE", "1.5", 1.5),
        ("DOUBLE", 2**53, float(2**53)),
        ("FLOAT", False, None),
        ("FLOAT", 1e300, None),
        ("DECIMAL(5,2)", True, None),
        ("DECIMAL(5,2)", 1.005, None),
        ("DECIMAL(5,2)", "1.005", None),
        ("DECIMAL(5,2)", -1.5, Decimal("-1.50")),
        ("DECIMAL(5,2)", "1.500", Decimal("1.50")),
        ("DECIMAL(5,2)", 1000, None),
        ("DECIMAL(5,2)", None, None),
        ("DECIMAL(5,2)", "", None),
        ("DECIMAL(18,0)", 0.5, None),
        ("DECIMAL(38,20)", 0.1234567890123456, None),
        ("DECIMAL(38,20)", "0.12345678901234567891", Decimal("0.12345678901234567891")),
        ("DECIMAL(38,0)", 2**70, Decimal(2**70)),
        ([{"x": "DECIMAL(4,1)", "y": "DOUBLE"}], [{"x": 0.25, "y": True}], [{"x": None, "y": None}]),
        ("BOOLEAN", 1, None),
        ("BOOLEAN", True, True),
        (["BIGINT"], [1, 2.5], [1, None]),
        ({"x": "BIGINT", "y": "VARCHAR"}, {"x": 0.5, "y": "z"}, {"x": None, "y": "z"}),
        ({"x": "BIGINT"}, None, None),
        ([{"x": ["BIGINT"]}], [{"x": [1.5, 2]}, None], [{"x": [None, 2]}, None]),
    ],
)
def test_what_does_not_fit_is_null(kind: Any, text: Any, shown: Any) -> None:
    assert columns({"a": kind}, {"a": text}) == {"a": shown}
