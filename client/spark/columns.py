"""The columns of a row: those of Spark's own Kafka connector. A user's schema may name any of them, in any order.

    key binary | value binary | topic string | partition int | offset bigint | timestamp timestamp | timestampType int
    | headers array<struct<key:string,value:binary>>    with includeHeaders, or where the schema names it

Spark's Python sources have no column pruning. A user who names only the needed columns saves the cost of the others.
With `valueFormat` or `keyFormat` that column is a string, or a struct of the given schema (`typed_values.py`). Spark's
own parser reads the DDL of users. A type that a format does not have is rejected by its name, on the driver.

With a schema registry, the driver asks for the latest version of the subject once, when a query is planned; that is the
schema of the column as long as the query runs. Tasks read each record by the schema of its writer, and resolve it to
that one. What is asked for is kept in a process.

The errors of the data source, on the driver and in tasks, are here too. Spark shows their text, so it says what to
change. Errors of brokers are the client's (`..errors`); corrupt bytes raise DecodeError of `odradek.protocol`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from ..arrow.fetch import DataLoss
from ..errors import ClientError, ErrorCode, InvalidOption, SchemaRegistryRefused

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType

    from ..schemas.schema_registry import Registered, Schema, SchemaRegistry

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

# Spark's names of the types that have no parts.
_PLAIN = ("boolean", "byte", "short", "integer", "long", "float", "double", "string", "date", "timestamp")
SUPPORTED = {
    "json": (*_PLAIN, "timestamp_ntz", "decimal", "array", "struct"),
    "msgpack": (*_PLAIN, "decimal", "binary", "array", "struct"),
    "avro": (*_PLAIN, "timestamp_ntz", "decimal", "binary", "array", "map", "struct"),
    "json-schema": (*_PLAIN, "timestamp_ntz", "decimal", "array", "map", "struct"),
}
# How the names of types begin that have no form outside of Spark: Arrow has a variant as bytes of Spark's own.
_NEVER_WRITTEN = ("variant", "interval", "time(", "geometry", "geography")
_OPTIONS = ("User", "Password", "Ca")
# The formats that a registry has schemas of, with its own names.
_TYPES = {"avro": "AVRO", "json-schema": "JSON"}


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
    # What reads records by a schema registry, a `TableAvro` or a `TableJson`.
    registered: Any = None
    # DDL: the type that the registry says, of which a column need not be a struct.
    type: str | None = None


class Column(NamedTuple):
    """A column to fill. A null in a column that is not nullable fails the read."""

    name: str
    # Of Spark.
    kind: Any
    nullable: bool = True
    # Of a typed key or value.
    format: Format | None = None


def default_ddl(include_headers: bool, formats: Mapping[str, Format] | None = None) -> str:
    """Return the schema of a read without `.schema(...)`, with the types of typed keys and values."""
    types = TYPES | {name: _typed_ddl(each) for name, each in (formats or {}).items()}
    return ", ".join(f"{name} {kind}" for name, kind in types.items() if include_headers or name != "headers")


def _typed_ddl(wanted: Format) -> str:
    if wanted.type is not None:
        return wanted.type
    schema = (wanted.schema or "string").strip()
    return schema if wanted.schema is None or schema.lower().startswith("struct<") else f"struct<{schema}>"


def columns_of(schema: StructType, formats: Mapping[str, Format] | None = None) -> tuple[Column, ...]:
    """Return the columns that `schema` names, in its order. Raises SchemaError."""
    found: dict[str, Column] = {}
    for field in schema.fields:
        if field.name in found:
            raise SchemaError(f"the schema names column '{field.name}' twice")
        wanted = (formats or {}).get(field.name)
        if wanted is None:
            _check_plain(field)
        else:
            _check_typed(field, wanted)
        found[field.name] = Column(field.name, field.dataType, field.nullable, wanted)
    if not found:
        raise SchemaError("the schema has no columns")
    return tuple(found.values())


def _check_plain(field: StructField) -> None:
    expected = TYPES.get(field.name)
    if expected is None:
        raise SchemaError(f"rows of a topic have no column '{field.name}'; they have {default_ddl(True)}")
    given = field.dataType.simpleString()
    if given != expected:
        raise SchemaError(f"column '{field.name}' is {expected}, not {given}")


def _check_typed(field: StructField, wanted: Format) -> None:
    kind: Any = field.dataType
    expected = "string" if wanted.name == "string" else "struct"
    if wanted.registered is not None and kind.typeName() != "struct":
        check_type(field.name, wanted.name, kind)
    elif kind.typeName() != expected:
        why = f"with {field.name}Format={wanted.name} column '{field.name}' is a {expected}"
        raise SchemaError(f"{why}, not {kind.simpleString()}")
    elif expected == "struct":
        check_type(field.name, wanted.name, kind)
        _check_corrupt(field.name, kind)


def _check_corrupt(name: str, kind: StructType) -> None:
    fields: dict[str, Any] = {each.name: each.dataType for each in kind.fields}
    if CORRUPT in fields and (fields[CORRUPT].simpleString() != "string" or len(fields) == 1):
        raise SchemaError(f"{name}.{CORRUPT} must be a string beside other fields")


# -- Types of typed values


def check_type(place: str, format_name: str, kind: Any) -> None:
    """Raise SchemaError for a Spark type, or a part of it, that a format does not have."""
    name = kind.typeName()
    if name not in SUPPORTED[format_name]:
        known = ", ".join(SUPPORTED[format_name])
        has = f"{place} has the type {kind.simpleString()}"
        raise SchemaError(f"{has}, which {format_name} values cannot have: they have {known}")
    if name == "array":
        check_type(f"{place}.element", format_name, kind.elementType)
    if name == "map":
        if kind.keyType.typeName() != "string":
            raise SchemaError(f"{place} is a map whose keys are no strings, which {format_name} does not have")
        check_type(f"{place}.value", format_name, kind.valueType)
    if name == "struct":
        if not kind.fields:
            raise SchemaError(f"{place} is a struct without fields")
        for each in kind.fields:
            if not each.nullable:
                raise SchemaError(f"{place}.{each.name} is NOT NULL: any field of a value may be missing")
            check_type(f"{place}.{each.name}", format_name, each.dataType)


def check_written(place: str, format_name: str, kind: Any) -> None:
    """Raise SchemaError for a Spark type, or a part of it, that no format can write."""
    if kind.simpleString().startswith(_NEVER_WRITTEN):
        raise SchemaError(f"{place} has the type {kind.simpleString()}, which cannot be written as {format_name}")
    parts = {"array": ("element",), "map": ("key", "value")}.get(kind.typeName(), ())
    for part in parts:
        check_written(f"{place}.{part}", format_name, getattr(kind, f"{part}Type"))
    for each in kind.fields if kind.typeName() == "struct" else ():
        check_written(f"{place}.{each.name}", format_name, each.dataType)


def arrow_type(kind: Any) -> Any:
    """Return the Arrow type that Spark expects for one of its types."""
    return import_module("pyspark.sql.pandas.types").to_arrow_type(kind, timezone="UTC")


# -- Types by a schema registry


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """The options of a schema registry, and the subjects that are named, by column."""

    registry: SchemaRegistry
    subjects: Mapping[str, str]

    def subject(self, column: str, topic: str | None) -> str:
        """Return the subject of a column. Raises OptionError where there is no one topic to name it by."""
        named = self.subjects.get(column)
        if named is None and topic is None:
            raise OptionError(f"{column}Subject", "must be given: records come from, or go to, several topics")
        return named or f"{topic}-{column}"

    def latest(self, column: str, subject: str, name: str) -> Registered:
        """Return the latest version of a subject. Raises OptionError if there is none, or none of the format."""
        try:
            found = self.registry.latest(subject)
        except SchemaRegistryRefused as error:
            if error.status != 404:
                raise
            raise OptionError(f"{column}Subject", f"the schema registry has no subject {subject!r}") from None
        if found.schema.type != _TYPES[name]:
            why = f"{name} is not for the schema of {subject!r}, which is of type {found.schema.type}"
            raise OptionError(f"{column}Format", why)
        return found


def parse_registry(values: Mapping[str, Any]) -> RegistryOptions | None:
    """Return the options of the registry, None if none is named. Raises OptionError."""
    url = values["schemaRegistry"]
    given = [f"schemaRegistry{each}" for each in _OPTIONS if values[f"schemaRegistry{each}"] is not None]
    subjects = {column: values[f"{column}Subject"] for column in ("key", "value") if values[f"{column}Subject"]}
    if url is None:
        if given:
            raise OptionError(given[0], "needs schemaRegistry")
        return None
    if not {values["keyFormat"], values["valueFormat"]} & _TYPES.keys():
        raise OptionError("schemaRegistry", "needs valueFormat or keyFormat, as avro or json-schema")
    user, password, ca_file = (values[f"schemaRegistry{each}"] for each in _OPTIONS)
    if (user is None) != (password is None):
        raise OptionError("schemaRegistryUser", "and schemaRegistryPassword go together")
    from ..schemas.schema_registry import SchemaRegistry  # heavy, and most queries have none

    try:
        login = None if user is None else f"{user}:{password}"
        return RegistryOptions(SchemaRegistry(url, login=login, ca_file=ca_file), subjects)
    except InvalidOption as error:
        raise OptionError("schemaRegistry", error.message) from None


def with_schemas(formats: Mapping[str, Format], options: RegistryOptions | None, topics: set[str]) -> dict[str, Format]:
    """Return the formats of a read with what the registry has. Raises OptionError, SchemaError, KafkaError."""
    if options is None:
        return dict(formats)
    topic = next(iter(topics)) if len(topics) == 1 else None
    return {
        column: _with_schema(column, each, options, topic) if each.name in _TYPES else each
        for column, each in formats.items()
    }


def _with_schema(column: str, wanted: Format, options: RegistryOptions, topic: str | None) -> Format:
    from ..schemas.tables import ddl, table_of

    latest = options.latest(column, options.subject(column, topic), wanted.name)
    serializer = table_of(options.registry, latest.schema)
    if wanted.schema is not None:
        return wanted._replace(registered=serializer)
    try:
        type_of_values = serializer.type
    except InvalidOption as error:
        raise SchemaError(f"{error.message}; name the fields that you want with {column}Schema") from None
    kind = ddl(type_of_values)
    if kind.startswith("STRUCT<") and wanted.mode == "PERMISSIVE" and type_of_values.get_field_index(CORRUPT) < 0:
        # Nobody names the fields, so nobody could ask for the field of bad records.
        kind = f"{kind[:-1]}, {CORRUPT}: STRING>"
    return wanted._replace(type=kind, registered=serializer)


@dataclass(frozen=True, slots=True)
class RegisteredWriter:
    """The schema that a column is written by, with its id."""

    registry: SchemaRegistry
    id: int
    schema: Schema

    def encode(self, rows: list[Any]) -> list[bytes | None]:
        """Return rows with the id in front. Raises what the library of the format does."""
        from ..schemas.tables import table_of

        write = table_of(self.registry, self.schema).writer(self.id, self.schema)
        return [None if each is None else write(each) for each in rows]


def writers_of(
    formats: Mapping[str, str], schemas: Mapping[str, str | None], options: RegistryOptions | None, topic: str | None
) -> dict[str, RegisteredWriter]:
    """Register the given schemas, or find the latest versions, by column. Raises OptionError, KafkaError."""
    if options is None:
        return {}
    made: dict[str, RegisteredWriter] = {}
    for column, name in ((column, each) for column, each in formats.items() if each in _TYPES):
        subject, text = options.subject(column, topic), schemas.get(column)
        if text is None:
            latest = options.latest(column, subject, name)
            made[column] = RegisteredWriter(options.registry, latest.id, latest.schema)
            continue
        from ..schemas.schema_registry import Schema

        schema = Schema(text, _TYPES[name])
        made[column] = RegisteredWriter(options.registry, options.registry.register(subject, schema), schema)
    return made


class OptionError(InvalidOption):
    """An option that is unknown, malformed, contradictory or not supported. `option` is its name as documented."""

    def __init__(self, option: str, why: str) -> None:
        super().__init__(f"option '{option}': {why}")
        self.option = option


class SchemaError(InvalidOption):
    """A `.schema(...)` that does not fit the rows of a topic."""


class BadRecord(ClientError, code=ErrorCode.INVALID_RECORD):
    """A key or value that does not fit its schema, with mode=FAILFAST."""


class TopicRecreated(DataLoss):
    """A topic of a stream was deleted, and one of its name was created: its offsets are those of other records."""


class ForeignOffsets(InvalidOption):
    """A checkpoint whose offsets are not those of topics: another source has written it."""
