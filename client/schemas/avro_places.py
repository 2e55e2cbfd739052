"""The columns of the compiled kernel (kernel/avro.pxi) that take values of Avro, and the Arrow array of them."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa

_COLUMN = Struct("<4q")
# The units of time that the kernel makes microseconds of.
UNITS = {"ms": 1000, "us": 1}


class Unknown(Exception):
    """A type that the kernel has no columns for."""


class Kind(IntEnum):
    """What a column of the kernel holds."""

    NUMBERS = 0
    BINARY = 1
    LISTS = 2
    STRUCTS = 3


@dataclass(slots=True)
class Place:
    """A column: what values are read as, which only a unit of time tells apart from what it holds."""

    number: int
    raw: Any
    final: Any
    kind: Kind
    width: int = 0
    parts: list[Place] = field(default_factory=list["Place"])

    @property
    def names(self) -> list[str]:
        """The fields of a struct."""
        return [each.name for each in self.final]


class Columns:
    """The columns of one Arrow type. Raises Unknown."""

    def __init__(self, raw: Any, final: Any) -> None:
        self._places: list[Place] = []
        self.root = self._place(raw, final)
        siblings = {one.number: two.number for each in self._places for one, two in pairwise(each.parts)}
        self.shapes = b"".join(
            _COLUMN.pack(
                each.kind, each.width, each.parts[0].number if each.parts else -1, siblings.get(each.number, -1)
            )
            for each in self._places
        )

    def _place(self, raw: Any, final: Any) -> Place:
        made = Place(len(self._places), raw, final, *_shape_of(final))
        self._places.append(made)
        if pa.types.is_struct(final):
            if len({each.name for each in final}) < final.num_fields:
                raise Unknown("a struct names a field twice")
            made.parts = [self._place(one.type, two.type) for one, two in zip(raw, final, strict=True)]
        elif pa.types.is_map(final):
            one, two = (pa.struct([each.key_field, each.item_field]) for each in (raw, final))
            made.parts = [self._place(one, two)]
        elif pa.types.is_list(final):
            made.parts = [self._place(raw.value_type, final.value_type)]
        return made

    def array(self, filled: Any, place: Place | None = None) -> Any:
        """Return the Arrow array of filled columns."""
        place = self.root if place is None else place
        length, valid, ends, data = filled.part(place.number)
        nulls, bits = 0, None
        if valid is not None:
            marks = np.frombuffer(valid, np.uint8)
            nulls, bits = length - int(marks.sum()), _bits(marks)
        buffers = [bits]
        if place.kind in (Kind.BINARY, Kind.LISTS):
            buffers.append(pa.py_buffer(ends))
        if place.kind in (Kind.BINARY, Kind.NUMBERS):
            is_boolean = pa.types.is_boolean(place.final)
            buffers.append(_bits(np.frombuffer(data, np.uint8)) if is_boolean else pa.py_buffer(data))
        parts = [self.array(filled, each) for each in place.parts]
        return pa.Array.from_buffers(place.final, length, buffers, nulls, children=parts or None)


def _bits(marks: Any) -> Any:
    return pa.py_buffer(np.packbits(marks, bitorder="little"))


def _shape_of(kind: Any) -> tuple[Kind, int]:
    if pa.types.is_struct(kind):
        return Kind.STRUCTS, 0
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        return Kind.LISTS, 0
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        return Kind.BINARY, 0
    if pa.types.is_boolean(kind):
        return Kind.NUMBERS, 1
    if pa.types.is_signed_integer(kind) or kind in (pa.float32(), pa.float64(), pa.date32()) or _is_known(kind):
        return Kind.NUMBERS, kind.bit_width // 8
    raise Unknown(str(kind))


def _is_known(kind: Any) -> bool:
    return (pa.types.is_timestamp(kind) and kind.unit in UNITS) or pa.types.is_decimal128(kind)
