"""The fields of JSON values as columns: their names and types, and the SQL that takes each from a value.

A field that does not fit its type is null. DuckDB would round 10.6 to 11 where the type is a whole number, round what
has more decimals than a DECIMAL, and take 1 for true and true for 1. So numbers and booleans are read as text or as
JSON, and checked.

Keys and values of a schema registry are such JSON too. The fields of the subject's latest version are the columns, and
records are read as that version has them. A bad record is JSON with one field, `_corrupt_record`, that holds all of its
bytes in base64.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types. A type is what json.loads makes of DuckDB's answer: a str, a dict of types, or a list of one.

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..errors import InvalidOption, KafkaError, SchemaRegistryRefused
from ..schemas.plain_json import to_json
from ..schemas.tables import table_of
from .topic_dataset import COLUMNS

if TYPE_CHECKING:
    from ..schemas.registered import RegisteredSerializer

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_ ]*(\(\d+(,\s*\d+)?\))?")
_WHOLE = frozenset(
    f"{sign}{size}" for sign in ("", "U") for size in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
)
_FLOATING = frozenset(("FLOAT", "DOUBLE"))
# DuckDB reads a number with a fraction as a double, which has 15 digits for certain.
_SURE_DIGITS = 15
# The SQL of a field grows with each level, and an Arrow schema ends at 64.
_MOST_LEVELS = 32
# 10.0 is whole.
_WHOLE_TEXT = rf"-?(\d+|\d{{1,{_SURE_DIGITS}}}\.0+)"
_DECIMAL = re.compile(r"DECIMAL\(\d+,(\d+)\)")
CORRUPT = "_corrupt_record"
# Bytes -> the text of their JSON.
Decode = Callable[[bytes], str]
_DUCK: Mapping[Any, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.date32(): "DATE",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP WITH TIME ZONE",
    pa.timestamp("us"): "TIMESTAMP",
}


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
    of more than `_MOST_LEVELS` levels.
    """
    found: dict[str, Any] = {}
    taken = {"", *COLUMNS}
    for name, kind in structure.items() if isinstance(structure, dict) else ():
        if name.lower() not in taken and not _is_deeper(kind, _MOST_LEVELS):
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


# -- Of a schema registry


def decoder_of(topic: str, field: str, serializer: RegisteredSerializer) -> Decode:
    """Return what makes JSON of the keys or values of a topic. It raises the errors of the registry alone."""
    reader = _as_latest(topic, field, serializer)

    def decode(content: bytes) -> str:
        try:
            value = to_json(reader.decode(content, topic, field))
        except KafkaError:
            raise
        except Exception:  # noqa: BLE001 - whatever is wrong with a record, it is a bad one
            value = {CORRUPT: b64encode(content).decode()}
        return json.dumps(value, ensure_ascii=False)

    return decode


def fields_of(topic: str, serializer: RegisteredSerializer) -> dict[str, Any] | None:
    """Return the columns of values with DuckDB's types: those of the subject. None if the registry does not say."""
    reader = _as_latest(topic, "value", serializer)
    kind = getattr(reader, "type", None)
    if kind is None or not pa.types.is_struct(kind):
        return None
    return {each.name: _duck(each.type) for each in kind} | {CORRUPT: "VARCHAR"}


def _as_latest(topic: str, field: str, serializer: RegisteredSerializer) -> RegisteredSerializer:
    """Return the serializer with the latest version of the subject as its own schema, where that is a table's."""
    try:
        latest = serializer.registry.latest(f"{topic}-{field}").schema
        reader = table_of(serializer.registry, latest) if latest.type == serializer.TYPE else serializer
        _ = getattr(reader, "type", None)
    except SchemaRegistryRefused as error:
        if error.status != 404:
            raise
        return serializer
    except InvalidOption:  # its values are JSON all the same
        return serializer
    return reader


def _duck(kind: Any) -> Any:
    if pa.types.is_struct(kind):
        return {each.name: _duck(each.type) for each in kind}
    if pa.types.is_list(kind):
        return [_duck(kind.value_type)]
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return _DUCK.get(kind, "JSON")
