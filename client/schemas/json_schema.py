"""Keys and values in JSON, by the JSON Schemas of a registry: `value_serializer=JsonSchema(registry, schema)`.

Contents are checked by the schema on both sides: `pip install 'odradek[json-schema]'`. Nothing is fetched for a `$ref`:
it leads into the schema, or into what the registry knows as its references. Patterns are those of RE2, as in the
registry: a client that may register a schema could stop its readers by one that backtracks.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from types import FunctionType
from typing import Any

from ... import how_to_install
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
            except InvalidOption:
                raise
            except Exception as unable:  # such as a `$ref` to nothing: its exceptions have no class in common
                raise BadJson(f"the schema cannot be followed: {unable!s:.500}") from unable
            if error is not None:
                raise BadJson(f"{error.json_path}: {error.message:.500}")

        return check


def _refuse(name: str) -> Any:
    raise BadJson(f"{name} is no number of JSON")


def _validator(text: str, references: dict[str, str]) -> Any:
    kind, schema = _checked(text)
    return _with_re2(kind)(schema, registry=_known(references))


def resolver_of(text: str, references: dict[str, str]) -> tuple[Any, Any]:
    """Return a schema, and what finds the schemas that its `$ref`s name. Raises InvalidOption."""
    _, schema = _checked(text)
    return schema, _known(references).resolver_with_root(resource_of(schema))


def _checked(text: str) -> tuple[Any, Any]:
    """Return the library's class of validators for a schema, and the schema. Raises InvalidOption for what is none."""
    jsonschema, schema = _library(), _json(text)
    try:
        kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
        # Python's `re` is no judge of patterns of RE2.
        kind.check_schema(schema, format_checker=jsonschema.FormatChecker(formats=()))
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


# -- Patterns


@cache
def _with_re2(kind: Any) -> Any:
    """Return a class of the library's validators whose keywords search by RE2. It is one class for each draft."""
    validators, fields = _library().validators, import_module("attrs").fields
    spaces: dict[int, dict[str, Any]] = {}
    made = validators.extend(kind, {name: _rebound(each, spaces) for name, each in kind.VALIDATORS.items()})

    def evolve(self: Any, **changes: Any) -> Any:
        # The library's own would take a class that it knows where a part of the schema names its draft.
        given = {each.alias: getattr(self, each.name) for each in fields(made) if each.init} | changes
        return _with_re2(validators.validator_for(given["schema"], default=kind))(**given)

    made.evolve = evolve
    return made


def _rebound(function: Any, spaces: dict[int, dict[str, Any]]) -> Any:
    """Return a function of the library in whose module, and in those that it calls, `re` is RE2."""
    names = function.__globals__
    if id(names) not in spaces:
        space = spaces[id(names)] = dict(names)
        for name, each in names.items():
            if each is re:
                space[name] = _Re2
            elif isinstance(each, FunctionType) and each.__module__.startswith("jsonschema._"):
                space[name] = _rebound(each, spaces)
    code, defaults, closure = function.__code__, function.__defaults__, function.__closure__
    made = FunctionType(code, spaces[id(names)], function.__name__, defaults, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


class _Re2:
    """What the library uses of `re`, in linear time."""

    @staticmethod
    def search(pattern: str, text: str) -> Any:
        """Return a match, None if there is none. Raises BadJson for a pattern that RE2 does not know."""
        return _pattern(pattern).search(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


@lru_cache(maxsize=1_000)
def _pattern(pattern: str) -> Any:
    try:
        re2 = import_module("re2")
    except ImportError as error:
        raise InvalidOption("patterns of JSON Schema need google-re2: pip install google-re2") from error
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError):
        raise BadJson(f"RE2 does not know the pattern {pattern!r:.200}") from None


def _library() -> Any:
    try:
        return import_module("jsonschema")
    except ImportError as error:
        raise InvalidOption(f"JSON Schema needs jsonschema: {how_to_install('json-schema')}") from error
