"""Our declarations are Apache's: field by field, version by version."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from typing import Any

from odradek.protocol import apis
from odradek.protocol.messages import describe_groups, group_records, read_share_group_state, share_state_records
from odradek.protocol.schema import OWN_TAGS, Field, Message, Struct, span
from odradek.tests.support.documents.apis import DECLARED

# What Kafka 4.4.0's files no longer list and we still speak.
OLDER_VERSIONS = {
    "Produce": range(3),
    "Fetch": range(4),
    "ListOffsets": range(1),
    "OffsetCommit": range(2),
    "OffsetFetch": range(1),
    "AlterPartition": range(2),
}

# Structs of a request and its response that Apache gives one name; a module of ours has each name once.
RENAMED = {"AlteredTopic": "TopicData", "AlteredPartition": "PartitionData", "EntryResult": "EntryData"}
RENAMED |= {"DescribedTopic": "TopicData", "DescribedPartition": "PartitionData"}

PYTHON_TYPES = {"bool": "bool", "float64": "float", "string": "str", "bytes": "bytes", "records": "Records"}
PYTHON_TYPES |= {"uuid": "bytes"}


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def python_type(kind: str, nullable: bool) -> str:
    element = kind.removeprefix("[]")
    if element[0].islower():
        element = PYTHON_TYPES.get(element, "int")
    annotation = f"list[{element}]" if kind.startswith("[]") else element
    return annotation + " | None" if nullable else annotation


def specified_default(field: dict[str, Any]) -> Any:
    """The default that a specification means, where a struct's own default stands for itself."""
    kind, default = field["type"], field.get("default")
    if default == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind == "bool":
        return default in (True, "true")
    if kind == "string":
        return default or ""
    if kind == "bytes":
        return b""
    if kind == "uuid":
        return bytes(16)
    if kind == "records":
        return None
    return int(str(default or 0), 0)


def specified_layout(specification: dict[str, Any], fields: list[dict[str, Any]], version: int) -> list[Any]:
    """What a version's fields are by the specification, as plain values in wire order."""
    common = {struct["name"]: struct["fields"] for struct in specification.get("commonStructs", [])}
    layout: list[Any] = []
    for field in fields:
        # A field that is only ever tagged may say nothing else.
        if version not in span(field.get("versions") or field["taggedVersions"]):
            continue
        kind = field["type"]
        element = kind.removeprefix("[]")
        is_struct = element[0].isupper()
        nested = field.get("fields") or common.get(element)
        tag = field.get("tag") if version in span(field.get("taggedVersions", "none")) else None
        layout.append(
            {
                "name": snake_case(field["name"]),
                "type": kind,
                "python": python_type(kind, "nullableVersions" in field),
                "nullable": version in span(field.get("nullableVersions", "none")),
                "default": None if is_struct and element == kind else specified_default(field),
                "ignorable": field.get("ignorable", False) in (True, "true"),
                "tag": tag,
                "fields": specified_layout(specification, nested, version) if is_struct else None,
            }
        )
    return layout


def is_our_own(field: Field) -> bool:
    """An addition that nobody else knows."""
    return field.tag is not None and field.tag >= OWN_TAGS


def declared_kind(field: Field) -> str:
    if field.kind == "array":
        return "[]" + (field.of or struct_name(field))
    return struct_name(field) if field.kind == "struct" else field.kind


def struct_name(field: Field) -> str:
    name = field.struct().__name__
    return RENAMED.get(name, name)


def apache_annotation(field: Field) -> str:
    return reduce(lambda text, names: text.replace(*names), RENAMED.items(), field.annotation)


def declared_layout(cls: type[Struct], version: int) -> list[Any]:
    """The same, of a class."""
    layout: list[Any] = []
    for field in cls.FIELDS:
        if version not in span(field.versions) or is_our_own(field):
            continue
        has_struct = field.kind == "struct" or (field.kind == "array" and field.of is None)
        layout.append(
            {
                "name": field.name,
                "type": declared_kind(field),
                "python": apache_annotation(field),
                "nullable": version in span(field.nullable),
                "default": None if field.kind == "struct" else field.default(),
                "ignorable": field.ignorable,
                "tag": field.tag,
                "fields": declared_layout(field.struct(), version) if has_struct else None,
            }
        )
    return layout


def without_ignorable(layout: list[Any]) -> list[Any]:
    return [
        {**field, "ignorable": None, "fields": field["fields"] and without_ignorable(field["fields"])}
        for field in layout
    ]


def test_each_version_has_exactly_the_specified_fields(
    cls: type[Message],
    specification: Callable[[str, int], dict[str, Any]],
    current_specifications: dict[str, Any],
) -> None:
    for version in cls.VERSIONS:
        specified = specification(cls.__name__, version)
        expected = specified_layout(specified, specified["fields"], version)
        declared = declared_layout(cls, version)
        if version not in span(current_specifications[cls.__name__]["validVersions"]):
            # What may be dropped is Apache's newest word: fields became ignorable when later versions removed them.
            expected, declared = without_ignorable(expected), without_ignorable(declared)
        assert (version, declared) == (version, expected)


def test_our_own_additions_are_few_and_can_be_left_out() -> None:
    structs = [
        *(apis.message(key, kind) for key in DECLARED for kind in ("request", "response")),
        describe_groups.DescribedGroup,
        read_share_group_state.PartitionResult,
        share_state_records.ShareSnapshotValue,
    ]
    own = {(cls.__name__, field.name): field for cls in structs for field in cls.FIELDS if is_our_own(field)}
    assert set(own) == {
        ("DescribeGroupsRequest", "include_history"),
        ("DescribedGroup", "history"),
        ("PartitionResult", "start_is_chosen"),
        ("ShareSnapshotValue", "start_is_chosen"),
    }
    assert all(field.ignorable and not field.default() for field in own.values())


def test_each_version_is_flexible_where_specified(
    classes: list[type[Message]], specification: Callable[[str, int], dict[str, Any]]
) -> None:
    for cls in classes:
        for version in cls.VERSIONS:
            flexible = span(specification(cls.__name__, version)["flexibleVersions"])
            assert (cls, version, version in cls.FLEXIBLE) == (cls, version, version in flexible)


def test_the_versions_and_the_key_are_the_specified_ones(
    classes: list[type[Message]], current_specifications: dict[str, Any]
) -> None:
    for cls in classes:
        specified = current_specifications[cls.__name__]
        api = re.sub("(Request|Response)$", "", cls.__name__)
        older = OLDER_VERSIONS.get(api, range(0)) if specified["type"] in ("request", "response") else range(0)
        assert (cls, {*cls.VERSIONS}) == (cls, {*span(specified["validVersions"]), *older})
        assert cls.VERSIONS.step == 1
        assert (cls, specified.get("apiKey")) == (cls, cls.KEY)


def test_no_field_is_declared_that_no_version_has(classes: list[type[Message]]) -> None:
    # A struct may have several places, which lie in different versions.
    declared: set[tuple[type[Struct], str]] = set()
    in_use: set[tuple[type[Struct], str]] = set()

    def check(struct: type[Struct], versions: range) -> None:
        for field in struct.FIELDS:
            declared.add((struct, field.name))
            present = [version for version in versions if version in span(field.versions)]
            if present:
                in_use.add((struct, field.name))
            if present and (field.kind == "struct" or (field.kind == "array" and field.of is None)):
                check(field.struct(), range(present[0], present[-1] + 1))

    for cls in classes:
        check(cls, cls.VERSIONS)
    assert declared == in_use


def test_the_messages_of_an_api_have_its_key() -> None:
    for key in DECLARED:
        assert apis.message(key, "request").KEY == apis.message(key, "response").KEY == key


def test_every_api_key_has_kafkas_number_and_name(current_specifications: dict[str, Any]) -> None:
    specified = {
        one["apiKey"]: snake_case(one["name"].removesuffix("Request")).upper()
        for one in current_specifications.values()
        if one["type"] == "request"
    }
    declared = {int(key): key.name for key in apis.ApiKey}
    assert specified == declared


def test_the_group_records_are_all_of_the_classic_protocol(current_specifications: dict[str, Any]) -> None:
    classic = {
        name
        for name, one in current_specifications.items()
        if one["type"].startswith("coordinator")
        and one["apiKey"] in (0, 1, 2)
        and not name.startswith(("Transaction", "Share"))
    }
    assert classic == {name for name in group_records.__all__ if name in current_specifications}
