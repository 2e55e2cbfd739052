"""Keys and values of a schema registry for `produce` and `consume`, which show and take them as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .connection_options import Decorator, with_options
from .errors import CliError, as_cli_error
from .record_input import BadLine, InputRecord
from .values import OneOf, login_of

if TYPE_CHECKING:
    from ..client.schemas import SchemaRegistry
    from ..client.schemas.plain_json import PlainReader
    from ..client.schemas.registered import RegisteredSerializer

FORMATS = ("avro", "json-schema")

Content = bytes | None


@dataclass(frozen=True, slots=True)
class SchemaFormats:
    """The formats of keys and values, none where they are bytes."""

    key: RegisteredSerializer | None = None
    value: RegisteredSerializer | None = None

    def __bool__(self) -> bool:
        return self.key is not None or self.value is not None

    async def encoded(self, record: InputRecord, topic: str) -> InputRecord:
        """Return a record of JSON, or of the texts of JSON, with its bytes. Raises BadLine, KafkaError."""
        key = record.key if self.key is None else await _encoded(self.key, record.key, topic, "key")
        value = record.value if self.value is None else await _encoded(self.value, record.value, topic, "value")
        return record._replace(key=key, value=value)

    def decoders(self, as_objects: bool) -> dict[str, Any]:
        """Return the deserializers of a consumer, which make JSON: objects, or their texts."""
        from ..client.schemas.plain_json import PlainReader

        readers = {
            name: PlainReader(each.registry, each.TYPE)
            for name, each in (("key_deserializer", self.key), ("value_deserializer", self.value))
            if each is not None
        }
        return readers if as_objects else {name: _Printed(each) for name, each in readers.items()}


async def _encoded(by: RegisteredSerializer, content: Any, topic: str, field: str) -> Content:
    from ..client.core.serialization import SchemaMissing
    from ..client.errors import KafkaError

    if content is None:
        return None
    value = _from_text(content, field) if isinstance(content, bytes) else content
    while True:
        try:
            return by.encode_at_once(value, topic, field)
        except SchemaMissing as missing:
            await missing.load()
        except KafkaError:
            raise
        except Exception as error:  # the libraries' errors of values have no class in common
            raise BadLine(f"has a {field} that its schema does not allow: {error!s:.300}") from error


def _from_text(content: bytes, field: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"has a {field} that is no JSON: {error}") from error


class _Printed:
    """A deserializer that makes the text of JSON."""

    def __init__(self, inner: PlainReader) -> None:
        self._inner = inner

    def decode_at_once(self, content: bytes, topic: str, field: str) -> bytes:
        """Return a key or value as the text of its JSON."""
        value = self._inner.decode_at_once(content, topic, field)
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def registry_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --registry, --registry-login-file and --registry-ca."""
    return with_options(_REGISTRY_OPTIONS, function)


def schema_options(*, writes: bool) -> Decorator:
    """Return a decorator for --key-format, --value-format and --registry, which arrive as the parameter `formats`.

    A command that `writes` takes schemas to register, too.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def with_formats(**given: Any) -> Any:
            chosen = {name: given.pop(name) for name in (*_NAMES, *(_WRITING if writes else ()))}
            return function(formats=_formats(**chosen), **given)

        return with_options([*_OPTIONS, *(_WRITING_OPTIONS if writes else [])], with_formats)

    return decorate


_NAMES = ("key_format", "value_format", "registry", "registry_login_file", "registry_ca")
_WRITING = ("key_schema", "value_schema")
_FILE = click.Path(path_type=Path)
_REGISTRY_OPTIONS = [
    click.option("--registry", metavar="URL", help="The schema registry, such as http://127.0.0.1:8081."),
    click.option("--registry-login-file", metavar="FILE", type=_FILE, help="NAME:PASSWORD for the registry."),
    click.option("--registry-ca", metavar="FILE", help="Certificates (PEM) to trust, for a registry with TLS."),
]
_OPTIONS = [
    click.option("--key-format", type=OneOf(FORMATS), help="Keys have a schema of the registry, and are JSON here."),
    click.option(
        "--value-format", type=OneOf(FORMATS), help="Values have a schema of the registry, and are JSON here."
    ),
    *_REGISTRY_OPTIONS,
]
_WRITING_OPTIONS = [
    click.option(
        "--key-schema", metavar="FILE", type=_FILE,
        help="Register this schema of keys.  [default: the subject's latest version]",
    ),
    click.option(
        "--value-schema", metavar="FILE", type=_FILE,
        help="Register this schema of values.  [default: the subject's latest version]",
    ),
]  # fmt: skip


def _formats(
    key_format: str | None, value_format: str | None, registry: str | None, registry_login_file: Path | None,
    registry_ca: str | None, key_schema: Path | None = None, value_schema: Path | None = None,
) -> SchemaFormats:  # fmt: skip
    if (key_schema and not key_format) or (value_schema and not value_format):
        raise click.UsageError("--key-schema needs --key-format, --value-schema needs --value-format")
    if (key_format or value_format) and registry is None:
        raise click.UsageError("--key-format and --value-format need --registry URL")
    if registry is None:
        return SchemaFormats()
    if not (key_format or value_format):
        raise click.UsageError("--registry is for --key-format and --value-format")
    from ..client.errors import InvalidOption

    client = registry_client(registry, registry_login_file, registry_ca)
    with as_cli_error(InvalidOption):
        return SchemaFormats(_one(key_format, client, key_schema), _one(value_format, client, value_schema))


def registry_client(url: str, login_file: Path | None, ca_file: str | None) -> SchemaRegistry:
    """Return the client of --registry and its options. UsageError for what no registry can be, CliError for a file."""
    from ..client.errors import InvalidOption
    from ..client.schemas import SchemaRegistry

    login = None if login_file is None else login_of(login_file, "--registry-login-file")
    try:
        return SchemaRegistry(url, login=login, ca_file=ca_file)
    except InvalidOption as error:
        raise click.UsageError(f"--registry: {error.message}") from error


def _one(name: str | None, registry: Any, schema: Path | None) -> RegisteredSerializer | None:
    from ..client.schemas import JsonSchema
    from ..client.schemas.plain_json import AvroOfJson

    text = None if schema is None else text_of(schema)
    return None if name is None else AvroOfJson(registry, text) if name == "avro" else JsonSchema(registry, text)


def text_of(path: Path) -> str:
    """Return the text of a schema's file. CliError for one that cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{path}: {getattr(error, 'strerror', None) or 'it is no UTF-8'}") from error
