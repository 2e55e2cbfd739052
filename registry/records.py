"""Records of the topic `_schemas`, byte for byte as Confluent's registry writes them.

Keys and values are JSON without spaces. A key has its fields in this order, because the cleaner compares bytes:

    {"keytype":"SCHEMA","subject":"s","version":1,"magic":1}       a version; a null value removes it for good
    {"keytype":"CONFIG","subject":"s","magic":0}                   a compatibility level; subject null: of all
    {"keytype":"MODE","subject":"s","magic":0}                     a mode; subject null: of all
    {"keytype":"DELETE_SUBJECT","subject":"s","magic":0}           versions up to the value's one are soft deleted
    {"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}            soft deleted versions are removed for good
    {"keytype":"NOOP","magic":0}                                   nothing: Confluent finds the topic's end by it. Ours
                                                                   has the highest id as its value, which Confluent's
                                                                   registry does not read: compaction keeps it
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard, cast

from .formats.formats import AVRO, TYPES
from .formats.json_text import compact


@dataclass(frozen=True, slots=True)
class Reference:
    """What a schema names another one by, and where that one is."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Content:
    """What has an id: two versions with the same content have the same one."""

    type: str
    text: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a subject. `extra` is what Confluent's registry keeps besides (metadata, rules); it stays."""

    subject: str
    version: int
    id: int
    content: Content
    deleted: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)


Record = tuple[bytes, bytes | None]


class UnreadableRecord(Exception):
    """A record that no registry writes, or one that this registry cannot act on."""


# Ids and versions are Java's int.
MAX_NUMBER = (1 << 31) - 1


# -- To bytes


def schema_record(version: Version) -> Record:
    content = version.content
    value: dict[str, Any] = {"subject": version.subject, "version": version.version, "id": version.id}
    if content.type != AVRO:
        value["schemaType"] = content.type
    if content.references:
        value["references"] = [reference_json(each) for each in content.references]
    value |= version.extra
    return schema_key(version.subject, version.version), _bytes(
        value | {"schema": content.text, "deleted": version.deleted}
    )


def removal_record(subject: str, version: int) -> Record:
    return schema_key(subject, version), None


def max_id_record(max_id: int) -> Record:
    """Return the record that tells the highest id that was ever given, when the record that had it goes."""
    return _bytes({"keytype": "NOOP", "magic": 0}), _bytes({"maxId": max_id})


def soft_deletion_record(subject: str, version: int) -> Record:
    key = {"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0}
    return _bytes(key), _bytes({"subject": subject, "version": version})


def level_record(subject: str | None, level: str | None) -> Record:
    """Return the record that sets a compatibility level, or removes it if there is none."""
    key = {"keytype": "CONFIG", "subject": subject, "magic": 0}
    return _bytes(key), None if level is None else _bytes({"compatibilityLevel": level})


def mode_record(subject: str | None, mode: str | None) -> Record:
    """Return the record that sets a mode, or removes it if there is none."""
    key = {"keytype": "MODE", "subject": subject, "magic": 0}
    return _bytes(key), None if mode is None else _bytes({"mode": mode})


def schema_key(subject: str, version: int) -> bytes:
    return _bytes({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1})


def reference_json(reference: Reference) -> dict[str, Any]:
    return {"name": reference.name, "subject": reference.subject, "version": reference.version}


def _bytes(value: Any) -> bytes:
    return compact(value).encode()


# -- From bytes


def read_json(content: bytes | None) -> dict[str, Any]:
    """Return a key or value of a record. Raises UnreadableRecord."""
    try:
        value = json.loads(content or b"")
    except (ValueError, RecursionError) as error:
        raise UnreadableRecord(f"no JSON: {error}") from None
    if not isinstance(value, dict):
        raise UnreadableRecord("no JSON object")
    return cast("dict[str, Any]", value)


_OWN = {"subject", "version", "id", "schemaType", "references", "schema", "deleted"}


def read_version(value: Mapping[str, Any]) -> Version:
    """Return the version in the value of a SCHEMA record. Raises UnreadableRecord."""
    try:
        references = tuple(read_reference(each) for each in value.get("references") or ())
        content = Content(value.get("schemaType") or AVRO, value["schema"], references)
        extra = {name: each for name, each in value.items() if name not in _OWN}
        subject, number, schema_id = value["subject"], value["version"], value["id"]
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableRecord(f"a schema record without its fields: {error!r}") from None
    if not is_number(number) or not is_number(schema_id):
        raise UnreadableRecord(f"a schema record with the version {number!r:.50} and the id {schema_id!r:.50}")
    if content.type not in TYPES or not _are_texts(subject, content.text):
        raise UnreadableRecord(f"a schema record of type {content.type} without a text or a subject")
    return Version(subject, number, schema_id, content, value.get("deleted") is True, extra)


def _are_texts(*values: Any) -> bool:
    return all(isinstance(each, str) for each in values)


def read_reference(value: Any) -> Reference:
    """Return a reference. Raises KeyError, TypeError or ValueError for what is none."""
    name, subject, version = value["name"], value["subject"], value["version"]
    if not _are_texts(name, subject) or type(version) is not int:
        raise TypeError(f"a reference has a name, a subject and a version, not {value!r:.200}")
    return Reference(name, subject, version)


def is_number(value: Any) -> TypeGuard[int]:
    """Tell whether a value can be an id or a version."""
    return type(value) is int and 1 <= value <= MAX_NUMBER
