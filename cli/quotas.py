"""`odradek quotas`: list, set and delete how much of each broker users, client ids and addresses may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from .confirmation import dry_run_option
from .output import print_rows, row_options
from .session import bootstrap_option, with_admin
from .values import config_pairs

if TYPE_CHECKING:
    from ..client import Admin, QuotaEntity

_COLUMNS = ("user", "client_id", "ip", "quota", "value")
_KEYS = (
    *("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"),
    "connection_creation_rate",
)


def _entity_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name an entity."""
    function = click.option("--ip", metavar="ADDRESS", help="Of connections from this IP address.")(function)
    function = click.option("--client-id", metavar="ID", help="Of clients with this client id.")(function)
    return click.option("--user", metavar="NAME", help="Of this user.")(function)


@click.group(short_help="List, set and delete how much of a broker clients may use.")
def command() -> None:
    """List, set and delete how much of each broker users, client ids and addresses may use.

    producer_byte_rate and consumer_byte_rate are bytes a second, request_percentage is the time of one core,
    controller_mutation_rate the partitions that are created and deleted a second, all for --user and --client-id.
    connection_creation_rate is new connections a second, for --ip. The name '<default>' stands for all others.

    \b
    Examples:
      odradek quotas set --user alice producer_byte_rate=10MiB
      odradek quotas set --user '<default>' consumer_byte_rate=50MiB
      odradek quotas list
    """


@command.command("list", short_help="Print the quotas.")
@_entity_options
@row_options
@bootstrap_option
def list_(user: str | None, client_id: str | None, ip: str | None) -> None:
    """Print all quotas, or those of a user, a client id or an address, also where they name more.

    \b
    Examples:
      odradek quotas list
      odradek quotas list --user alice --json
    """
    found = with_admin(lambda admin: admin.describe_client_quotas(user=user, client_id=client_id, ip=ip))
    print_rows(_COLUMNS, sorted(_rows(found), key=str))


@command.command("set", short_help="Set quotas.")
@_entity_options
@click.argument("quotas", metavar="QUOTA=VALUE...", nargs=-1, required=True)
@dry_run_option
@row_options
@bootstrap_option
def set_(user: str | None, client_id: str | None, ip: str | None, quotas: tuple[str, ...], dry_run: bool) -> None:
    """Set quotas of a user, a client id, both together, or an address. They count at once, on each broker by itself.

    \b
    Examples:
      odradek quotas set --user alice producer_byte_rate=10MiB
      odradek quotas set --client-id importer consumer_byte_rate=1MB --dry-run
      odradek quotas set --ip '<default>' connection_creation_rate=20
    """
    given = {name: _number(name, value) for name, value in config_pairs(quotas, "quotas set").items()}
    entity = _entity(user, client_id, ip)
    with_admin(lambda admin: admin.alter_client_quotas({entity: given}, validate_only=dry_run))
    print_rows(_COLUMNS, _rows({entity: given}))


@command.command(short_help="Delete quotas.")
@_entity_options
@click.argument("quotas", metavar="[QUOTA]...", nargs=-1)
@dry_run_option
@row_options
@bootstrap_option
def delete(user: str | None, client_id: str | None, ip: str | None, quotas: tuple[str, ...], dry_run: bool) -> None:
    """Delete quotas of a user, a client id, both together, or an address; all of them if none is named.

    Print what was deleted: nothing if there was no such quota.

    \b
    Examples:
      odradek quotas delete --user alice
      odradek quotas delete --client-id importer consumer_byte_rate --dry-run
    """
    for name in quotas:
        _check_name(name)
    entity = _entity(user, client_id, ip)

    async def work(admin: Admin) -> dict[QuotaEntity, dict[str, float]]:
        found = await admin.describe_client_quotas(user=user, client_id=client_id, ip=ip, strict=True)
        gone = {name: value for name, value in found.get(entity, {}).items() if not quotas or name in quotas}
        if gone and not dry_run:
            await admin.alter_client_quotas({entity: dict.fromkeys(gone)})
        return {entity: gone}

    print_rows(_COLUMNS, _rows(with_admin(work)))


def _entity(user: str | None, client_id: str | None, ip: str | None) -> QuotaEntity:
    from ..client import QuotaEntity

    if user is None and client_id is None and ip is None:
        raise click.UsageError("name who the quota is for: --user, --client-id or --ip")
    return QuotaEntity(user, client_id, ip)


def _number(name: str, value: str) -> float:
    _check_name(name)
    try:
        return float(value)
    except ValueError:
        raise click.UsageError(f"{name} is a number, not {value!r}") from None


def _check_name(name: str) -> None:
    if name not in _KEYS:
        raise click.UsageError(f"a quota is one of {', '.join(_KEYS)}, not {name!r}")


def _rows(quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> list[tuple[Any, ...]]:
    return [
        (entity.user, entity.client_id, entity.ip, name, int(value) if value.is_integer() else value)
        for entity, values in quotas.items()
        for name, value in sorted(values.items())
    ]
