"""Changes of who may do what: ACLs, passwords of users, and quotas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from ...client import DEFAULT_ENTITY, Acl, AclFilter, Admin, KafkaError, QuotaEntity, ScramPassword
from ...client.admin.acls import OPERATIONS, PATTERNS, RESOURCES
from ...client.errors import InvalidOption
from ..journal import Change
from ..visit import Visit
from .kind import Field, Fields, InvalidForm, Kind, pairs, required

PERMISSIONS = ("allow", "deny")
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
_CLUSTER_NAME = "kafka-cluster"


def acl_of(fields: Mapping[str, str]) -> Acl:
    """Return the ACL of a form's fields. Raises InvalidForm."""
    kind, name = fields.get("resource", ""), fields.get("name", "")
    for value, words in (
        (kind, RESOURCES),
        (fields.get("operation", ""), OPERATIONS),
        (fields.get("pattern", ""), PATTERNS),
        (fields.get("permission", ""), PERMISSIONS),
    ):
        if value not in words:
            raise InvalidForm(f"{value!r} is not one of {', '.join(words)}")
    principal = fields.get("principal", "")
    principal = principal if ":" in principal else f"User:{principal}"
    if kind != "cluster" and not name:
        raise InvalidForm(f"the name of the {kind} is empty; * is every {kind}")
    return Acl(
        principal,
        fields["operation"],
        kind,
        _CLUSTER_NAME if kind == "cluster" else name,
        fields["permission"],
        fields.get("host") or "*",
        fields["pattern"],
    )


def _arguments(command: str, acl: Acl) -> list[str]:
    resource = "cluster"
    if acl.resource_type != "cluster":
        resource = f"{acl.resource_type}:{acl.resource_name}{'*' if acl.pattern_type == 'prefixed' else ''}"
    arguments = ["acls", command, acl.principal, acl.operation, resource]
    arguments += ["--deny"] * (acl.permission == "deny")
    return arguments + ([] if acl.host == "*" else ["--host", acl.host])


def _effects(acl: Acl, before: str, after: str) -> list[tuple[str, str, str]]:
    return [
        (f"{acl.permission} {acl.principal} {acl.operation} {acl.resource_type} {acl.resource_name}", before, after)
    ]


async def _add_acl(visit: Visit, admin: Admin, fields: Fields) -> Change:
    acl = acl_of(fields)
    if why := visit.house.why_unmatchable(acl):
        raise InvalidForm(why)
    return Change(
        f"Add an ACL for {acl.principal}", _arguments("add", acl), lambda: admin.create_acls(acl),
        _effects(acl, "–", "there"), then="/acls",
    )  # fmt: skip


async def _remove_acl(visit: Visit, admin: Admin, fields: Fields) -> Change:
    acl = acl_of(fields)
    wanted = AclFilter(**asdict(acl))
    if not await admin.describe_acls(wanted):
        raise InvalidForm("there is no such ACL")
    return Change(
        f"Remove an ACL of {acl.principal}", _arguments("remove", acl), lambda: admin.delete_acls(wanted),
        _effects(acl, "there", "–"), "What nothing else allows is denied from then on.", "/acls",
    )  # fmt: skip


async def _set_password(visit: Visit, admin: Admin, fields: Fields) -> Change:
    user, password, mechanism = required(fields, "user"), required(fields, "password"), fields["mechanism"]
    try:
        wanted = ScramPassword(user, mechanism, password)
    except InvalidOption as error:
        raise InvalidForm(error.message) from None
    return Change(
        f"Set the password of {user}", ["users", "set", "--password-file", "-", "--mechanism", mechanism],
        lambda: admin.alter_user_scram_credentials(wanted), [(f"password of {user}", "", "another one")], then="/users",
        piped=["cat", "PASSWORD-FILE"], name=user,
    )  # fmt: skip


async def _delete_user(visit: Visit, admin: Admin, fields: Fields) -> Change:
    user, mechanism = required(fields, "user"), fields["mechanism"]
    found = (await admin.describe_user_scram_credentials(user))[user]
    if mechanism not in found:
        raise InvalidForm(f"{user} has no password for {mechanism}")
    return Change(
        f"Delete the password of {user}", ["users", "delete", "--mechanism", mechanism],
        lambda: admin.alter_user_scram_credentials(ScramPassword(user, mechanism)),
        [(f"password of {user} for {mechanism}", "there", "–")], "The user cannot log in with it any more.", "/users",
        name=user,
    )  # fmt: skip


async def _set_quota(visit: Visit, admin: Admin, fields: Fields) -> Change:
    entity = QuotaEntity(fields["user"] or None, fields["client-id"] or None, fields["ip"] or None)
    given = pairs(fields["quotas"])
    if not entity.parts or not given:
        raise InvalidForm("a quota is for a user, a client id or an address, and has at least one line")
    try:
        values = {name: float(text) if text else None for name, text in given.items()}
    except ValueError:
        raise InvalidForm("a quota is a number; without one it is removed") from None
    try:
        now = await admin.describe_client_quotas(
            strict=True, user=entity.user, client_id=entity.client_id, ip=entity.ip
        )
    except KafkaError as error:
        raise InvalidForm(error.message) from None
    before = now.get(entity, {})
    await admin.alter_client_quotas({entity: values}, validate_only=True)
    who = [word for kind, name in entity.parts.items() for word in (f"--{kind}", name)]
    removes = all(value is None for value in values.values())
    if not removes and None in values.values():
        raise InvalidForm("set quotas and remove quotas in two changes")
    words = list(values) if removes else [f"{name}={text}" for name, text in given.items()]
    name = ", ".join(f"{kind} {each}" for kind, each in entity.parts.items())
    return Change(
        f"{'Remove' if removes else 'Set'} quotas of {name}", ["quotas", "delete" if removes else "set", *who, *words],
        lambda: admin.alter_client_quotas({entity: values}),
        [(each, str(before.get(each, "–")), str(value or "–")) for each, value in values.items()], then="/quotas",
    )  # fmt: skip


_ACL_FIELDS = (
    Field("principal", "Principal", hint="User:NAME, or a user's name", required=True),
    Field("permission", "Permission", choices=PERMISSIONS, default="allow"),
    Field("operation", "Operation", choices=OPERATIONS, default="read"),
    Field("resource", "Resource", choices=RESOURCES, default="topic"),
    Field("name", "Its name", hint="* is every one; of the cluster leave it empty"),
    Field("pattern", "The name is", choices=PATTERNS, default="literal"),
    Field("host", "From the address", default="*"),
)
_MECHANISM = Field("mechanism", "Mechanism", choices=MECHANISMS, default=MECHANISMS[0])

KINDS = {
    "add-acl": Kind("Add an ACL", _ACL_FIELDS, _add_acl),
    "remove-acl": Kind("Remove an ACL", _ACL_FIELDS, _remove_acl, True),
    "set-password": Kind(
        "Set the password of a user",
        (Field("user", "User", required=True), Field("password", "Password", "password", required=True), _MECHANISM),
        _set_password,
    ),
    "delete-user": Kind(
        "Delete the password of a user", (Field("user", "User", required=True), _MECHANISM), _delete_user, True
    ),
    "set-quota": Kind(
        "Set or remove quotas",
        (
            Field("user", "User", hint=f"{DEFAULT_ENTITY} is all others"),
            Field("client-id", "Client id"),
            Field("ip", "IP address", hint="alone, without the two others"),
            Field(
                "quotas",
                "Quotas",
                "area",
                hint="producer_byte_rate=1048576, one a line; without a number it is removed",
            ),
        ),
        _set_quota,
    ),
}
