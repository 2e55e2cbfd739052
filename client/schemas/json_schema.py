"""Keys and values in JSON, by the JSON Schemas of a registry: `value_serializer=JsonSchema(registry, schema)`.

Contents are checked by the schema on both sides: `pip install 'odradek[json-schema]'`. Nothing is fetched for a `$ref`:
it leads into the schema, or into what the registry knows as its references.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..errors import InvalidOption
from .registered import RegisteredSerializer, SubjectName, topic_name
from .schema_registry import Reference, Schema, SchemaRegistry


class BadJson(ValueError):
    """A value that its schema does not allow."""


class JsonSchema(RegisteredSerializer):
    """Serializer and deserializer, for keys or values."""

    TYPE = "JSON"

    def __init__(
        self,
        registry: SchemaRegistry | str,
        schema: str | dict[str, Any] | Schema | None = None,
        *,
        references: tuple[Reference, ...] = (),
        subject: SubjectName = topic_name,
        auto_register: bool = True,
        use_latest: bool = False,
        normalize: bool = False,
        validate: bool = True,
    ) -> None:
        """As `Avro`. Without `validate` any value is written and read. Raises InvalidOption."""
        self._validate = validate
        super().__init__(
            registry, schema, references=references, subject=subject, auto_register=auto_register,
            use_latest=use_latest, normalize=normalize,
        )  # fmt: skip
        if validate:
            _library()

    def _name_of(self, schema: Schema) -> str:
        parsed = _json(schema.text)
        title = parsed.get("title", "") if isinstance(parsed, dict) else ""
        return title if isinstance(title, str) else ""

    def _encoder(self, registry: SchemaRegistry, schema: Schema) -> Callable[[Any], bytes]:
        check = self._check(registry, schema)

        def encode(content: Any) -> bytes:
            check(content)
            return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()

        return encode

    def _decoder(self, registry: SchemaRegistry, writer: Schema, reader: Schema | None) -> Callable[[memoryview], Any]:
        check = self._check(registry, reader or writer)

        def decode(content: memoryview) -> Any:
            value = json.loads(bytes(content), parse_constant=_refuse)
            check(value)
            return value

        return decode

    def _check(self, registry: SchemaRegistry, schema: Schema) -> Callable[[Any], None]:
        """Return what raises BadJson for a value that a schema does not allow."""
        if not self._validate:
            return lambda value: None
        validator = _validator(schema.text, registry.referenced(schema))

        def check(value: Any) -> None:
            try:
                error = next(validator.iter_errors(value), None)
            except Exception as unable:  # such as a `$ref` to nothing: its exceptions have no class in common
                raise BadJson(f"the schema cannot be followed: {unable!s:.500}") from unable
            if error is not None:
                raise BadJson(f"{error.json_path}: {error.message:.500}")

        return check


def _refuse(name: str) -> Any:
    raise BadJson(f"{name} is no number of JSON")


def _validator(text: str, references: dict[str, str]) -> Any:
    kind, schema = _checked(text)
    return kind(schema, registry=_known(references))


def resolver_of(text: str, references: dict[str, str]) -> tuple[Any, Any]:
    """Return a schema, and what finds the schemas that its `$ref`s name. Raises InvalidOption."""
    _, schema = _checked(text)
    return schema, _known(references).resolver_with_root(resource_of(schema))


def _checked(text: str) -> tuple[Any, Any]:
    """Return the library's class of validators for a schema, and the schema. Raises InvalidOption for what is none."""
    jsonschema, schema = _library(), _json(text)
    try:
        kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
        kind.check_schema(schema)
    except Exception as error:  # its exceptions of schemas have no class in common
        raise InvalidOption(f"the JSON Schema is not valid: {error!r:.500}") from error
    return kind, schema


def _known(references: dict[str, str]) -> Any:
    """Return a registry of the library's, with which it fetches nothing."""
    made = [(name, resource_of(_json(each))) for name, each in references.items()]
    return import_module("referencing").Registry().with_resources(made)


def resource_of(schema: Any) -> Any:
    """Return a schema as the library finds others by."""
    default = import_module("referencing.jsonschema").DRAFT202012
    return import_module("referencing").Resource.from_contents(schema, default)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidOption(f"the JSON Schema is no JSON: {error}") from error


def _library() -> Any:
    try:
        return import_module("jsonschema")
    except ImportError as error:
        raise InvalidOption("JSON Schema needs jsonschema: pip install 'odradek[json-schema]'") from error
