"""The fields of JSON values as columns: their names and types, and the SQL by which DuckDB takes each from a value.

A field that does not fit its type is null. DuckDB would round 10.6 to 11 where the type is a whole number, round what
has more decimals than a DECIMAL, and take 1 for true and true for 1. So numbers and booleans are read as text or as
JSON, and checked.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# duckdb and pyarrow have no complete types. A type is what json.loads makes of DuckDB's answer: a str, a dict of types,
# or a list of one.

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from ..errors import InvalidOption

# A table's own columns, the cheapest first: DuckDB takes the first one where a query needs none, as count(*).
COLUMNS = ("offset", "partition", "timestamp", "key", "value", "topic", "headers")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_ ]*(\(\d+(,\s*\d+)?\))?")
_WHOLE = frozenset(
    f"{sign}{size}" for sign in ("", "U") for size in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
)
_FLOATING = frozenset(("FLOAT", "DOUBLE"))
# DuckDB reads a number with a fraction as a double, which has 15 digits for certain.
_SURE_DIGITS = 15
# The SQL of a field grows with each level, and an Arrow schema ends at 64.
_MAX_LEVELS = 32
# 10.0 is whole.
_WHOLE_TEXT = rf"-?(\d+|\d{{1,{_SURE_DIGITS}}}\.0+)"
_DECIMAL = re.compile(r"DECIMAL\(\d+,(\d+)\)")
# A number that may be beyond a BIGINT. DuckDB calls each whole number that is not below 0 a UBIGINT.
_LARGE = re.compile(r"(?<![\d.])\d{19,}(?![\d.])")


def parse_fields(text: str) -> dict[str, str]:
    """Return name -> type from "a int, b string". Raises InvalidOption."""
    fields: dict[str, str] = {}
    for part in re.split(r",(?![^(]*\))", text):
        name, _, kind = part.strip().partition(" ")
        name, kind = name.rstrip(":"), kind.strip()
        if not _NAME.fullmatch(name) or not _TYPE.fullmatch(kind):
            raise InvalidOption(f"--schema: {part.strip()!r} is no name and type, as in: carrier string, delay int")
        if name.lower() in COLUMNS or name.lower() in map(str.lower, fields):
            raise InvalidOption(f"--schema: a table has a column {name!r} already")
        fields[name] = kind
    return fields


def columns_of(structure: Any) -> dict[str, Any]:
    """Return the columns of a sampled structure. `value ->> 'Name'` reaches fields that are left out.

    Left out are those without a name, those that differ from another column by upper and lower case alone, and those
    of more than `_MAX_LEVELS` levels.
    """
    found: dict[str, Any] = {}
    taken = {"", *COLUMNS}
    for name, kind in structure.items() if isinstance(structure, dict) else ():
        if name.lower() not in taken and not _is_deeper(kind, _MAX_LEVELS):
            taken.add(name.lower())
            found[name] = _signed(kind)
    return found


def _is_deeper(kind: Any, levels: int) -> bool:
    """Return whether a type has parts in parts of more levels."""
    if isinstance(kind, dict | list):
        parts = kind.values() if isinstance(kind, dict) else kind
        return levels == 0 or any(_is_deeper(each, levels - 1) for each in parts)
    return False


def _signed(kind: Any) -> Any:
    """Return a sampled type with room for what the sample did not have: numbers below 0.

    What DuckDB has no struct for, because of a name that is empty or comes twice, stays JSON.
    """
    if isinstance(kind, dict):
        if len({"", *map(str.lower, kind)}) <= len(kind):
            return "JSON"
        return {name: _signed(each) for name, each in kind.items()}
    if isinstance(kind, list):
        return [_signed(each) for each in kind]
    return {"UBIGINT": "BIGINT", "HUGEINT": "BIGINT", "NULL": "VARCHAR"}.get(kind, kind)


def as_read(kind: Any) -> Any:
    """Return the type in which `from_json` reads a field of this type."""
    if isinstance(kind, dict):
        return {name: as_read(each) for name, each in kind.items()}
    if isinstance(kind, list):
        return [as_read(each) for each in kind]
    if _DECIMAL.fullmatch(kind):
        return "JSON"  # a text keeps its quotes: it has all of its digits
    return "VARCHAR" if _is_checked(kind) else kind


def checked(kind: Any, value: str, depth: int = 0) -> str:
    """Return the SQL for a value of this type from the expression `value`, which has the type `as_read`."""
    if not _is_checked(kind):
        return value
    if isinstance(kind, dict):
        parts = (f"{quoted(name)} := {checked(each, f'{value}.{quoted(name)}', depth)}" for name, each in kind.items())
        return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({', '.join(parts)}) END"
    if isinstance(kind, list):
        return f"list_transform({value}, lambda e{depth}: {checked(kind[0], f'e{depth}', depth + 1)})"
    if kind == "BOOLEAN":
        return f"CASE {value} WHEN 'true' THEN true WHEN 'false' THEN false END"
    if kind in _FLOATING:
        return f"TRY_CAST(TRY_CAST({value} AS DOUBLE) AS {kind})"  # a text of 1e300 would be an infinite FLOAT
    fits = f"regexp_full_match({value}, '{_WHOLE_TEXT}')"
    decimal = _DECIMAL.fullmatch(kind)
    if decimal:
        digits = rf"-?\d+(\.\d{{0,{decimal[1]}}}0*)?"
        is_sure = f"({value} NOT LIKE '%.%' OR {value} LIKE '\"%' OR length(ltrim({value}, '-')) <= {_SURE_DIGITS + 1})"
        fits = f"regexp_full_match({value}, '{digits}|\"{digits}\"') AND {is_sure}"
        value = f"trim({value}, '\"')"
        is_power = (
            f"contains(lower({value}), 'e') AND TRY_CAST({value} AS {kind})::DOUBLE = TRY_CAST({value} AS DOUBLE)"
        )
        fits = f"({fits} OR {is_power})"
    return f"CASE WHEN {fits} THEN TRY_CAST({value} AS {kind}) END"


def _is_checked(kind: Any) -> bool:
    if isinstance(kind, dict):
        return any(map(_is_checked, kind.values()))
    if isinstance(kind, list):
        return any(map(_is_checked, kind))
    return kind == "BOOLEAN" or kind in _WHOLE | _FLOATING or bool(_DECIMAL.fullmatch(kind))


def quoted(name: str) -> str:
    """Return a name as SQL has it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def sampled_kinds(texts: Sequence[str]) -> dict[str, Any]:
    """Return the columns that JSON objects have together; other values say nothing. Raises InvalidOption."""
    asked = "SELECT json_group_structure(value::JSON) FROM rows WHERE json_valid(value) AND json_type(value) = 'OBJECT'"
    # One value of more than 128 levels makes DuckDB give up a whole database: this one is not needed again.
    with duckdb.connect() as sampling:
        sampling.register("rows", pa.table({"value": pa.array(texts, pa.string())}))
        try:
            ((found,),) = sampling.execute(asked).fetchall()
            kinds = columns_of(json.loads(found)) if found else {}
        except (duckdb.Error, RecursionError) as error:
            raise InvalidOption(str(error).split("\n", 1)[0]) from None
    for text in filter(_LARGE.search, texts):
        for name, value in _object(text).items():
            if name in kinds and _LARGE.search(json.dumps(value)):
                kinds[name] = _widened(kinds[name])
    return kinds


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _widened(kind: Any) -> Any:
    if isinstance(kind, dict):
        return {name: _widened(each) for name, each in kind.items()}
    if isinstance(kind, list):
        return [_widened(each) for each in kind]
    return "HUGEINT" if kind == "BIGINT" else kind


class JsonFields:
    """Columns of JSON texts, which a DuckDB of their own makes: of those alone that a scan needs."""

    # It takes texts of values, and not the values themselves.
    reads_bytes = False

    def __init__(self, kinds: Mapping[str, Any]) -> None:
        """`kinds` are names and types. Raises InvalidOption for a type that DuckDB does not know."""
        self._duck: Any = duckdb.connect(config={"threads": 1})
        self._kinds = {name: self._named(kind) if isinstance(kind, str) else kind for name, kind in kinds.items()}
        # The columns of no rows have the types.
        self.schema: Any = self._columns([], list(self._kinds)).schema

    def _named(self, kind: str) -> str:
        """Return DuckDB's own name of a type, such as INTEGER for int."""
        try:
            ((name,),) = self._duck.execute(f"SELECT typeof(CAST(NULL AS {kind}))").fetchall()
        except duckdb.Error as error:
            raise InvalidOption(str(error).split("\n", 1)[0]) from None
        return name

    def arrays(self, values: Any, names: Sequence[str]) -> list[Any]:
        """Return the columns of these names, of an Arrow array of texts."""
        return [each.combine_chunks() for each in self._columns(values, names).columns]

    def _columns(self, values: Any, names: Sequence[str]) -> Any:
        kinds = {name: self._kinds[name] for name in names}
        shown = ", ".join(
            f"{checked(kind, f'fields.{quoted(name)}')} AS {quoted(name)}" for name, kind in kinds.items()
        )
        structure = json.dumps(as_read(kinds)).replace("'", "''")
        parsed = f"CASE WHEN json_valid(value) THEN from_json(value, '{structure}') END AS fields"
        self._duck.register("rows", pa.table({"value": pa.array(values, pa.string())}))
        try:
            table = self._duck.sql(f"SELECT {shown} FROM (SELECT {parsed} FROM rows)").to_arrow_table()
        except duckdb.Error as error:
            raise InvalidOption(f"the fields of JSON values: {str(error).splitlines()[0]}") from None
        return table.combine_chunks()
