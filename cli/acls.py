"""`odradek acls`: list, add and remove ACLs, and explain which of them decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ..broker.security import acls
from ..broker.security.principals import parse_principal
from ..broker.topics.unmatchable_acls import host_as_seen, why_unmatchable
from .confirmation import dry_run_option
from .output import print_rows, row_options
from .session import bootstrap_option, with_admin
from .values import OneOf

if TYPE_CHECKING:
    from ..broker.security.authorizer import Decision
    from ..client import Admin
    from ..client.admin.acls import Acl, AclFilter

_COLUMNS = ("principal", "permission", "operation", "resource", "host")
_EXPLAINED = ("principal", "operation", "resource", "host", "decision", "rule")
_TYPES = ("topic", "group", "transactional_id", "delegation_token", "user")
_OPERATIONS = tuple(each.name.lower() for each in acls.Operation if each > acls.Operation.ANY)
# What the cluster's resource is called.
_CLUSTER = "cluster"

_host_option = click.option(
    "--host", metavar="ADDRESS", default="*", help="Only from this IP address, or this range: 10.0.0.0/8."
)
_deny_option = click.option("--deny", is_flag=True, help="Deny it, whatever else allows it.")


def _principal(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return a principal; a bare name is a user's."""
    return value if value is None or ":" in value else f"User:{value}"


def _who_what_where(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the arguments PRINCIPAL OPERATION RESOURCE."""
    function = click.argument("resource")(function)
    function = click.argument("operation", type=OneOf(_OPERATIONS, case_sensitive=False), metavar="OPERATION")(function)
    return click.argument("principal", callback=_principal)(function)


@click.group(short_help="List, add and remove ACLs, and explain which of them decides.")
def command() -> None:
    """List, add and remove ACLs: who may do what with which resource. Explain which of them decides.

    A PRINCIPAL is User:NAME or just NAME. A RESOURCE is topic:NAME, group:NAME, transactional_id:NAME or cluster;
    topic:ord* is every topic whose name begins so, topic:* every topic.

    \b
    Examples:
      odradek acls add alice read 'topic:orders*'
      odradek acls list
      odradek acls explain alice write topic:orders-1
    """


@command.command("list", short_help="Print the ACLs.")
@click.option("--principal", metavar="PRINCIPAL", callback=_principal, help="Only its.")
@click.option("--resource", metavar="RESOURCE", help="Only those that apply to this resource.")
@row_options
@bootstrap_option
def list_(principal: str | None, resource: str | None) -> None:
    """Print the ACLs, or those of a principal or of a resource.

    \b
    Examples:
      odradek acls list
      odradek acls list --principal alice --json
      odradek acls list --resource topic:orders-1
    """
    wanted = _filter(principal, resource)
    print_rows(_COLUMNS, map(_row, with_admin(lambda admin: admin.describe_acls(wanted))))


def _filter(principal: str | None, resource: str | None) -> AclFilter:
    from ..client.admin.acls import AclFilter

    if resource is None:
        return AclFilter(principal)
    kind, name, pattern = _parsed(resource)
    return AclFilter(principal, "any", kind, name, pattern_type="match" if pattern == "literal" else pattern)


@command.command(short_help="Allow or deny something.")
@_who_what_where
@_deny_option
@_host_option
@dry_run_option
@row_options
@bootstrap_option
def add(principal: str, operation: str, resource: str, deny: bool, host: str, dry_run: bool) -> None:
    """Allow a principal to do something with a resource, or deny it. It counts at once.

    What could match nobody is refused: a principal that is no User, a host that is no IP address as the broker prints
    it and no range of addresses, the name of no topic.

    \b
    Examples:
      odradek acls add alice read 'topic:orders*'
      odradek acls add alice read group:report
      odradek acls add 'User:*' delete 'topic:*' --deny
      odradek acls add 'User:*' all 'topic:*' --deny --host 10.1.0.0/16
      odradek acls add alice write topic:orders-1 --dry-run
    """
    acl = _acl(principal, operation, resource, deny, host)
    if why := objection(acl):
        raise click.UsageError(why)
    if not dry_run:
        with_admin(lambda admin: admin.create_acls(acl))
    print_rows(_COLUMNS, [_row(acl)])


@command.command(short_help="Take an ACL away.")
@_who_what_where
@_deny_option
@_host_option
@dry_run_option
@row_options
@bootstrap_option
def remove(principal: str, operation: str, resource: str, deny: bool, host: str, dry_run: bool) -> None:
    """Take an ACL away, named as `add` was given it. Print what was removed: nothing if there was no such ACL.

    \b
    Examples:
      odradek acls remove alice read 'topic:orders*'
      odradek acls remove 'User:*' delete 'topic:*' --deny --dry-run
    """
    from ..client.admin.acls import AclFilter

    acl = _acl(principal, operation, resource, deny, host)
    wanted = AclFilter(**asdict(acl))

    async def work(admin: Admin) -> list[Acl]:
        return await admin.describe_acls(wanted) if dry_run else (await admin.delete_acls(wanted))[wanted]

    print_rows(_COLUMNS, map(_row, with_admin(work)))


@command.command(short_help="Say whether something is allowed, and which rule decides.")
@_who_what_where
@click.option("--host", metavar="ADDRESS", default="*", help="Ask for a client at this IP address.")
@row_options
@bootstrap_option
def explain(principal: str, operation: str, resource: str, host: str) -> None:
    """Say whether a principal may do something with a resource, and name the ACL or the config that decides.

    \b
    Examples:
      odradek acls explain alice read topic:orders-1
      odradek acls explain bob write topic:orders-1 --host 10.0.0.7 --json
    """
    try:
        asked = _acl(principal, operation, resource, False, host_as_seen(host))
    except ValueError:
        raise click.UsageError(f"a client has an IP address, not {host!r}") from None
    found = with_admin(lambda admin: explained(admin, asked))
    decision = "allowed" if found.is_allowed else "denied"
    print_rows(_EXPLAINED, [(principal, asked.operation, _resource(asked), asked.host, decision, found.rule)])


async def explained(admin: Admin, asked: Acl) -> Decision:
    """Decide as the broker does, by its ACLs and its configs."""
    from ..broker.security.authorizer import Authorizer

    kind = acls.ResourceType[asked.resource_type.upper()]
    configs = await _configs(admin)
    authorizer = Authorizer(
        map(_as_the_broker_has_it, await admin.describe_acls()),
        [each.strip() for each in configs.get("super.users", "").split(";")],
        configs.get("allow.everyone.if.no.acl.found") == "true",
    )
    who = parse_principal(asked.principal)
    assert who is not None
    operation = acls.Operation[asked.operation.upper()]
    return authorizer.decide(who, asked.host, operation, kind, asked.resource_name)


async def _configs(admin: Admin) -> dict[str, str]:
    """Return the configs of a broker."""
    from ..client import ConfigResource

    cluster = await admin.describe_cluster()
    broker = ConfigResource.broker(min(each.node_id for each in cluster.nodes))
    return {name: entry.value or "" for name, entry in (await admin.describe_configs([broker]))[broker].items()}


def objection(acl: Acl) -> str:
    """Return why an ACL can match nobody; empty where it can match somebody."""
    return why_unmatchable(_as_the_broker_has_it(acl))


def _as_the_broker_has_it(acl: Acl) -> Any:
    return acls.Acl(
        acls.ResourceType[acl.resource_type.upper()],
        acl.resource_name,
        acls.PatternType[acl.pattern_type.upper()],
        acl.principal,
        acl.host,
        acls.Operation[acl.operation.upper()],
        acls.Permission[acl.permission.upper()],
    )


def _acl(principal: str, operation: str, resource: str, deny: bool, host: str) -> Acl:
    from ..client.admin.acls import Acl

    kind, name, pattern = _parsed(resource)
    return Acl(principal, operation, kind, name, "deny" if deny else "allow", host, pattern)


def _parsed(resource: str) -> tuple[str, str, str]:
    """Return the type, the name and the pattern of a resource. UsageError for a text that is none."""
    kind, colon, name = resource.partition(":")
    kind = kind.lower().replace("-", "_")
    if kind == _CLUSTER:
        return _CLUSTER, acls.CLUSTER_NAME, "literal"
    if not colon or not name or kind not in _TYPES:
        raise click.UsageError(f"a resource is one of {', '.join(_TYPES)} with :NAME, or cluster, not '{resource}'")
    if name.endswith("*") and name != "*":
        return kind, name[:-1], "prefixed"
    return kind, name, "literal"


def _row(acl: Acl) -> tuple[Any, ...]:
    return acl.principal, acl.permission, acl.operation, _resource(acl), acl.host


def _resource(acl: Acl) -> str:
    if acl.resource_type == _CLUSTER:
        return _CLUSTER
    return f"{acl.resource_type}:{acl.resource_name}{'*' if acl.pattern_type == 'prefixed' else ''}"
