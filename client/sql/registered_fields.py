"""Keys and values of a schema registry as JSON, of which SQL makes columns.

The fields of the subject's latest version are the columns, and records are read as that version has them. A bad record
is JSON with one field, `_corrupt_record`, that holds all of its bytes in base64.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..errors import InvalidOption, KafkaError, SchemaRegistryRefused
from ..schemas.plain_json import to_json
from ..schemas.tables import table_of

if TYPE_CHECKING:
    from ..schemas.registered import RegisteredSerializer

CORRUPT = "_corrupt_record"
# Bytes -> the text of their JSON.
Decode = Callable[[bytes], str]


def decoder_of(topic: str, field: str, serializer: RegisteredSerializer) -> Decode:
    """Return what makes JSON of the keys or values of a topic. It raises the errors of the registry alone."""
    reader = _as_latest(topic, field, serializer)

    def decode(content: bytes) -> str:
        try:
            value = to_json(reader.decode(content, topic, field))
        except KafkaError:
            raise
        except Exception:  # noqa: BLE001 - whatever is wrong with a record, it is a bad one
            value = {CORRUPT: b64encode(content).decode()}
        return json.dumps(value, ensure_ascii=False)

    return decode


def fields_of(topic: str, serializer: RegisteredSerializer) -> dict[str, Any] | None:
    """Return the columns of values with DuckDB's types: those of the subject. None if the registry does not say."""
    reader = _as_latest(topic, "value", serializer)
    kind = getattr(reader, "type", None)
    if kind is None or not pa.types.is_struct(kind):
        return None
    return {each.name: _duck(each.type) for each in kind} | {CORRUPT: "VARCHAR"}


def _as_latest(topic: str, field: str, serializer: RegisteredSerializer) -> RegisteredSerializer:
    """Return the serializer with the latest version of the subject as its own schema, where that is a table's."""
    try:
        latest = serializer.registry.latest(f"{topic}-{field}").schema
        reader = table_of(serializer.registry, latest) if latest.type == serializer.TYPE else serializer
        _ = getattr(reader, "type", None)
    except SchemaRegistryRefused as error:
        if error.status != 404:
            raise
        return serializer
    except InvalidOption:  # its values are JSON all the same
        return serializer
    return reader


def _duck(kind: Any) -> Any:
    if pa.types.is_struct(kind):
        return {each.name: _duck(each.type) for each in kind}
    if pa.types.is_list(kind):
        return [_duck(kind.value_type)]
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return _DUCK.get(kind, "JSON")


_DUCK: Mapping[Any, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.date32(): "DATE",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP WITH TIME ZONE",
    pa.timestamp("us"): "TIMESTAMP",
}
