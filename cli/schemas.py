"""`odradek schemas`: list, show, check, register and delete the schemas of a schema registry."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import wraps
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .confirmation import confirm
from .errors import as_cli_error
from .output import print_rows, row_options
from .schema_options import registry_client, registry_options, text_of
from .values import OneOf, WholeNumber

if TYPE_CHECKING:
    from ..client.schemas import Schema, SchemaRegistry

_COLUMNS = ("subject", "version", "versions", "type", "id", "compatibility")
TYPES = ("AVRO", "JSON", "PROTOBUF")
_TYPES_BY_SUFFIX = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}
_FILE = click.Path(path_type=Path)
_type_option = click.option(
    "--type", "kind", type=OneOf(TYPES), help="What the file is.  [default: by its name: .avsc, .json, .proto]"
)


def _with_registry(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command a registry: its options, and its client as the parameter `client`. CliError where it refuses."""

    @wraps(function)
    def command_with_client(
        registry: str | None, registry_login_file: Path | None, registry_ca: str | None, **given: Any
    ) -> Any:
        from ..client.errors import SchemaRegistryRefused, SchemaRegistryUnavailable

        if registry is None:
            raise click.UsageError("name the registry: --registry URL, such as http://127.0.0.1:8081")
        with as_cli_error(SchemaRegistryRefused, SchemaRegistryUnavailable):
            return function(client=registry_client(registry, registry_login_file, registry_ca), **given)

    return registry_options(command_with_client)


@click.group(short_help="List, show, check, register and delete schemas of a registry.")
def command() -> None:
    """List, show, check, register and delete the schemas of a registry, that of Odradek or another one.

    A subject is a name with versions of a schema; those of a topic's values are TOPIC-value, of its keys TOPIC-key.

    \b
    Examples:
      odradek schemas list --registry http://reg:8081
      odradek schemas show t-value --registry http://reg:8081
      odradek schemas check t-value t.avsc --registry http://reg:8081
    """


@command.command("list", short_help="Print subjects with their versions and compatibility.")
@_with_registry
@row_options
def list_(client: SchemaRegistry) -> None:
    """Print each subject with its latest version, its number of versions, its type and its level of compatibility.

    \b
    Examples:
      odradek schemas list --registry http://reg:8081
    """
    print_rows(_COLUMNS, _rows(client))


@command.command(short_help="Print a schema.")
@click.argument("subject")
@click.option("--version", "number", metavar="N", type=WholeNumber(1), help="Which one.  [default: the latest]")
@_with_registry
def show(client: SchemaRegistry, subject: str, number: int | None) -> None:
    """Print the schema of a subject; Avro and JSON with a member a line.

    \b
    Examples:
      odradek schemas show t-value --registry http://reg:8081
      odradek schemas show t-value --version 1 --registry http://reg:8081
    """
    schema = (client.latest(subject) if number is None else client.version(subject, number)).schema
    click.echo(schema.text if schema.type == "PROTOBUF" else json.dumps(json.loads(schema.text), indent=2))


@command.command(short_help="Tell whether a schema may be the next version.")
@click.argument("subject")
@click.argument("file", type=_FILE)
@_type_option
@_with_registry
def check(client: SchemaRegistry, subject: str, file: Path, kind: str | None) -> None:
    """Print why the schema in FILE may not be the next version of a subject, with status 1; nothing if it may.

    \b
    Examples:
      odradek schemas check t-value t.avsc --registry http://reg:8081
    """
    reasons = client.why_incompatible(subject, _schema_in(file, kind))
    for each in reasons:
        click.echo(each)
    if reasons:
        raise SystemExit(1)


@command.command(short_help="Register a schema as the next version.")
@click.argument("subject")
@click.argument("file", type=_FILE)
@_type_option
@_with_registry
def register(client: SchemaRegistry, subject: str, file: Path, kind: str | None) -> None:
    """Register the schema in FILE as the next version of a subject, unless the subject has it. Print its id.

    \b
    Examples:
      odradek schemas register t-value t.avsc --registry http://reg:8081
    """
    click.echo(client.register(subject, _schema_in(file, kind)))


@command.command(short_help="Delete a subject, or a version of it.")
@click.argument("subject")
@click.option("--version", "number", metavar="N", type=WholeNumber(1), help="Which one.  [default: all]")
@click.option(
    "--permanent", is_flag=True, help="Remove for good what was deleted before: its records become unreadable."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@_with_registry
def delete(client: SchemaRegistry, subject: str, number: int | None, permanent: bool, yes: bool) -> None:
    """Delete a subject, or one version of it, and print the versions that went. Records keep their schema by its id.

    \b
    Examples:
      odradek schemas delete t-value --version 2 --registry http://reg:8081
      odradek schemas delete t-value --permanent --yes --registry http://reg:8081
    """
    what = f"version {number} of subject {subject}" if number else f"subject {subject}"
    end = " for good? Nobody can read records with its ids any more." if permanent else "?"
    confirm(f"Delete {what}{end}", yes, "nothing was deleted")
    for each in client.delete(subject, number, permanent=permanent):
        click.echo(each)


def _rows(client: SchemaRegistry) -> Iterator[tuple[Any, ...]]:
    from ..client.errors import SchemaRegistryRefused

    for subject in sorted(client.subjects()):
        try:
            yield _row(client, subject)
        except SchemaRegistryRefused as error:
            # Somebody has deleted it meanwhile.
            if error.status != HTTPStatus.NOT_FOUND:
                raise


def _row(client: SchemaRegistry, subject: str) -> tuple[Any, ...]:
    latest, versions = client.latest(subject), len(client.versions(subject))
    return subject, latest.version, versions, latest.schema.type, latest.id, client.compatibility(subject)


def _schema_in(file: Path, kind: str | None) -> Schema:
    """Return the schema in a file. CliError for one that cannot be read, or whose type nothing tells."""
    from ..client.schemas import Schema

    found = kind or _TYPES_BY_SUFFIX.get(file.suffix)
    if found is None:
        raise click.UsageError(f"{file} tells no type by its name: give --type AVRO, JSON or PROTOBUF")
    return Schema(text_of(file), found)
