"""DescribeAcls, CreateAcls, DeleteAcls: a broker without an authorizer, and requests that no broker accepts."""

from __future__ import annotations

from typing import Any

from ..connection import Wire

UNKNOWN, ANY = 0, 1
TOPIC, CLUSTER, DELEGATION_TOKEN, USER = 2, 4, 6, 7
MATCH, LITERAL, PREFIXED = 2, 3, 4
READ, TWO_PHASE_COMMIT = 3, 15
DENY, ALLOW = 2, 3
# Numbers that Kafka 4.4.0 has no name for.
NO_RESOURCE, NO_PATTERN, NO_OPERATION, NO_PERMISSION = 8, 5, 16, 4

Changes = tuple[tuple[str, dict[str, Any]], ...]

# What a filter may say, and an ACL itself may not, and the other way round.
FILTERS: Changes = (
    ("any", {"resource": ANY, "name": None, "pattern": ANY, "principal": None, "host": None, "operation": ANY,
             "permission": ANY}),
    ("match", {"pattern": MATCH}),
    ("literal", {}),
    ("prefixed", {"pattern": PREFIXED}),
    ("bad principal", {"principal": "alice"}),
)  # fmt: skip
CREATIONS: Changes = (
    ("literal", {}),
    ("prefixed", {"pattern": PREFIXED}),
    ("deny", {"permission": DENY}),
    ("token", {"resource": DELEGATION_TOKEN}),
    ("user", {"resource": USER}),
    ("two-phase commit", {"operation": TWO_PHASE_COMMIT}),
    ("cluster of another name", {"resource": CLUSTER}),
    ("empty name", {"name": ""}),
    ("bad principal", {"principal": "alice"}),
    ("any resource", {"resource": ANY}),
    ("any pattern", {"pattern": ANY}),
    ("match", {"pattern": MATCH}),
    ("any operation", {"operation": ANY}),
    ("any permission", {"permission": ANY}),
)
BOTH: Changes = (
    ("unknown resource", {"resource": UNKNOWN}),
    ("unknown pattern", {"pattern": UNKNOWN}),
    ("unknown operation", {"operation": UNKNOWN}),
    ("unknown permission", {"permission": UNKNOWN}),
    ("no such resource", {"resource": NO_RESOURCE}),
    ("no such pattern", {"pattern": NO_PATTERN}),
    ("no such operation", {"operation": NO_OPERATION}),
    ("no such permission", {"permission": NO_PERMISSION}),
    ("negative resource", {"resource": -1}),
)

LITERAL_READ = {
    "resource": TOPIC, "name": "w-acl", "pattern": LITERAL, "principal": "User:alice", "host": "*", "operation": READ,
    "permission": ALLOW,
}  # fmt: skip


def run(wire: Wire) -> None:
    for version in range(1, 4):
        for case, changed in FILTERS + BOTH:
            wire.ask(case, "DescribeAcls", version, acl_filter(changed))
            wire.ask(case, "DeleteAcls", version, {"Filters": [acl_filter(changed)]})
        for case, changed in CREATIONS + BOTH:
            wire.ask(case, "CreateAcls", version, {"Creations": [creation(changed)]})
        wire.ask("none", "CreateAcls", version, {"Creations": []})
        wire.ask("none", "DeleteAcls", version, {"Filters": []})
        wire.ask("several", "CreateAcls", version, {"Creations": [creation({}), creation({"pattern": PREFIXED})]})
        wire.ask("several", "DeleteAcls", version, {"Filters": [acl_filter({}), acl_filter({"pattern": ANY})]})
        one_bad = {"resource": UNKNOWN}
        wire.ask("one good, one bad", "CreateAcls", version, {"Creations": [creation({}), creation(one_bad)]})
        wire.ask("one good, one bad", "DeleteAcls", version, {"Filters": [acl_filter({}), acl_filter(one_bad)]})


def acl_filter(changed: dict[str, Any]) -> dict[str, Any]:
    values = LITERAL_READ | changed
    return {
        "ResourceTypeFilter": values["resource"],
        "ResourceNameFilter": values["name"],
        "PatternTypeFilter": values["pattern"],
        "PrincipalFilter": values["principal"],
        "HostFilter": values["host"],
        "Operation": values["operation"],
        "PermissionType": values["permission"],
    }


def creation(changed: dict[str, Any]) -> dict[str, Any]:
    values = LITERAL_READ | changed
    return {
        "ResourceType": values["resource"],
        "ResourceName": values["name"],
        "ResourcePatternType": values["pattern"],
        "Principal": values["principal"],
        "Host": values["host"],
        "Operation": values["operation"],
        "PermissionType": values["permission"],
    }
