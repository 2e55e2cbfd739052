"""The columns of a row: those of Spark's own Kafka connector. A user's schema may name any of them, in any order.

    key binary | value binary | topic string | partition int | offset bigint | timestamp timestamp | timestampType int
    | headers array<struct<key:string,value:binary>>    with includeHeaders, or where the schema names it

Spark's Python sources have no column pruning. A user who names only the needed columns saves the cost of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from .errors import SchemaError

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


class Column(NamedTuple):
    """A column to fill. A null in a column that is not nullable fails the read."""

    name: str
    nullable: bool = True
    headers: HeaderNulls = HeaderNulls()


def default_ddl(include_headers: bool) -> str:
    """Return the schema of a read without `.schema(...)`."""
    return ", ".join(f"{name} {kind}" for name, kind in TYPES.items() if include_headers or name != "headers")


def columns_of(schema: StructType) -> tuple[Column, ...]:
    """Return the columns that `schema` names, in its order. Raises SchemaError."""
    found: dict[str, Column] = {}
    for field in schema.fields:
        if field.name in found:
            raise SchemaError(f"the schema names column '{field.name}' twice")
        found[field.name] = _column(field)
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


def _header_nulls(field: StructField) -> HeaderNulls:
    array = cast("ArrayType", field.dataType)
    key, value = cast("StructType", array.elementType).fields
    return HeaderNulls(array.containsNull, key.nullable, value.nullable)
