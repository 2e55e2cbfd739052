"""Confluent's rules for Protobuf: can data written with one schema be read with another, and why not.

The number is the field, so names may change. Fields may come and go, unless they are required or of a oneof that stays.
A field keeps its kind: a scalar (and which bytes it is written as), a message or a map. Fields that could be set
together must not become a oneof. A message of the file must stay; so must the package. Extensions are fields of the
message that they extend. Two rules are stricter than Confluent's, which does not see a label that is not written: a
number of proto3 may not become a list, and no field may become required. A group is written as other bytes than a
message.
"""

from __future__ import annotations

from typing import Any

from .difference import Difference, Steps

_TYPE_OF_NUMBER = "double float int64 uint64 int32 fixed64 fixed32 bool string group message bytes uint32 enum sfixed32"
_TYPES = dict(enumerate([*_TYPE_OF_NUMBER.split(), "sfixed64", "sint32", "sint64"], 1))
_TEXT, _MESSAGE, _GROUP, _MAP = "text", "message", "group", "map"
# Of each type, the types that are written as the same bytes.
_KINDS = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool", "enum"), "number"),
    **dict.fromkeys(("sint32", "sint64"), "signed number"),
    **dict.fromkeys(("fixed32", "sfixed32"), "fixed32"),
    **dict.fromkeys(("fixed64", "sfixed64"), "fixed64"),
    **dict.fromkeys(("string", "bytes"), _TEXT),
    **{name: name for name in ("float", "double", _MESSAGE, _GROUP)},
}
_DESCRIPTIONS = {
    "PACKAGE_CHANGED": "The package at '{}' in the READER schema does not match the package in the WRITER schema",
    "MESSAGE_REMOVED": "The READER schema is missing a MESSAGE type at path '{}' in the WRITER schema",
    "FIELD_KIND_CHANGED": "The type of a field at path '{}' in the READER schema does not match the WRITER schema",
    "FIELD_SCALAR_KIND_CHANGED": "The kind of a SCALAR field at path '{}' in the READER schema does not match its kind "
    "in the WRITER schema",
    "FIELD_NAMED_TYPE_CHANGED": "The type of a MESSAGE field at path '{}' in the READER schema does not match its type "
    "in the WRITER schema",
    "FIELD_NUMERIC_LABEL_CHANGED": "The label for a NUMERIC field at path '{}' in the READER schema does not match its "
    "label in the WRITER schema",
    "REQUIRED_FIELD_ADDED": "A required field at path '{}' in the READER schema is missing in the WRITER schema",
    "REQUIRED_FIELD_REMOVED": "The READER schema is missing a required field at path '{}' in the WRITER schema",
    "ONEOF_FIELD_REMOVED": "The READER schema is missing a oneof field at path '{}' in the WRITER schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "Multiple fields in the oneof at path '{}' in the READER schema are outside a "
    "oneof in the WRITER schema",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "A field in the oneof at path '{}' in the READER schema is outside an existing "
    "oneof in the WRITER schema",
}


def differences(reader: Any, writer: Any, steps: Steps | None = None) -> list[Difference]:
    """Return why a linked file cannot read what another one wrote; nothing if it can. Raises RegistryError past the
    bound."""
    return _Comparison(steps or Steps()).compare(reader, writer)


class _Comparison:
    """One comparison of two files. Pairs of messages wait in a list, so no depth of types is a depth of the stack."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._found: list[Difference] = []
        self._pairs: list[tuple[Any, Any, str]] = []
        self._seen: set[tuple[str, str]] = set()

    def compare(self, reader: Any, writer: Any) -> list[Difference]:
        if reader.package != writer.package:
            self._add("PACKAGE_CHANGED", "#/")
        self._files = reader.name, writer.name
        self._types(reader.message_types_by_name, writer.message_types_by_name, "#")
        while self._pairs and len(self._found) < Steps.MAX_DIFFERENCES:
            self._messages(*self._pairs.pop())
        return self._found[: Steps.MAX_DIFFERENCES]

    def _add(self, kind: str, path: str) -> None:
        self._found.append(Difference(kind, _DESCRIPTIONS[kind].format(path)))

    def _types(self, readers: Any, writers: Any, path: str) -> None:
        for name, writer in writers.items():
            self._steps.take()
            if writer.GetOptions().map_entry:  # it is compared as the type of its map field
                continue
            if name in readers:
                self._pair(readers[name], writer, f"{path}/{name}")
            else:
                self._add("MESSAGE_REMOVED", f"{path}/{name}")

    def _pair(self, reader: Any, writer: Any, path: str) -> None:
        names = (reader.full_name, writer.full_name)
        if names not in self._seen:
            self._seen.add(names)
            self._pairs.append((reader, writer, path))

    def _messages(self, reader: Any, writer: Any, path: str) -> None:
        self._oneofs(reader, writer, path)
        ours, theirs = _with_extensions(reader), _with_extensions(writer)
        for number in sorted({*ours, *theirs}):
            self._steps.take()
            if number not in ours:
                self._removed(reader, theirs[number], path)
            elif number in theirs:
                self._fields(ours[number], theirs[number], _place(ours[number], path))
            elif ours[number].is_required:
                self._add("REQUIRED_FIELD_ADDED", f"{path}/{number}")
        self._types(reader.nested_types_by_name, writer.nested_types_by_name, path)

    def _oneofs(self, reader: Any, writer: Any, path: str) -> None:
        """Look for fields that could be set together, and are now of one oneof."""
        theirs = writer.fields_by_number
        for oneof in reader.oneofs:
            before = [theirs[each.number] for each in oneof.fields if each.number in theirs and _oneof(each)]
            alone = sum(_oneof(each) is None for each in before)
            groups = alone + len({each.containing_oneof.name for each in before if _oneof(each)})
            if groups > 1:
                kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if alone > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF"
                self._add(kind, f"{path}/{oneof.name}")

    def _removed(self, reader: Any, field: Any, path: str) -> None:
        oneof = _oneof(field)
        if oneof is None:
            if field.is_required:
                self._add("REQUIRED_FIELD_REMOVED", f"{path}/{field.number}")
        elif oneof.name in reader.oneofs_by_name or any(
            each.number in reader.fields_by_number for each in oneof.fields
        ):
            # A oneof that is gone as a whole is a choice that nobody makes any more.
            self._add("ONEOF_FIELD_REMOVED", _place(field, path))

    def _fields(self, reader: Any, writer: Any, path: str) -> None:
        ours, theirs = _kind(reader), _kind(writer)
        if ours != theirs:
            is_scalar = not {ours, theirs} & {_MESSAGE, _GROUP, _MAP}
            self._add("FIELD_SCALAR_KIND_CHANGED" if is_scalar else "FIELD_KIND_CHANGED", path)
        elif ours == _MAP:
            entry, old = reader.message_type.fields_by_name, writer.message_type.fields_by_name
            for name in ("key", "value"):
                self._fields(entry[name], old[name], path)
        elif ours not in (_MESSAGE, _GROUP, _TEXT) and _label(reader) != _label(writer):
            self._add("FIELD_NUMERIC_LABEL_CHANGED", path)
        elif reader.is_required and not writer.is_required:
            self._add("REQUIRED_FIELD_ADDED", path)
        if ours == theirs and ours in (_MESSAGE, _GROUP):
            self._message_types(reader.message_type, writer.message_type, path)

    def _message_types(self, reader: Any, writer: Any, path: str) -> None:
        name = _local_name(reader)
        if name != _local_name(writer):
            self._add("FIELD_NAMED_TYPE_CHANGED", path)
        elif (reader.file.name, writer.file.name) != self._files:
            # The types of the files themselves are compared anyhow.
            self._pair(reader, writer, f"#/{name.replace('.', '/')}")


def _with_extensions(message: Any) -> dict[int, Any]:
    return {**message.fields_by_number, **{each.number: each for each in message.file.pool.FindAllExtensions(message)}}


def _kind(field: Any) -> str:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _MAP
    return _KINDS[_TYPES[field.type]]


def _label(field: Any) -> str:
    return "repeated" if field.is_repeated else "required" if field.is_required else "optional"


def _oneof(field: Any) -> Any:
    """Return the oneof that a field is of, None for that which only stands for the word `optional`."""
    oneof = field.containing_oneof
    return None if oneof is None or (len(oneof.fields) == 1 and oneof.name == f"_{field.name}") else oneof


def _place(field: Any, path: str) -> str:
    oneof = _oneof(field)
    return f"{path}/{field.number}" if oneof is None else f"{path}/{oneof.name}/{field.number}"


def _local_name(message: Any) -> str:
    package = message.file.package
    return message.full_name.removeprefix(f"{package}.") if package else message.full_name
