"""Arrow arrays in other types, at every depth. pyarrow's own cast also reads what lies under the nulls of a struct.

cast(array, type)               fields of structs by their places
cast(array, type, by_name)      by what a function says of them, with nulls for those that the array lacks
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import pyarrow as pa

# What fields of two structs have in common, of a field and its place.
Key = Callable[[int, Any], Hashable]
# What becomes of an array without parts.
Leaf = Callable[[Any, Any], Any]


def by_place(place: int, field: Any) -> Hashable:
    return place


def by_name(place: int, field: Any) -> Hashable:
    return field.name


def by_field_id(place: int, field: Any) -> Hashable:
    """Find fields by the ids that a table of Iceberg gives them."""
    return field.metadata[b"PARQUET:field_id"]


def plain(array: Any, kind: Any) -> Any:
    return array if array.type == kind else array.cast(kind)


def with_leaves(kind: Any, change: Callable[[Any], Any]) -> Any:
    """Return a type with another one in the place of each that has no parts."""

    def changed(field: Any) -> Any:
        return field.with_type(with_leaves(field.type, change))

    if pa.types.is_struct(kind):
        return pa.struct(list(map(changed, kind)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(changed(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(changed(kind.key_field), changed(kind.item_field))
    return change(kind)


def cast(array: Any, kind: Any, key: Key = by_place, leaf: Leaf = plain) -> Any:
    """Return the array in another type."""
    if pa.types.is_struct(kind):
        parts = projected(dict(zip(_keys(array.type, key), array.flatten(), strict=True)), kind, len(array), key, leaf)
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if not pa.types.is_map(kind) and not pa.types.is_list(kind):
        return leaf(array, kind)
    whole = pa.concat_arrays([array]) if array.offset else array
    mask = whole.is_null()
    if pa.types.is_list(kind):
        values = cast(whole.values, kind.value_type, key, leaf)
        return pa.ListArray.from_arrays(whole.offsets, values, type=kind, mask=mask)
    keys, items = cast(whole.keys, kind.key_type, key, leaf), cast(whole.items, kind.item_type, key, leaf)
    return pa.MapArray.from_arrays(whole.offsets, keys, items, type=kind, mask=mask)


def projected(held: dict[Hashable, Any], fields: Any, rows: int, key: Key, leaf: Leaf = plain) -> list[Any]:
    """Return arrays for the fields of a struct or a schema, of those that are held by their keys: nulls for others."""
    return [
        cast(held[found], each.type, key, leaf) if found in held else pa.nulls(rows, each.type)
        for found, each in zip(_keys(fields, key), fields, strict=True)
    ]


def _keys(fields: Any, key: Key) -> list[Hashable]:
    return [key(place, each) for place, each in enumerate(fields)]
