"""`odradek groups`: list, describe."""

from typing import Any

import click

from .connect import PATIENCE_MS, bootstrap_option, run
from .output import Rows, json_option

_OFFSET = ("group", "topic", "partition", "committed", "end_offset", "lag", "member", "client", "host")
_MEMBER = ("group", "state", "strategy", "member", "instance", "client", "host", "partitions")


@click.group(short_help="List and describe consumer groups.")
def command() -> None:
    """List and describe consumer groups."""


@command.command("list", short_help="Print the groups.")
@json_option
@bootstrap_option
def list_(as_json: bool, bootstrap_server: str) -> None:
    """Print every group with its state.

    \b
    Examples:
      odradek groups list
      odradek groups list --json
    """

    async def work() -> list[Any]:
        from ...client import Admin

        async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
            return await admin.list_groups()

    with Rows(("group", "state", "type", "protocol_type"), as_json) as rows:
        for group in run(work()):
            rows.add(
                {
                    "group": group.group_id,
                    "state": group.state,
                    "type": group.type,
                    "protocol_type": group.protocol_type,
                }
            )


@command.command(short_help="Print a group's offsets and lag, or its members.")
@click.argument("groups", metavar="GROUP...", nargs=-1, required=True)
@click.option("--members", is_flag=True, help="The members instead of the partitions.")
@json_option
@bootstrap_option
def describe(groups: tuple[str, ...], members: bool, as_json: bool, bootstrap_server: str) -> None:
    """Print for every partition of GROUP the committed offset, how far it lies behind, and whose it is.

    \b
    Examples:
      odradek groups describe delays
      odradek groups describe delays --members
    """
    work = _members if members else _offsets
    with Rows(_MEMBER if members else _OFFSET, as_json) as rows:
        for row in run(work(groups, bootstrap_server)):
            rows.add(row)


async def _members(groups: tuple[str, ...], bootstrap_server: str) -> list[dict[str, Any]]:
    from ...client import Admin

    async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
        described = await admin.describe_groups(*groups)
    rows: list[dict[str, Any]] = []
    for name, group in described.items():
        head = {"group": name, "state": group.state, "strategy": group.protocol}
        for member in group.members:
            who = {
                "member": member.member_id,
                "instance": member.group_instance_id,
                "client": member.client_id,
                "host": member.client_host,
            }
            rows.append(head | who | {"partitions": [f"{each.topic}-{each.partition}" for each in member.partitions]})
        if not group.members:
            rows.append(head | {"partitions": []})
    return rows


async def _offsets(groups: tuple[str, ...], bootstrap_server: str) -> list[dict[str, Any]]:
    from ...client import Admin
    from ...client.positions import LATEST

    rows: list[dict[str, Any]] = []
    async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
        described = await admin.describe_groups(*groups)
        for name, group in described.items():
            committed = await admin.list_group_offsets(name)
            owners = {place: member for member in group.members for place in member.partitions}
            there = await admin.describe_topics()
            # A topic that was deleted may have left its offsets behind: it has no end to lie behind.
            places = sorted(place for place in committed.keys() | owners.keys())
            ends = await admin.list_offsets({place: LATEST for place in places if place.topic in there})
            for place in places:
                offset, end, owner = committed.get(place), ends.get(place), owners.get(place)
                rows.append(
                    {
                        "group": name,
                        "topic": place.topic,
                        "partition": place.partition,
                        "committed": offset and offset.offset,
                        "end_offset": end and end.offset,
                        "lag": max(end.offset - offset.offset, 0) if end and offset else None,
                        "member": owner and owner.member_id,
                        "client": owner and owner.client_id,
                        "host": owner and owner.client_host,
                    }
                )
    return rows
