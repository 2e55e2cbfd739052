"""`odradek transactions`: list them, describe them, end one that hangs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from . import CliError
from .connect import PATIENCE_MS, bootstrap_option, run
from .output import Rows, json_option
from .places import places_of, places_option

if TYPE_CHECKING:
    from ..client.descriptions import TransactionDescription

_DESCRIBED = ("transactional_id", "state", "producer_id", "producer_epoch", "timeout_ms", "began_ms", "partitions")
_STATES = "Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort"
_PRODUCERS = ("topic", "partition", "producer_id", "producer_epoch", "last_sequence", "last_timestamp_ms", "began_at")


@click.group(short_help="Look at transactions, end those that hang.")
def command() -> None:
    """Look at transactions, end those that hang.

    \b
    Examples:
      odradek transactions list --state Ongoing --longer-than-ms 60000
      odradek transactions describe orders-1
      odradek transactions describe --topic flights:0
      odradek transactions abort --topic flights:0 --start-offset 1234
    """


@command.command("list", short_help="Print the transactional ids.")
@click.option("--state", "states", metavar="STATE", multiple=True, help=f"Only in this state ({_STATES}); repeatable.")
@click.option("--longer-than-ms", type=click.IntRange(min=0), help="Only those open for longer than this.")
@json_option
@bootstrap_option
def list_(states: tuple[str, ...], longer_than_ms: int | None, as_json: bool, bootstrap_server: str) -> None:
    """Print every transactional id with its producer id and state.

    \b
    Examples:
      odradek transactions list
      odradek transactions list --state Ongoing --longer-than-ms 60000
    """

    async def work() -> list[dict[str, Any]]:
        from ..client import Admin

        async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
            found = await admin.list_transactions(
                states=states, longer_than_ms=-1 if longer_than_ms is None else longer_than_ms
            )
        return [
            {"transactional_id": each.transactional_id, "producer_id": each.producer_id, "state": each.state}
            for each in found
        ]

    with Rows(("transactional_id", "producer_id", "state"), as_json) as rows:
        for row in run(work()):
            rows.add(row)


@command.command(short_help="Print how transactional ids stand, or what partitions remember of producers.")
@click.argument("transactional_ids", metavar="[TRANSACTIONAL_ID]...", nargs=-1)
@places_option("Instead: the producers that these partitions remember, and where their transactions begin.")
@json_option
@bootstrap_option
def describe(transactional_ids: tuple[str, ...], topics: tuple[str, ...], as_json: bool, bootstrap_server: str) -> None:
    """Print state, producer, time and partitions of transactional ids, or the producers of partitions.

    \b
    Examples:
      odradek transactions describe orders-1
      odradek transactions describe --topic flights:0
    """
    if bool(transactional_ids) == bool(topics):
        raise click.UsageError("name transactional ids, or partitions by --topic")
    columns = _PRODUCERS if topics else _DESCRIBED
    with Rows(columns, as_json) as rows:
        for row in run(
            _producers(topics, bootstrap_server) if topics else _described(transactional_ids, bootstrap_server)
        ):
            rows.add(row)


async def _described(transactional_ids: tuple[str, ...], bootstrap_server: str) -> list[dict[str, Any]]:
    from ..client import Admin

    async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
        found = await admin.describe_transactions(*transactional_ids)
    return [_row(each) for each in found.values()]


def _row(each: TransactionDescription) -> dict[str, Any]:
    row = {name: getattr(each, name) for name in _DESCRIBED}
    return row | {"partitions": [f"{topic}-{number}" for topic, number in each.partitions]}


async def _producers(topics: tuple[str, ...], bootstrap_server: str) -> list[dict[str, Any]]:
    from ..client import Admin

    async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
        found = await admin.describe_producers(*await places_of(admin, topics))
    return [
        {"topic": topic, "partition": number} | {name: getattr(each, name) for name in _PRODUCERS[2:]}
        for (topic, number), active in sorted(found.items())
        for each in active
    ]


@command.command(short_help="End a transaction that hangs in a partition, as aborted.")
@places_option("The partition, as flights:0.", required=True)
@click.option("--start-offset", type=click.IntRange(min=0), required=True, help="Where the transaction begins.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@bootstrap_option
def abort(topics: tuple[str, ...], start_offset: int, yes: bool, bootstrap_server: str) -> None:
    """End a transaction that hangs: one that a partition waits for and no coordinator will ever end. The partition's
    leader gets an abort marker for it, past the coordinator. `describe --topic` shows where transactions begin.

    \b
    Examples:
      odradek transactions abort --topic flights:0 --start-offset 1234
    """
    import sys

    if not yes and sys.stdin.isatty() and not click.confirm(f"abort it in {', '.join(topics)}?", err=True):
        raise CliError("nothing was aborted")

    async def work() -> None:
        from ..client import Admin

        async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
            places = await places_of(admin, topics)
            if len(places) != 1:
                raise click.UsageError("name one partition, as --topic flights:0")
            (active,) = (await admin.describe_producers(*places)).values()
            hanging = [each for each in active if each.began_at == start_offset]
            if not hanging:
                where = f"`odradek transactions describe --topic {topics[0]}` shows where they begin"
                raise CliError(f"no open transaction of {topics[0]} begins at {start_offset}; {where}")
            await admin.abort_transaction(places[0], hanging[0])

    run(work())
