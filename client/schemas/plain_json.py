"""Values of a schema registry as plain JSON, for people and shells, and back.

Times are ISO 8601, decimals and UUIDs texts, bytes `{"base64": "..."}`, NaN and infinities null. A value of a union
stands as it is. Where several branches would take it, `{"branch": value}` names one, as in Avro's own JSON.

`PlainReader` reads each record by its own schema, whatever the type of that is.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# JSON has no types.

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal, DecimalException
from math import isfinite
from typing import Any, cast
from uuid import UUID

from .avro import Avro, types_by_name
from .json_schema import JsonSchema
from .registered import BadFrame, RegisteredSerializer, writer_of
from .schema_registry import Schema, SchemaRegistry

_PRIMITIVES = {
    "null": (type(None),),
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (float, int),
    "double": (float, int),
    "string": (str,),
    "enum": (str,),
    "record": (dict,),
    "map": (dict,),
    "array": (list,),
}


# Names of types that stand for themselves, also where a type with a name has one of them.
_KINDS = frozenset((*_PRIMITIVES, "bytes", "fixed"))


class NotOfSchema(ValueError):
    """JSON that is no value of a schema."""


def to_json(value: Any) -> Any:
    """Return a value that a deserializer made as plain JSON."""
    if isinstance(value, dict):
        return {str(name): to_json(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(each) for each in value]
    if isinstance(value, bytes):
        return {"base64": b64encode(value).decode("ascii")}
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, float) and not isfinite(value):
        return None  # JSON has no number for it
    return str(value) if isinstance(value, (Decimal, UUID)) else value


class AvroOfJson(Avro):
    """Avro that takes plain JSON."""

    def _encoder(self, registry: SchemaRegistry, schema: Schema) -> Callable[[Any], bytes]:
        encode, parsed = super()._encoder(registry, schema), self.parsed(registry, schema)
        named = types_by_name(parsed)
        return lambda content: encode(_of_type(content, parsed, named, "value"))


def _of_type(value: Any, kind: Any, named: dict[str, Any], path: str) -> Any:
    """Return plain JSON as fastavro takes it. Raises NotOfSchema."""
    kind = named.get(kind, kind) if isinstance(kind, str) else kind
    if isinstance(kind, list):
        return _of_union(value, kind, named, path)
    if isinstance(kind, str):
        kind = {"type": kind}
    name = kind["type"]
    if not isinstance(name, str) or (name in named and name not in _KINDS):
        return _of_type(value, name, named, path)
    if name in ("bytes", "fixed"):
        return _of_logical(value, kind, path) if kind.get("logicalType") == "decimal" else _bytes(value, path)
    if isinstance(value, str) and "logicalType" in kind:
        return _of_logical(value, kind, path)
    if not isinstance(value, _PRIMITIVES[name]) or (isinstance(value, bool) and name != "boolean"):
        raise NotOfSchema(f"{path} is of type {name}, not {value!r:.100}")
    return _inner(value, kind, named, path)


def _inner(value: Any, kind: dict[str, Any], named: dict[str, Any], path: str) -> Any:
    match kind["type"]:
        case "record":
            fields = {each["name"]: each["type"] for each in kind["fields"]}
            unknown = next((name for name in value if name not in fields), None)
            if unknown is not None:
                raise NotOfSchema(f"{path} has no field {unknown!r:.100}")
            return {name: _of_type(each, fields[name], named, f"{path}.{name}") for name, each in value.items()}
        case "map":
            return {name: _of_type(each, kind["values"], named, f"{path}.{name}") for name, each in value.items()}
        case "array":
            return [_of_type(each, kind["items"], named, f"{path}[{index}]") for index, each in enumerate(value)]
        case _:
            return value


def _of_union(value: Any, branches: list[Any], named: dict[str, Any], path: str) -> Any:
    if isinstance(value, dict) and len(value) == 1:
        # Avro's own JSON names the branch.
        name, inner = next(iter(value.items()))
        for each in branches:
            if _branch_name(each) == name:
                return _of_branch(inner, each, named, path)
    reasons: list[str] = []
    for each in branches:
        try:
            return _of_branch(value, each, named, path)
        except NotOfSchema as error:
            reasons.append(str(error))
    raise NotOfSchema(
        reasons[-1] if len(branches) == 2 and value is not None else f"{path}: no branch takes {value!r:.100}"
    )


def _of_branch(value: Any, kind: Any, named: dict[str, Any], path: str) -> Any:
    content = _of_type(value, kind, named, path)
    resolved = named.get(kind, kind) if isinstance(kind, str) else kind
    is_record = isinstance(resolved, dict) and resolved["type"] == "record"
    # Otherwise fastavro would look for a branch itself, and a record can look like a map.
    return (resolved["name"], content) if is_record else content


def _branch_name(kind: Any) -> str:
    return kind if isinstance(kind, str) else kind.get("name", kind["type"])


def _bytes(value: Any, path: str) -> bytes:
    try:
        if isinstance(value, dict) and value.keys() == {"base64"}:
            return b64decode(value["base64"], validate=True)
    except (Base64Error, TypeError, ValueError):
        pass
    raise NotOfSchema(f'{path} is bytes: {{"base64": "..."}}, not {value!r:.100}')


_LOGICAL: dict[str, Callable[[str], Any]] = {
    "decimal": Decimal,
    "date": date.fromisoformat,
    "time-millis": time.fromisoformat,
    "time-micros": time.fromisoformat,
    "uuid": UUID,
}


def _of_logical(value: Any, kind: dict[str, Any], path: str) -> Any:
    logical: str = kind["logicalType"]
    if logical == "decimal" and isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    read = _LOGICAL.get(logical, datetime.fromisoformat if "timestamp" in logical else None)
    if read is None:
        return value
    try:
        return read(cast("str", value))
    except (ValueError, TypeError, DecimalException):
        raise NotOfSchema(f"{path} is of type {logical}, not {value!r:.100}") from None


class PlainReader:
    """A deserializer by the schema of each record. With a `type`, such as AVRO, records of another one are bad."""

    def __init__(self, registry: SchemaRegistry | str, type: str | None = None, *, validate: bool = True) -> None:
        """Without `validate`, JSON is not checked by its schema, whose patterns can take any time."""
        self._registry = SchemaRegistry(registry) if isinstance(registry, str) else registry
        self._type, self._validate = type, validate
        self._readers: dict[str, RegisteredSerializer] = {}

    def decode_at_once(self, content: bytes, topic: str, field: str) -> Any:
        """Return a key or value as plain JSON. Raises as `read`."""
        return self.read(content)[1]

    def read(self, content: bytes) -> tuple[str, Any]:
        """Return the type of the schema, and the value as plain JSON.

        Raises SchemaMissing if the registry must be asked first, BadFrame or another error for bytes that are bad,
        InvalidOption where the library of the type is missing.
        """
        found = writer_of(self._registry.at_once, content).type
        if found not in ("AVRO", "JSON") or self._type not in (None, found):
            raise BadFrame(f"the schema is of type {found}" + (f", not {self._type}" if self._type else ""))
        return found, to_json(self._reader(found).decode_at_once(content, "", "value"))

    def _reader(self, type: str) -> RegisteredSerializer:
        if type not in self._readers:
            avro = type == "AVRO"
            self._readers[type] = Avro(self._registry) if avro else JsonSchema(self._registry, validate=self._validate)
        return self._readers[type]
