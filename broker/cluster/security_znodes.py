"""Znodes of ACLs, passwords and quotas: the path and the content of each, as Apache Kafka 3.9 writes it.

    /kafka-acl/Topic/orders                    ACLs of a literal pattern
    /kafka-acl-extended/prefixed/Topic/ord     ACLs of a prefixed pattern
    /kafka-acl-changes/acl_changes_N           TOPIC:orders
    /kafka-acl-extended-changes/acl_changes_N  {"version":1,"resourceType":"TOPIC","name":"ord",...}
    /config/users/alice                        {"version":1,"config":{"SCRAM-SHA-256":"salt=...,iterations=4096",
                                               "producer_byte_rate":"1024"}}
    /config/users/alice/clients/reports        quotas of a user's client id; so /config/clients/C and /config/ips/IP

Names are quoted as in a URL. The default of a type has the name `<default>`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeVar, cast
from urllib.parse import quote, unquote

from ..quotas.entities import DEFAULT, QUOTAS, WHOLE_NUMBERS, Entity
from ..security.acls import Acl, Operation, PatternType, Permission, ResourceType
from ..security.sasl.scram import HASHES, Credential
from .znodes import BadZnode, decode_config, get_field, is_znode_name, read_fields, write_fields

ACLS: Final = "/kafka-acl"
PREFIXED_ACLS: Final = "/kafka-acl-extended/prefixed"
ACL_CHANGES: Final = "/kafka-acl-changes"
EXTENDED_ACL_CHANGES: Final = "/kafka-acl-extended-changes"
ACL_CHANGE: Final = "acl_changes_"
# The resource types that Kafka 3.9 makes a znode for.
KINDS: Final = tuple(each for each in ResourceType if each > ResourceType.ANY)
# Each broker with an authorizer makes them at its start if they are missing.
ACL_PARENTS: Final = (ACL_CHANGES, EXTENDED_ACL_CHANGES)

Code = TypeVar("Code", bound=IntEnum)


class Pattern(NamedTuple):
    """What the ACLs of one znode protect."""

    resource_type: int
    name: str
    pattern_type: int


def pattern_of(acl: Acl) -> Pattern:
    """Return the pattern of an ACL."""
    return Pattern(acl.resource_type, acl.resource_name, acl.pattern_type)


def word_of(code: IntEnum) -> str:
    """Return Kafka's word of a code in znodes: TransactionalId."""
    return "".join(part.capitalize() for part in code.name.split("_"))


_CODES: Final[dict[type[IntEnum], dict[str, int]]] = {
    kind: {word_of(each).upper(): int(each) for each in kind} for kind in (Operation, Permission)
}


def kinds_path(pattern_type: int, kind: ResourceType) -> str:
    """Return the path under which the ACLs of a resource type are."""
    return f"{PREFIXED_ACLS if pattern_type == PatternType.PREFIXED else ACLS}/{word_of(kind)}"


def acl_path(pattern: Pattern) -> str:
    """Return the path of the ACLs of a pattern."""
    return f"{kinds_path(pattern.pattern_type, ResourceType(pattern.resource_type))}/{pattern.name}"


def encode_acls(acls: Iterable[Acl]) -> bytes:
    """Return the content of the znode of a pattern."""
    entries = [
        {
            "principal": each.principal,
            "permissionType": word_of(Permission(each.permission)),
            "operation": word_of(Operation(each.operation)),
            "host": each.host,
        }
        for each in acls
    ]
    return write_fields({"version": 1, "acls": entries})


def decode_acls(pattern: Pattern, data: bytes | None) -> list[Acl]:
    """Return the ACLs of a pattern. Raises BadZnode."""
    path = acl_path(pattern)
    found: list[Acl] = []
    entries: list[Any] = get_field(path, read_fields(path, data), "acls", list)
    for entry in entries:
        if not isinstance(entry, dict):
            raise BadZnode(path, f"{entry!r} is no ACL")
        fields = cast("dict[str, Any]", entry)
        names = ("principal", "host", "operation", "permissionType")
        principal, host, operation, permission = (get_field(path, fields, name, str) for name in names)
        codes = _code(path, Operation, operation), _code(path, Permission, permission)
        found.append(Acl(*pattern, principal, host, *codes))
    return found


def _code(path: str, kind: type[IntEnum], word: str) -> int:
    code = _CODES[kind].get(word.upper(), 0)
    if not code:
        raise BadZnode(path, f"{word!r} is no {kind.__name__.lower()}")
    return code


def encode_acl_change(pattern: Pattern) -> tuple[str, bytes]:
    """Return the path, without its number, and the content of the notification of a change."""
    kind = ResourceType(pattern.resource_type).name
    if pattern.pattern_type == PatternType.LITERAL:
        return f"{ACL_CHANGES}/{ACL_CHANGE}", f"{kind}:{pattern.name}".encode()
    pattern_type = PatternType(pattern.pattern_type).name
    fields = {"version": 1, "resourceType": kind, "name": pattern.name, "patternType": pattern_type}
    return f"{EXTENDED_ACL_CHANGES}/{ACL_CHANGE}", write_fields(fields)


def decode_acl_change(path: str, data: bytes | None) -> Pattern:
    """Return the pattern whose ACLs have changed. Raises BadZnode."""
    if path.startswith(EXTENDED_ACL_CHANGES + "/"):
        fields = read_fields(path, data)
        words = [get_field(path, fields, name, str) for name in ("resourceType", "patternType")]
        kind, pattern_type = _named(path, ResourceType, words[0]), _named(path, PatternType, words[1])
        return Pattern(kind, _resource_name(path, get_field(path, fields, "name", str)), pattern_type)
    word, colon, name = (data or b"").decode(errors="replace").partition(":")
    if not colon:
        raise BadZnode(path, f"{data!r} names no resource")
    return Pattern(_named(path, ResourceType, word), _resource_name(path, name), int(PatternType.LITERAL))


def _resource_name(path: str, name: str) -> str:
    """Return the name of a resource. BadZnode where it cannot have ACLs: its znode could not even be asked for."""
    if not is_znode_name(name):
        raise BadZnode(path, f"no znode can have the name {name!r}")
    return name


def _named(path: str, kind: type[Code], word: str) -> int:
    try:
        return int(kind[word.upper()])
    except KeyError:
        raise BadZnode(path, f"{word!r} is no {kind.__name__}") from None


# -- Users, client ids and addresses

USERS, CLIENTS, IPS = "users", "clients", "ips"
_DEFAULT: Final = "<default>"


def entity_path(entity: Entity) -> str:
    """Return where the configs of an entity are under `/config`."""
    if entity.ip is not None:
        return f"{IPS}/{quoted(entity.ip)}"
    if entity.user is None:
        return f"{CLIENTS}/{quoted(entity.client_id or DEFAULT)}"
    user = f"{USERS}/{quoted(entity.user)}"
    return user if entity.client_id is None else f"{user}/{CLIENTS}/{quoted(entity.client_id)}"


def entity_of_path(path: str) -> Entity | None:
    """Return the entity whose configs are at a path under `/config`; None where it is none that has quotas."""
    match path.split("/"):
        case ["users", user]:
            return Entity(user=unquoted(user))
        case ["users", user, "clients", client_id]:
            return Entity(unquoted(user), unquoted(client_id))
        case ["clients", client_id]:
            return Entity(client_id=unquoted(client_id))
        case ["ips", ip]:
            return Entity(ip=unquoted(ip))
        case _:
            return None


def quoted(name: str) -> str:
    """Return a name as a znode has it."""
    return _DEFAULT if name == DEFAULT else quote(name, safe="").replace("~", "%7E")


def unquoted(name: str) -> str:
    """Return the name that a znode has quoted."""
    return DEFAULT if name == _DEFAULT else unquote(name)


def encode_credential(credential: Credential) -> str:
    """Return the text of what is kept of a password."""
    keys = ("salt", credential.salt), ("stored_key", credential.stored_key), ("server_key", credential.server_key)
    texts = [f"{name}={base64.b64encode(value).decode()}" for name, value in keys]
    return ",".join([*texts, f"iterations={credential.iterations}"])


def decode_entity(path: str, data: bytes | None) -> dict[str, str]:
    """Return the configs of an entity. Raises BadZnode, whose text has nothing of them: there are keys of passwords."""
    try:
        return decode_config(path, data)
    except BadZnode:
        raise BadZnode(path, "it lacks the fields that Kafka writes") from None


def credentials_of(path: str, configs: Mapping[str, str]) -> dict[str, Credential]:
    """Return what is kept of the passwords of a user, by mechanism. Raises BadZnode."""
    return {name: _credential(path, text) for name, text in configs.items() if name in HASHES}


def _credential(path: str, text: str) -> Credential:
    fields = {name: value for name, _, value in (part.partition("=") for part in text.split(","))}
    try:
        keys = [base64.b64decode(fields[name], validate=True) for name in ("salt", "stored_key", "server_key")]
        return Credential(keys[0], keys[1], keys[2], int(fields["iterations"]))
    except (KeyError, ValueError):
        # The text stays out of it: a password can be guessed with these keys.
        raise BadZnode(path, "a SCRAM credential lacks what Kafka writes") from None


def encode_quotas(quotas: Mapping[str, float]) -> dict[str, str]:
    """Return quotas as configs."""
    return {key: str(int(value)) if key in WHOLE_NUMBERS else str(value) for key, value in quotas.items()}


def quotas_of(path: str, configs: Mapping[str, str]) -> dict[str, float]:
    """Return the quotas of an entity. Raises BadZnode."""
    found: dict[str, float] = {}
    for key in QUOTAS & configs.keys():
        try:
            found[key] = float(configs[key])
        except ValueError:
            raise BadZnode(path, f"{key} is no number") from None
    return found
