"""The columns of a row: those of Spark's own Kafka connector. A user's schema may name any of them, in any order.

    key binary | value binary | topic string | partition int | offset bigint | timestamp timestamp | timestampType int
    | headers array<struct<key:string,value:binary>>    with includeHeaders, or where the schema names it

Spark's Python sources have no column pruning. A user who names only the needed columns saves the cost of the others.
With `valueFormat` or `keyFormat` that column is a string, or a struct of the given schema (`typed_columns.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from .errors import SchemaError
from .spark_types import check_type

if TYPE_CHECKING:
    from pyspark.sql.types import ArrayType, StructField, StructType

TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}


class HeaderNulls(NamedTuple):
    """Whether parts of the headers column may be null, as its schema says. Arrow's schema must say the same."""

    element: bool = True
    key: bool = True
    value: bool = True


# The field of a typed value that holds the text of a bad record, where the schema has it.
CORRUPT = "_corrupt_record"
MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")


class Format(NamedTuple):
    """How the bytes of a column become a typed value."""

    name: str
    # What becomes of bad records: nulls, no row, or an error.
    mode: str = "PERMISSIVE"
    # DDL: the fields of the struct; None for strings.
    schema: str | None = None
    # The schema of Avro's writer, in JSON.
    avro_schema: str | None = None


class Column(NamedTuple):
    """A column to fill. A null in a column that is not nullable fails the read."""

    name: str
    nullable: bool = True
    headers: HeaderNulls = HeaderNulls()
    # For a typed key or value: its format, and its Spark type.
    format: Format | None = None
    kind: Any = None


def default_ddl(include_headers: bool, formats: Mapping[str, Format] | None = None) -> str:
    """Return the schema of a read without `.schema(...)`, with the types of typed keys and values."""
    types = TYPES | {name: _typed_ddl(each) for name, each in (formats or {}).items()}
    return ", ".join(f"{name} {kind}" for name, kind in types.items() if include_headers or name != "headers")


def _typed_ddl(wanted: Format) -> str:
    schema = (wanted.schema or "string").strip()
    return schema if wanted.schema is None or schema.lower().startswith("struct<") else f"struct<{schema}>"


def columns_of(schema: StructType, formats: Mapping[str, Format] | None = None) -> tuple[Column, ...]:
    """Return the columns that `schema` names, in its order. Raises SchemaError."""
    found: dict[str, Column] = {}
    for field in schema.fields:
        if field.name in found:
            raise SchemaError(f"the schema names column '{field.name}' twice")
        wanted = (formats or {}).get(field.name)
        found[field.name] = _column(field) if wanted is None else _typed(field, wanted)
    if not found:
        raise SchemaError("the schema has no columns")
    return tuple(found.values())


def _column(field: StructField) -> Column:
    expected = TYPES.get(field.name)
    if expected is None:
        raise SchemaError(f"rows of a topic have no column '{field.name}'; they have {default_ddl(True)}")
    given = field.dataType.simpleString()
    if given != expected:
        raise SchemaError(f"column '{field.name}' is {expected}, not {given}")
    return Column(field.name, field.nullable, _header_nulls(field) if field.name == "headers" else HeaderNulls())


def _typed(field: StructField, wanted: Format) -> Column:
    kind: Any = field.dataType
    expected = "string" if wanted.name == "string" else "struct"
    if kind.typeName() != expected:
        why = f"with {field.name}Format={wanted.name} column '{field.name}' is a {expected}"
        raise SchemaError(f"{why}, not {kind.simpleString()}")
    if expected == "struct":
        check_type(field.name, wanted.name, kind)
        _check_corrupt(field.name, kind)
    return Column(field.name, field.nullable, format=wanted, kind=kind)


def _check_corrupt(name: str, kind: StructType) -> None:
    fields: dict[str, Any] = {each.name: each.dataType for each in kind.fields}
    if CORRUPT in fields and (fields[CORRUPT].simpleString() != "string" or len(fields) == 1):
        raise SchemaError(f"{name}.{CORRUPT} must be a string beside other fields")


def _header_nulls(field: StructField) -> HeaderNulls:
    array = cast("ArrayType", field.dataType)
    key, value = cast("StructType", array.elementType).fields
    return HeaderNulls(array.containsNull, key.nullable, value.nullable)
