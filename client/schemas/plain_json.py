"""Values of Avro as plain JSON, for people and shells, and back.

Times are ISO 8601, decimals and UUIDs texts, bytes `{"base64": "..."}`. A value of a union stands as it is. Where
several branches would take it, `{"branch": value}` names one, as in Avro's own JSON.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# JSON has no types.

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal, DecimalException
from typing import Any, cast
from uuid import UUID

from .avro import Avro
from .avro_shape import types_by_name
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
    if not isinstance(name, str) or name in named:
        return _of_type(value, name, named, path)
    if name in ("bytes", "fixed"):
        return _of_logical(value, kind, path) if kind.get("logicalType") == "decimal" else _bytes(value, path)
    if isinstance(value, str) and "logicalType" in kind:
        return _of_logical(value, kind, path)
    if not isinstance(value, _PRIMITIVES[name]) or (isinstance(value, bool) and name != "boolean"):
        raise NotOfSchema(f"{path} is a {name}, not {value!r:.100}")
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
        raise NotOfSchema(f"{path} is a {logical}, not {value!r:.100}") from None
