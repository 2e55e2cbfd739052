"""Avro's schema resolution: can data written with one schema be read with another, and why not.

The rules are those of the specification ("Schema Resolution"): numbers widen; bytes and strings are one; records, enums
and fixed match by their short name or an alias of the reader; a field that only the reader has needs a default; every
branch of the writer's union must be readable. A pair of types that is being compared counts as readable inside itself,
so recursion ends.
"""

from __future__ import annotations

from itertools import islice

from .avro import MISSING, NAMED, AvroType, Field
from .difference import Difference, Steps

# Reader -> the writers' types that it widens.
_WIDENS = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "string": {"bytes"},
    "bytes": {"string"},
}
_BRANCHES_OF_A_STEP = 20


def differences(reader: AvroType, writer: AvroType, steps: Steps | None = None) -> list[Difference]:
    """Return why `reader` cannot read what `writer` wrote; nothing if it can. Raises RegistryError past the bound."""
    return _Comparison(steps or Steps()).compare(reader, writer, "/")


class _Comparison:
    """One comparison of two schemas, with the pairs that it has seen."""

    def __init__(self, steps: Steps) -> None:
        self._seen: dict[tuple[int, int], list[Difference]] = {}
        self._steps = steps

    def compare(self, reader: AvroType, writer: AvroType, path: str) -> list[Difference]:
        pair = (id(reader), id(writer))
        if pair in self._seen:
            return self._seen[pair]
        self._steps.take()
        before = len(self._seen)
        self._seen[pair] = []
        found = self._different(reader, writer, path)[: Steps.MAX_DIFFERENCES]
        if found:
            self._forget(before)
        self._seen[pair] = found
        return found

    def _forget(self, before: int) -> None:
        """Forget pairs that counted as readable while a pair around them did, which is not."""
        for pair in [pair for pair in islice(self._seen, before, None) if not self._seen[pair]]:
            del self._seen[pair]

    def _different(self, reader: AvroType, writer: AvroType, path: str) -> list[Difference]:
        if writer.kind == "union":
            return self._writer_union(reader, writer, path)
        if reader.kind == "union":
            return self._reader_union(reader, writer, path)
        if reader.kind != writer.kind:
            return [] if writer.kind in _WIDENS.get(reader.kind, ()) else [_type_mismatch(reader, writer, path)]
        if reader.kind in NAMED:
            return self._named(reader, writer, path)
        if reader.kind == "array":
            return self.compare(reader.inner[0], writer.inner[0], _below(path, "items"))
        if reader.kind == "map":
            return self.compare(reader.inner[0], writer.inner[0], _below(path, "values"))
        return []

    def _writer_union(self, reader: AvroType, writer: AvroType, path: str) -> list[Difference]:
        found: list[Difference] = []
        for index, branch in enumerate(writer.inner):
            place = _below(path, str(index))
            if reader.kind == "union":
                found += self._reader_union(reader, branch, place)
            elif self.compare(reader, branch, place):
                found.append(_missing_branch(branch, place))
        return found

    def _reader_union(self, reader: AvroType, writer: AvroType, path: str) -> list[Difference]:
        # To look through a long union counts, too: a writer's may be as long.
        self._steps.take(len(reader.inner) // _BRANCHES_OF_A_STEP)
        same = [each for each in reader.inner if each.kind == writer.kind and _names_match(each, writer)]
        others = [each for each in reader.inner if writer.kind in _WIDENS.get(each.kind, ())]
        found: list[Difference] = []
        for branch in same + others:
            reasons = self.compare(branch, writer, path)
            if not reasons:
                return []
            found = found or reasons
        return found or [_missing_branch(writer, path)]

    def _named(self, reader: AvroType, writer: AvroType, path: str) -> list[Difference]:
        found: list[Difference] = []
        if not _names_match(reader, writer):
            text = f"The name of the schema has changed (path '{_below(path, 'name')}')"
            found.append(Difference("NAME_MISMATCH", text, f"expected: {writer.name}"))
        if reader.kind == "record":
            return found + self._fields(reader, writer, path)
        return found + (_symbols(reader, writer, path) if reader.kind == "enum" else _size(reader, writer, path))

    def _fields(self, reader: AvroType, writer: AvroType, path: str) -> list[Difference]:
        written = {each.name: each for each in writer.fields}
        found: list[Difference] = []
        for index, each in enumerate(reader.fields):
            place = _below(path, f"fields/{index}")
            source = _source(each, written)
            if source is not None:
                found += self.compare(each.type, source.type, _below(place, "type"))
            elif each.default is MISSING:
                found.append(_no_default(each, place))
        return found


def _source(reader: Field, written: dict[str, Field]) -> Field | None:
    names = (reader.name, *reader.aliases)
    return next((written[name] for name in names if name in written), None)


def _names_match(reader: AvroType, writer: AvroType) -> bool:
    return reader.short_name == writer.short_name or writer.name in reader.aliases


def _symbols(reader: AvroType, writer: AvroType, path: str) -> list[Difference]:
    missing = [symbol for symbol in writer.symbols if symbol not in reader.symbol_set]
    if not missing or reader.default is not MISSING:
        return []
    names, place = f"[{', '.join(missing)}]", _below(path, "symbols")
    text = f"The READER schema is missing enum symbols '{names}' at path '{place}' in the WRITER schema"
    return [Difference("MISSING_ENUM_SYMBOLS", text, names)]


def _size(reader: AvroType, writer: AvroType, path: str) -> list[Difference]:
    if reader.size == writer.size:
        return []
    place = _below(path, "size")
    text = f"The size of FIXED type field at path '{place}' in the READER schema does not match with the WRITER schema"
    return [Difference("FIXED_SIZE_MISMATCH", text, f"expected: {writer.size}, found: {reader.size}")]


def _no_default(field: Field, path: str) -> Difference:
    text = (
        f"The field '{field.name}' at path '{path}' in the READER schema has no default value and is missing in the "
        "WRITER schema"
    )
    return Difference("READER_FIELD_MISSING_DEFAULT_VALUE", text, field.name)


def _type_mismatch(reader: AvroType, writer: AvroType, path: str) -> Difference:
    text = f"The type (path '{path}') of a field in the READER schema does not match with the WRITER schema"
    info = f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}"
    return Difference("TYPE_MISMATCH", text, info)


def _missing_branch(writer: AvroType, path: str) -> Difference:
    text = f"The READER schema is missing a type inside a union field at path '{path}' in the WRITER schema"
    return Difference("MISSING_UNION_BRANCH", text, f"reader union lacking writer type: {writer.kind.upper()}")


def _below(path: str, name: str) -> str:
    return f"{path.rstrip('/')}/{name}"
