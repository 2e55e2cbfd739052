"""Avro's schemas as a program of the compiled kernel, which reads records into the columns of an Arrow array.

    program_of(writer, reader, columns)             the steps (kernel/avro.pxi) that read what a schema wrote

fastavro resolves the two schemas here, once for all records. Whatever it, or pyarrow, would reject or change becomes a
step that is not usual: then Python reads the record, and decides. So this module knows good records alone.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# JSON, fastavro and pyarrow have no types.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from importlib import import_module
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa

from .avro import Shape, shape_of, types_by_name
from .avro_places import UNITS, Columns, Kind, Place, Unknown
from .casts import cast
from .tables import fits

# A schema whose types lead to one another twice each doubles with every step. A table has at most 10,000 columns.
MAX_STEPS = 40_000
_STEP = Struct("<8q")
_I64 = (-(1 << 63), (1 << 63) - 1)
# The range of Python's dates, in days, and of its times, in microseconds, since 1970.
_DAYS = (-719_162, 2_932_896)
_US = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)
_MAX_DIGITS = 38


class Do(IntEnum):
    """What a step of the kernel does."""

    NOTHING = 0
    NOT_USUAL = 1
    CELL = 2
    BOOLEAN = 3
    WHOLE = 4
    WHOLE_AS_REAL = 5
    FLOAT = 6
    DOUBLE = 7
    BLOB = 8
    DECIMAL = 9
    UNION = 10
    RECORD = 11
    ARRAY = 12
    MAP = 13


def program_of(writer: Any, reader: Any, columns: Columns, *, is_field: bool = False) -> tuple[bytes, bytes, bytes]:
    """Return what reads values of a parsed schema as another one has them, or as they were written.

    It is the steps, links and constants of the kernel's AvroProgram.

    `is_field`: a value is the only field of the column's struct. Raises Unknown for what Python reads better.
    """
    if shape_of(writer) is not Shape.PLAIN:
        raise Unknown("a type that holds itself, or items of no bytes")
    made = _Steps(types_by_name(writer), {} if reader is None else types_by_name(reader))
    made.whole(writer, reader, columns.root, is_field)
    return b"".join(made.steps), np.array(made.links, np.int32).tobytes(), bytes(made.constants)


class _Steps:
    """The steps of one program, of which each comes behind its parts."""

    def __init__(self, written: Mapping[str, Any], read: Mapping[str, Any]) -> None:
        self._named = {"writer": written, "reader": read}
        resolution = import_module("fastavro._read_py")
        self._match_schemas, self._match_types = resolution.match_schemas, resolution.match_types
        self._logical: Mapping[str, Any] = import_module("fastavro.read").LOGICAL_READERS
        self.steps: list[bytes] = []
        self.links: list[int] = []
        self.constants = bytearray()

    def _add(
        self, do: Do, place: Place | None = None, *, size: int = -1, argument: int = 0,
        bounds: tuple[int, int] = _I64, parts: Sequence[int] = (),
    ) -> int:  # fmt: skip
        if len(self.steps) == MAX_STEPS:
            raise Unknown("too many steps")
        number, first = -1 if place is None else place.number, len(self.links)
        self.links += parts
        self.steps.append(_STEP.pack(do, number, size, argument, *bounds, first, len(parts)))
        return len(self.steps) - 1

    def whole(self, writer: Any, reader: Any, root: Place, is_field: bool) -> None:
        """Add the steps of a program."""
        if is_field:
            self._add(Do.RECORD, root, parts=[self.value(writer, reader, root.parts[0])])
        else:
            self.value(writer, reader, root)

    def value(self, writer: Any, reader: Any, place: Place | None) -> int:
        """Add the step that reads a value of a type; `place` None: the value is read and goes nowhere."""
        kind = _kind_of(writer)
        try:
            reader = self._match_schemas(writer, reader, self._named) if reader else None
        except Exception:  # noqa: BLE001 - its exceptions have no class in common, and Python says which
            return self._add(Do.NOT_USUAL)
        if not isinstance(kind, str):
            return self._add(Do.NOT_USUAL)
        if kind in self._named["writer"]:
            if not isinstance(reader, str | None):
                return self._add(Do.NOT_USUAL)
            return self.value(self._named["writer"][kind], self._named["reader"].get(reader or ""), place)
        match kind:
            case "null":
                return self._add(Do.NOTHING, place)
            case "union":
                return self._add(Do.UNION, parts=[self._branch(each, reader, place) for each in writer])
            case "record" | "error":
                return self._record(writer, reader, place)
            case "array" | "map":
                return self._items(kind, writer, reader, place)
            case "enum":
                return self._enum(writer, reader, place)
            case _:
                return self._plain(kind, writer, _kind_of(reader), place)

    def _branch(self, writer: Any, reader: Any, place: Place | None) -> int:
        """Add the step of a branch of a union. It is read as the first of the reader's branches that it matches."""
        if not reader:
            return self.value(writer, None, place)
        try:
            branches = reader if isinstance(reader, list) else [reader]
            found = next((each for each in branches if self._match_types(writer, each, self._named)), None)
        except Exception:  # noqa: BLE001 - as above
            found = None
        return self._add(Do.NOT_USUAL) if found is None else self.value(writer, found, place)

    def _record(self, writer: Any, reader: Any, place: Place | None) -> int:
        if place is not None and place.kind is not Kind.STRUCTS:
            return self._add(Do.NOT_USUAL)
        parts: list[int] = []
        left = {} if place is None else dict(zip(place.names, place.parts, strict=True))
        fields = {each["name"]: each for each in (writer if reader is None else reader)["fields"]}
        names = {alias: name for name, each in fields.items() for alias in each.get("aliases", ())}
        names = names | {name: name for name in fields} if reader is not None else {name: name for name in fields}
        for each in writer["fields"]:
            name = names.get(each["name"])
            if name is None:
                parts.append(self.value(each["type"], None, None))
            elif name not in fields:
                return self._add(Do.NOT_USUAL)  # the reader's aliases give two written fields one name
            else:
                kind = fields.pop(name)["type"]
                parts.append(self.value(each["type"], None if reader is None else kind, left.pop(name, None)))
        for name, each in fields.items():
            if "default" not in each:
                return self._add(Do.NOT_USUAL)
            if name in left:
                parts.append(self._default(each["default"], left.pop(name)))
        parts += [self._add(Do.NOTHING, each) for each in left.values()]
        return self._add(Do.RECORD, place, parts=parts)

    def _items(self, kind: str, writer: Any, reader: Any, place: Place | None) -> int:
        inner: Place | None = None
        if place is not None:
            if not (pa.types.is_map(place.final) if kind == "map" else pa.types.is_list(place.final)):
                return self._add(Do.NOT_USUAL)
            inner = place.parts[0].parts[1] if kind == "map" else place.parts[0]
        name = "values" if kind == "map" else "items"
        item = self.value(writer[name], None if reader is None else reader[name], inner)
        return self._add(Do.MAP if kind == "map" else Do.ARRAY, place, parts=[item])

    def _enum(self, writer: Any, reader: Any, place: Place | None) -> int:
        if place is not None and place.kind is not Kind.BINARY:
            return self._add(Do.NOT_USUAL)
        known = writer["symbols"] if reader is None else reader["symbols"]
        default = None if reader is None else reader.get("default")
        parts: list[int] = []
        for each in writer["symbols"]:
            symbol = each if each in known else default
            parts.append(self._cell(symbol.encode(), place) if symbol else self._add(Do.NOT_USUAL))
        return self._add(Do.UNION, parts=parts)

    # -- Constants

    def _cell(self, content: bytes, place: Place | None) -> int:
        return self._add(Do.CELL, place, size=len(content), argument=self._constant(content))

    def _constant(self, content: bytes) -> int:
        self.constants += content
        return len(self.constants) - len(content)

    def _default(self, value: Any, place: Place) -> int:
        """Add the step of a field that the writer's records do not have."""
        try:
            array = cast(pa.array([value], place.raw), place.final) if fits(value, place.raw) else None
        except (ValueError, TypeError, OverflowError):
            array = None
        return self._add(Do.NOT_USUAL) if array is None else self._of_array(array, place)

    def _of_array(self, array: Any, place: Place) -> int:
        if array.null_count:
            return self._add(Do.NOTHING, place)
        if place.kind is Kind.STRUCTS:
            parts = [self._of_array(part, each) for part, each in zip(array.flatten(), place.parts, strict=True)]
            return self._add(Do.RECORD, place, parts=parts)
        if place.kind is Kind.LISTS:
            return self._cell(b"", place) if array.to_pylist() == [[]] else self._add(Do.NOT_USUAL)
        if place.kind is Kind.BINARY:
            return self._cell(array.cast(pa.binary())[0].as_py(), place)
        if pa.types.is_boolean(place.final):
            return self._cell(bytes([array[0].as_py()]), place)
        begin = array.offset * place.width
        return self._cell(array.buffers()[1].to_pybytes()[begin : begin + place.width], place)

    # -- Types without parts

    def _plain(self, kind: str, writer: Any, read_as: Any, place: Place | None) -> int:
        logical = f"{kind}-{writer['logicalType']}" if isinstance(writer, dict) and "logicalType" in writer else ""
        final = None if place is None else place.final
        if logical in self._logical:
            return self._of_logical(logical, writer, place)
        if kind in ("int", "long"):
            return self._whole(kind, read_as in ("float", "double"), place)
        if kind in ("bytes", "string", "fixed"):
            if place is not None and place.kind is not Kind.BINARY:
                return self._add(Do.NOT_USUAL)
            is_text = "string" in (kind, read_as) or final == pa.string()
            return self._add(Do.BLOB, place, size=writer["size"] if kind == "fixed" else -1, argument=is_text)
        do, kinds = _NUMBERS.get(kind, (Do.NOT_USUAL, ()))
        return self._add(do, place) if final is None or final in kinds else self._add(Do.NOT_USUAL)

    def _whole(self, kind: str, is_promoted: bool, place: Place | None) -> int:
        if place is None:
            return self._add(Do.WHOLE, argument=1)
        if place.final in (pa.float32(), pa.float64()):
            # pyarrow takes a whole number for a float that is exactly that one.
            exact = 1 << (24 if place.width == 4 else 53)
            return self._add(Do.WHOLE_AS_REAL, place, argument=1, bounds=_I64 if is_promoted else (-exact, exact))
        if is_promoted:
            return self._add(Do.NOT_USUAL)
        if pa.types.is_signed_integer(place.final):
            most = 1 << (8 * place.width - 1)
            return self._add(Do.WHOLE, place, argument=1, bounds=(-most, most - 1))
        return self._time(place, place.raw)

    def _time(self, place: Place, raw: Any) -> int:
        """Add the step of a date, or of a time in a unit."""
        if pa.types.is_date(raw) and place.final == raw:
            return self._add(Do.WHOLE, place, argument=1, bounds=_DAYS)
        if not pa.types.is_timestamp(raw) or not pa.types.is_timestamp(place.final) or place.final.unit != "us":
            return self._add(Do.NOT_USUAL)
        factor = UNITS[raw.unit]
        return self._add(Do.WHOLE, place, argument=factor, bounds=(-(-_US[0] // factor), _US[1] // factor))

    def _of_logical(self, logical: str, writer: Any, place: Place | None) -> int:
        if logical in ("bytes-decimal", "fixed-decimal"):
            return self._decimal(writer, place)
        raw = _LOGICAL.get(logical)
        if raw is None:
            return self._add(Do.NOT_USUAL)
        if place is not None:
            return self._time(place, raw)
        return self._time(Place(-1, raw, raw if pa.types.is_date(raw) else pa.timestamp("us"), Kind.NUMBERS), raw)

    def _decimal(self, writer: Any, place: Place | None) -> int:
        precision = min(writer["precision"], _MAX_DIGITS)
        if place is not None:
            if not pa.types.is_decimal128(place.final) or place.final.scale != writer.get("scale", 0):
                return self._add(Do.NOT_USUAL)
            precision = min(precision, place.final.precision)
        limit = self._constant((10**precision - 1).to_bytes(16, "little"))
        return self._add(Do.DECIMAL, place, size=writer.get("size", -1), argument=limit)


_NUMBERS = {
    "boolean": (Do.BOOLEAN, (pa.bool_(),)),
    "float": (Do.FLOAT, (pa.float32(), pa.float64())),
    "double": (Do.DOUBLE, (pa.float64(),)),
}
_LOGICAL = {
    "int-date": pa.date32(),
    "long-timestamp-millis": pa.timestamp("ms"),
    "long-timestamp-micros": pa.timestamp("us"),
    "long-local-timestamp-millis": pa.timestamp("ms"),
    "long-local-timestamp-micros": pa.timestamp("us"),
}


def _kind_of(schema: Any) -> Any:
    """Return what fastavro calls the type of a schema."""
    return "union" if isinstance(schema, list) else schema["type"] if isinstance(schema, dict) else schema
