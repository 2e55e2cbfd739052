"""Keys and values of a schema registry: their texts, which are JSON, and the columns of values by the subject's schema.

The fields of the subject's latest version are the columns, with the types that Spark has, and records are read as that
version has them. A bad record has nulls, and the column `_corrupt_record` holds all of its bytes in base64.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import InvalidOption, KafkaError, SchemaRegistryRefused
from ..schemas.avro_columns import decoded, of_registry, taken, with_rows
from ..schemas.plain_json import to_json
from ..schemas.registered import RegisteredSerializer
from ..schemas.tables import ArrowAvro, TableAvro, TableJson, array_of, in_microseconds, table_of
from .fields import columns_of

CORRUPT = "_corrupt_record"


class RegisteredValues:
    """Makes texts of keys or values, and columns of values. It raises the errors of the registry alone."""

    reads_bytes = True

    def __init__(self, topic: str, field: str, serializer: RegisteredSerializer) -> None:
        self._topic, self._field = topic, field
        # What reads texts, in which times are ISO 8601, and what reads columns.
        self._reader, self._table = _readers(topic, field, serializer)
        # Whether there are columns: values that are no records have none.
        self.is_typed = self._table is not None and field == "value" and pa.types.is_struct(self._table.type)
        self.schema: Any = self._columns() if self.is_typed else pa.schema([])

    def _columns(self) -> Any:
        assert self._table is not None
        kinds = {each.name: each.type for each in self._table.type}
        named = columns_of(dict.fromkeys(kinds, "VARCHAR"))
        self._kinds = {name: kinds[name] for name in named if name != CORRUPT} | {CORRUPT: pa.string()}
        return pa.schema([(name, in_microseconds(kind)) for name, kind in self._kinds.items()])

    def texts(self, contents: Any) -> Any:
        """Return an Arrow array of JSON for one of bytes."""
        return pa.array([None if each is None else self._text(each) for each in contents.to_pylist()], pa.string())

    def _text(self, content: bytes) -> str:
        value = self._value(self._reader, content)
        if isinstance(value, dict) and CORRUPT in value and self._table is not None:
            value = self._value(self._table, content)
        try:
            return json.dumps(to_json(value), ensure_ascii=False)
        except RecursionError:
            return json.dumps(_corrupt(content))

    def arrays(self, values: Any, names: Sequence[str]) -> list[Any]:
        """Return the columns of these names, of an Arrow array of bytes."""
        assert self._table is not None
        kinds = [(name, self._kinds[name]) for name in names if name != CORRUPT]
        raw, final = pa.struct(kinds), pa.struct([(name, in_microseconds(kind)) for name, kind in kinds])
        made, left = pa.nulls(len(values), final), np.arange(len(values))
        if isinstance(self._table, ArrowAvro):
            made, left = decoded(values, raw, final, of_registry(self._table))
        rows = [{} if each is None else self._value(self._table, each) for each in taken(values, left).to_pylist()]
        columns = dict(zip([name for name, _ in kinds], made.flatten(), strict=True))
        columns[CORRUPT] = pa.nulls(len(values), pa.string())
        others = {name: array_of([each.get(name) for each in rows], self._kinds[name]) for name in names}
        return [with_rows(columns[name], left, others[name]) for name in names]

    def _value(self, reader: RegisteredSerializer, content: bytes) -> Any:
        try:
            value = reader.decode(content, self._topic, self._field)
            return value if isinstance(value, dict) or not self.is_typed else {}
        except KafkaError:
            raise
        except Exception:  # noqa: BLE001 - whatever is wrong with a record, it is a bad one
            return _corrupt(content)


def _corrupt(content: bytes) -> dict[str, str]:
    return {CORRUPT: b64encode(content).decode()}


def _readers(
    topic: str, field: str, serializer: RegisteredSerializer
) -> tuple[RegisteredSerializer, TableAvro | TableJson | None]:
    """Return what reads texts and what reads columns, as the latest version of the subject has records.

    There are no columns where the registry has no version, or one that is of another type or makes none.
    """
    registry = serializer.registry
    try:
        latest = registry.latest(f"{topic}-{field}").schema
        if latest.type != serializer.TYPE:
            return serializer, None
        reader = table_of(registry, latest)
        _ = reader.type
    except SchemaRegistryRefused as error:
        if error.status != 404:
            raise
        return serializer, None
    except InvalidOption:  # its values are JSON all the same
        return serializer, None
    return reader, ArrowAvro(registry, latest) if latest.type == "AVRO" else reader
