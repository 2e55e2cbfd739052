"""Typed keys and values by a schema registry: what the options say, and what the registry has when a query is planned.

The driver asks for the latest version of the subject once; that is the schema of the column as long as the query runs.
Tasks read each record by the schema of its writer, and resolve it to that one. What is asked for is kept in a process.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import InvalidOption, SchemaRegistryRefused
from .columns import CORRUPT, Format
from .errors import OptionError, SchemaError

if TYPE_CHECKING:
    from ..schemas.schema_registry import Registered, Schema, SchemaRegistry

_OPTIONS = ("User", "Password", "Ca")
# The formats that a registry has schemas of, with its own names.
_TYPES = {"avro": "AVRO", "json-schema": "JSON"}


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
    with _named(column):
        type_of_values = serializer.type
    kind = ddl(type_of_values)
    if kind.startswith("STRUCT<") and wanted.mode == "PERMISSIVE" and type_of_values.get_field_index(CORRUPT) < 0:
        # Nobody names the fields, so nobody could ask for the field of bad records.
        kind = f"{kind[:-1]}, {CORRUPT}: STRING>"
    return wanted._replace(type=kind, registered=serializer)


@contextmanager
def _named(column: str) -> Generator[None]:
    try:
        yield
    except InvalidOption as error:
        raise SchemaError(f"{error.message}; name the fields that you want with {column}Schema") from None


# -- Writes


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
    formats: Mapping[str, str],
    schemas: Mapping[str, str | None],
    options: RegistryOptions | None,
    topic: str | None,
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
