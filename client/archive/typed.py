"""Typed columns beside the raw ones: the struct `value_`, by given fields or by the registry's schema, and `_error`.

A value that does not fit has a null struct and the reason in `_error` (`keep`), ends the archiver (`fail`), or is left
out (`skip`). Its bytes stay in `value`.

The table follows the schema as Iceberg can: fields are added, promoted (int -> long, float -> double, wider decimals),
and renamed where an alias of Avro names the old one. A field whose type Iceberg cannot change goes to a column beside
it, `name_2`, and a warning says so. A field that the schema has no more stays, and is null from then on. Nothing of
that stops an archiver.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import json as arrow_json

from ..core.options import check_choice
from ..errors import InvalidOption
from ..schemas.avro_columns import rows_by_registry
from ..schemas.casts import cast
from ..schemas.tables import ArrowAvro, in_microseconds, table_of
from ..schemas.typed_rows import BadValue, json_rows
from . import ArchiveError
from .rows import ERROR, TYPED

log = logging.getLogger(__name__)

BAD = ("keep", "fail", "skip")
FORMATS = ("json", "avro", "json-schema")
_MOST_ERROR_CHARS = 300
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FIELD = re.compile(r"\s*(\w+)\s*:?\s+(\w+)\s*(?:\(\s*(\d+)\s*,\s*(\d+)\s*\))?\s*")
_TYPES = {
    **dict.fromkeys(("boolean", "bool"), pa.bool_()),
    **dict.fromkeys(("int", "integer"), pa.int32()),
    **dict.fromkeys(("long", "bigint"), pa.int64()),
    **dict.fromkeys(("float", "real"), pa.float32()),
    "double": pa.float64(),
    **dict.fromkeys(("string", "varchar", "text"), pa.string()),
    "date": pa.date32(),
    **dict.fromkeys(("timestamp", "timestamptz"), pa.timestamp("us", tz="UTC")),
    "timestamp_ntz": pa.timestamp("us"),
}


class NoColumns(InvalidOption):
    """A schema makes no columns."""


class TypedValues(NamedTuple):
    """How values become structs, as the schema is now."""

    # Of Arrow: the fields of the schema.
    kind: Any
    read: Callable[[Any, Any], list[Any]]
    # Raises what is wrong with one value.
    explain: Callable[[bytes], object]
    bad: str = "keep"
    # Earlier names of fields.
    aliases: Mapping[str, Sequence[str]] = {}
    # From the schema's fields to the table's columns: set once the table has them.
    columns: Mapping[str, str] = {}

    def __call__(self, batch: Any, schema: Any) -> Any:
        """Return rows with the typed columns of a table, of rows with nulls there. Raises ArchiveError by `fail`."""
        values = batch.column("value")
        marks = np.zeros(len(batch), np.bool_)
        pieces = self.read(values, marks)
        rows = pa.concat_arrays(pieces) if pieces else pa.nulls(0, self.kind)
        parts = {self.columns[each.name]: part for each, part in zip(self.kind, rows.flatten(), strict=True)}
        target = schema.field(TYPED).type
        made = [cast(parts[each.name], each.type) if each.name in parts else pa.nulls(len(batch), each.type)
                for each in target]  # fmt: skip
        absent = pa.array(marks | values.is_null().to_numpy(zero_copy_only=False))
        struct = pa.StructArray.from_arrays(made, fields=list(target), mask=absent)
        errors: list[str | None] = [None] * len(batch)
        for row in np.flatnonzero(marks).tolist():
            errors[row] = self._why(values[row].as_py())
            if self.bad == "fail":
                where = f"offset {batch.column('offset')[row].as_py()} of partition {batch.column('partition')[row]}"
                raise ArchiveError(f"{where} does not fit the fields: {errors[row]}")
        columns = [*(batch.column(name) for name in schema.names if name not in (TYPED, ERROR)), struct]
        whole = pa.RecordBatch.from_arrays([*columns, pa.array(errors, pa.string())], schema=schema)
        return whole.filter(pa.array(~marks)) if self.bad == "skip" and marks.any() else whole

    def _why(self, value: bytes) -> str:
        try:
            self.explain(value)
        except Exception as error:  # noqa: BLE001 - what libraries raise for bad bytes has no class in common
            return f"{type(error).__name__}: {error}"[:_MOST_ERROR_CHARS]
        return "a field does not fit its type"


def of_json(fields: str, bad: str = "keep") -> TypedValues:
    """Return how JSON objects become structs of fields "a int, b string". Raises InvalidOption."""
    kind = _struct(fields)
    raw = pa.struct([pa.field(each.name, pa.string() if pa.types.is_date(each.type) else each.type) for each in kind])

    def explain(value: bytes) -> None:
        if not isinstance(json.loads(value), dict):
            raise BadValue("no JSON object")
        schema = arrow_json.ParseOptions(explicit_schema=pa.schema(list(raw)), unexpected_field_behavior="ignore")
        arrow_json.read_json(pa.BufferReader(value), parse_options=schema)

    def read(values: Any, marks: Any) -> list[Any]:
        return json_rows(values, raw, kind, marks)

    return TypedValues(kind, read, explain, bad)


def values_by(
    topic: str, value_format: str | None, fields: str | None = None, registry: Any = None, bad: str = "keep"
) -> Callable[[], TypedValues] | None:
    """Return how values get types, as ArchiveOptions take it; None where they stay bytes. Raises InvalidOption."""
    if value_format is None:
        if fields is not None or registry is not None or bad != "keep":
            raise InvalidOption("fields, a registry, and what becomes of bad values need a format of values")
        return None
    check_choice("the format of values", value_format, FORMATS)
    check_choice("what becomes of bad values", bad, BAD)
    if value_format == "json":
        if fields is None or registry is not None:
            raise InvalidOption("values in json need fields, and no registry")
        made = of_json(fields, bad)
        return lambda: made
    if fields is not None or registry is None:
        raise InvalidOption(f"values in {value_format} need a registry, and no fields")
    return lambda: of_registry(registry, topic, value_format, bad)


def _struct(fields: str) -> Any:
    found: dict[str, Any] = {}
    for part in re.split(r",(?![^(]*\))", fields):
        match = _FIELD.fullmatch(part)
        kind = None if match is None else _TYPES.get(match[2].lower())
        if match is not None and match[3] is not None and match[2].lower() == "decimal":
            kind = pa.decimal128(int(match[3]), int(match[4]))
        if match is None or kind is None or not _NAME.fullmatch(match[1]) or match[1] in found:
            raise InvalidOption(f"--fields: {part.strip()!r} is no new name and type, as in: carrier string, delay int")
        found[match[1]] = kind
    return pa.struct(list(found.items()))


def of_registry(registry: Any, topic: str, format_name: str, bad: str = "keep") -> TypedValues:
    """Return how values become structs by the latest version of a topic's subject.

    Raises NoColumns, InvalidOption, KafkaError.
    """
    latest = registry.latest(f"{topic}-value").schema
    if latest.type != {"avro": "AVRO", "json-schema": "JSON"}[format_name]:
        raise InvalidOption(f"the schemas of {topic}-value are of the type {latest.type}, not {format_name}")
    try:
        reader = ArrowAvro(registry, latest) if latest.type == "AVRO" else table_of(registry, latest)
        raw = reader.type
    except InvalidOption as error:
        if isinstance(error.__cause__, ImportError):
            raise
        raise NoColumns(f"the schema of {topic}-value makes no columns: {error.message}") from error
    if not pa.types.is_struct(raw):
        raise NoColumns(f"the schema of {topic}-value has no fields")
    kind = in_microseconds(raw)

    aliases = {each["name"]: each.get("aliases", ()) for each in json.loads(latest.text).get("fields", ())}

    def read(values: Any, marks: Any) -> list[Any]:
        return rows_by_registry(reader, values, raw, kind, marks)

    return TypedValues(kind, read, reader.decode, bad, aliases)


# -- Evolution


def evolved(
    catalog: Any, name: tuple[str, ...], typed: TypedValues, attempts: int = 3
) -> tuple[Any, TypedValues]:  # fmt: skip
    """Return a table that has the columns of the typed values, and these with the names of their columns there."""
    from pyiceberg.exceptions import CommitFailedException

    table = catalog.load_table(name)
    have: dict[str, Any] = {each.name: each.type for each in _present(table)}
    renamed = {
        old: new
        for new, olds in typed.aliases.items()
        for old in olds
        if new not in have and old in have and old not in typed.aliases
    }
    have = {str(renamed.get(column, column)): kind for column, kind in have.items()}
    columns, wanted = dict[str, str](), dict(have)
    names = {each.name for each in typed.kind}
    for each in typed.kind:
        column, kind = _place(each.name, each.type, have, names - {each.name} | set(columns.values()))
        if column != each.name and column not in have:
            log.warning("%s: the field %s is of another type now: its values go to %s", name[-1], each.name, column)
        columns[each.name], wanted[column] = column, kind
    if wanted != have or renamed or not have:
        try:
            _change(catalog, table, wanted, renamed)
        except CommitFailedException as error:
            # Another archiver was faster, and has made the same columns, or others.
            if not attempts:
                raise
            log.info("%s: %s", name[-1], error)
            return evolved(catalog, name, typed, attempts - 1)
        table = catalog.load_table(name)
    return table, typed._replace(columns=columns)


def _change(catalog: Any, table: Any, wanted: Mapping[str, Any], renamed: Mapping[str, str]) -> None:
    with table.update_schema() as update:
        for old, new in renamed.items():
            update.rename_column(f"{TYPED}.{old}", new)
    with catalog.load_table(table.name()).update_schema() as update:
        struct = pa.struct([pa.field(column, kind) for column, kind in wanted.items()])
        update.union_by_name(pa.schema([pa.field(TYPED, struct), pa.field(ERROR, pa.string())]))


def _present(table: Any) -> Any:
    """Return the fields of a table's struct as Arrow has them, without large types."""
    from .layout import plain_arrow  # pyiceberg's types

    return plain_arrow(table.schema()).field(TYPED).type if TYPED in table.schema().column_names else ()


def _place(name: str, kind: Any, have: Mapping[str, Any], others: Collection[str]) -> tuple[str, Any]:
    """Return the column for a field, and its type there: none that other fields have."""
    number, column = 1, name
    while column in have or column in others:
        both = None if column in others else _common(have[column], kind)
        if both is not None:
            return column, both
        number += 1
        column = f"{name}_{number}"
    return column, kind


def _common(one: Any, other: Any) -> Any:
    """Return the type that takes the values of both and that Iceberg makes of the first; None where there is none."""
    if one == other:
        return one
    for narrow, wide in ((one, other), (other, one)):
        if (pa.types.is_int32(narrow) and pa.types.is_int64(wide)) or (
            pa.types.is_float32(narrow) and pa.types.is_float64(wide)
        ):
            return wide
        both_decimal = pa.types.is_decimal(narrow) and pa.types.is_decimal(wide)
        if both_decimal and narrow.scale == wide.scale and narrow.precision <= wide.precision:
            return wide
    return None
