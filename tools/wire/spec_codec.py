"""A codec that walks Kafka's own specifications: slow, plain, and without a line of `odradek.protocol`.

A message is a dict by the field names of the specification (``{"Topics": [{"Name": "t"}]}``). Encoding fills missing
fields with the specification's defaults, and drops fields that the version does not have. Decoding returns every field
of the version, also tagged ones. The wire captures, the comparison with a real broker and the golden tests use this
codec as a second opinion.

The specifications are `tests/golden/kafka-4.3.1/requests-and-responses.json`.
"""

from __future__ import annotations

import functools
import json
import struct
import uuid
from pathlib import Path
from typing import Any

SPECIFICATIONS = Path(__file__).parents[2] / "tests" / "golden" / "kafka-4.3.1" / "requests-and-responses.json"

INTEGERS = {
    "bool": ">?",
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
}


class Message:
    """One request or response: its key, versions and fields."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.name: str = spec["name"]
        self.key: int | None = spec.get("apiKey")
        self.versions = spec["validVersions"]
        self.fields: list[dict[str, Any]] = spec["fields"]
        self.flexible: str = spec.get("flexibleVersions", "none")
        self.structs = {struct["name"]: struct["fields"] for struct in spec.get("commonStructs", [])}

    def is_flexible(self, version: int) -> bool:
        return in_range(self.flexible, version)

    def encode(self, body: dict[str, Any], version: int) -> bytes:
        return Writer(self, version).fields(self.fields, body)

    def decode(self, data: bytes, version: int) -> dict[str, Any]:
        """Return the fields of `data`. Raises ValueError if bytes are missing or left over."""
        reader = Reader(self, version, data)
        body = reader.fields(self.fields)
        if reader.position != len(data):
            raise ValueError(f"{self.name} v{version}: {len(data) - reader.position} bytes left over")
        return body


@functools.cache
def messages() -> dict[str, Message]:
    """Return every message of the specifications by its name, such as FetchRequest."""
    loaded = json.loads(SPECIFICATIONS.read_text())
    specs = loaded if isinstance(loaded, list) else list(loaded.values())
    return {spec["name"]: Message(spec) for spec in specs if spec["validVersions"] != "none"}


@functools.cache
def in_range(versions: str | None, version: int) -> bool:
    if not versions or versions == "none":
        return False
    if versions.endswith("+"):
        return version >= int(versions[:-1])
    low, _, high = versions.partition("-")
    return int(low) <= version <= int(high or low)


class Writer:
    def __init__(self, message: Message, version: int) -> None:
        self.message, self.version, self.flexible = message, version, message.is_flexible(version)

    def fields(self, fields: list[dict[str, Any]], body: dict[str, Any]) -> bytes:
        out, tagged = bytearray(), dict[int, bytes]()
        unknown = set(body) - {field["name"] for field in fields}
        if unknown:
            raise ValueError(f"{self.message.name} has no field {sorted(unknown)}")
        for field in fields:
            if not in_range(field["versions"], self.version):
                continue
            value = body.get(field["name"], default_of(field))
            if not in_range(field.get("taggedVersions"), self.version):
                out += self.value(field, field["type"], value)
            elif value != default_of(field):
                tagged[field["tag"]] = self.value(field, field["type"], value)
        if self.flexible:
            out += varint(len(tagged))
            for tag, data in sorted(tagged.items()):
                out += varint(tag) + varint(len(data)) + data
        return bytes(out)

    def value(self, field: dict[str, Any], kind: str, value: Any) -> bytes:
        if kind in INTEGERS:
            return struct.pack(INTEGERS[kind], value)
        if kind == "uuid":
            return uuid.UUID(value).bytes
        if kind.startswith("[]"):
            items = b"".join(self.value(field, kind[2:], item) for item in value or [])
            return self.length(None if value is None else len(value), ">i") + items
        if kind == "string":
            data = None if value is None else value.encode()
            return self.length(None if data is None else len(data), ">h") + (data or b"")
        if kind in ("bytes", "records"):
            return self.length(None if value is None else len(value), ">i") + (value or b"")
        nested = field.get("fields") or self.message.structs[kind]
        if "[]" not in field["type"] and in_range(field.get("nullableVersions"), self.version):
            return b"\xff" if value is None else b"\x01" + self.fields(nested, value)
        return self.fields(nested, value)

    def length(self, length: int | None, fixed: str) -> bytes:
        if self.flexible:
            return varint(0 if length is None else length + 1)
        return struct.pack(fixed, -1 if length is None else length)


class Reader:
    def __init__(self, message: Message, version: int, data: bytes) -> None:
        self.message, self.version, self.flexible = message, version, message.is_flexible(version)
        self.data, self.position = data, 0

    def fields(self, fields: list[dict[str, Any]]) -> dict[str, Any]:
        present = [field for field in fields if in_range(field["versions"], self.version)]
        tagged = {field["tag"]: field for field in present if in_range(field.get("taggedVersions"), self.version)}
        body: dict[str, Any] = {}
        for field in present:
            is_tagged = field.get("tag") in tagged and "tag" in field
            body[field["name"]] = default_of(field) if is_tagged else self.value(field, field["type"])
        for _ in range(self.varint() if self.flexible else 0):
            tag, size = self.varint(), self.varint()
            end = self.position + size
            if tag in tagged:
                body[tagged[tag]["name"]] = self.value(tagged[tag], tagged[tag]["type"])
            else:
                body.setdefault("_unknown_tags", {})[tag] = self.take(size).hex()
            if self.position != end:
                raise ValueError(f"{self.message.name} v{self.version}: tag {tag} is not {size} bytes long")
        return body

    def value(self, field: dict[str, Any], kind: str) -> Any:
        if kind in INTEGERS:
            return struct.unpack(INTEGERS[kind], self.take(struct.calcsize(INTEGERS[kind])))[0]
        if kind == "uuid":
            return str(uuid.UUID(bytes=self.take(16)))
        if kind.startswith("[]"):
            length = self.length(">i")
            return None if length is None else [self.value(field, kind[2:]) for _ in range(length)]
        if kind == "string":
            length = self.length(">h")
            return None if length is None else self.take(length).decode()
        if kind in ("bytes", "records"):
            length = self.length(">i")
            return None if length is None else self.take(length)
        nested = field.get("fields") or self.message.structs[kind]
        nullable = "[]" not in field["type"] and in_range(field.get("nullableVersions"), self.version)
        if nullable and struct.unpack(">b", self.take(1))[0] < 0:
            return None
        return self.fields(nested)

    def length(self, fixed: str) -> int | None:
        if self.flexible:
            length = self.varint() - 1
        else:
            length = struct.unpack(fixed, self.take(struct.calcsize(fixed)))[0]
        return None if length < 0 else length

    def take(self, size: int) -> bytes:
        data = self.data[self.position : self.position + size]
        if len(data) != size:
            raise ValueError(f"{self.message.name} v{self.version}: {size} bytes wanted, {len(data)} left")
        self.position += size
        return data

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def default_of(field: dict[str, Any]) -> Any:
    kind, given = field["type"], field.get("default")
    if given == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind == "bool":
        return str(given or "false").lower() == "true"
    if kind == "float64":
        return float(given or 0)
    if kind in INTEGERS:
        return int(str(given or 0), 0)
    if kind == "uuid":
        return "00000000-0000-0000-0000-000000000000" if given is None else given
    if kind == "string":
        return given or ""
    if kind in ("bytes", "records"):
        return (given or "").encode()
    return {nested["name"]: default_of(nested) for nested in field.get("fields", [])}
