"""`odradek groups`: list, describe, explain, delete, delete-offsets; reset-offsets is in reset_offsets.py."""

from typing import Any

import click

from .connect import PATIENCE_MS, bootstrap_option, run
from .explaining import show
from .output import Rows, json_option
from .places import places_of, places_option
from .reset_offsets import reset_offsets

_OFFSET = ("group", "topic", "partition", "committed", "end_offset", "lag", "member", "client", "host")
_MEMBER = ("group", "state", "strategy", "member", "instance", "client", "host", "partitions")


_STATE = ("group", "coordinator", "state", "strategy", "protocol_type", "members")


@click.group(short_help="Look at consumer groups, reset their offsets, delete them.")
def command() -> None:
    """Look at consumer groups, reset their offsets, delete them.

    \b
    Examples:
      odradek groups list
      odradek groups describe delays
      odradek groups explain delays
      odradek groups reset-offsets delays --topic flights --to-earliest
    """


command.add_command(reset_offsets)


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
        from ..client import Admin

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


@command.command(short_help="Print a group's offsets and lag, its members or its state.")
@click.argument("groups", metavar="GROUP...", nargs=-1, required=True)
@click.option("--offsets", "what", flag_value="offsets", default=True, help="Offsets and lag. [default]")
@click.option("--members", "what", flag_value="members", help="The members with their partitions.")
@click.option("--state", "what", flag_value="state", help="One line a group.")
@json_option
@bootstrap_option
def describe(groups: tuple[str, ...], what: str, as_json: bool, bootstrap_server: str) -> None:
    """Print for every partition of GROUP the committed offset, how far it lies behind, and whose it is.

    \b
    Examples:
      odradek groups describe delays
      odradek groups describe delays --members
    """
    columns, work = {"offsets": (_OFFSET, _offsets), "members": (_MEMBER, _members), "state": (_STATE, _state)}[what]
    with Rows(columns, as_json) as rows:
        for row in run(work(groups, bootstrap_server)):
            rows.add(row)


@command.command(short_help="Print why a group rebalanced, and whom it waited for.")
@click.argument("group")
@json_option
@bootstrap_option
def explain(group: str, as_json: bool, bootstrap_server: str) -> None:
    """Print the last rebalances of GROUP, the oldest first: when and why each began, how long members took to join and
    the leader to assign, and whom the others waited for.

    The broker remembers 16 rebalances a group, and none of before its start.

    \b
    Examples:
      odradek groups explain delays
      odradek groups explain delays --json
    """

    async def work() -> list[Any]:
        from ..client import Admin

        async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
            return await admin.explain_group(group)

    show(run(work()), as_json)


@command.command(short_help="Delete groups that have no members.")
@click.argument("groups", metavar="GROUP...", nargs=-1, required=True)
@bootstrap_option
def delete(groups: tuple[str, ...], bootstrap_server: str) -> None:
    """Delete each GROUP with all offsets that it has committed. A group that has members is refused.

    \b
    Example:
      odradek groups delete delays
    """

    async def work() -> None:
        from ..client import Admin

        async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
            await admin.delete_groups(*groups)

    run(work())


@command.command("delete-offsets", short_help="Forget offsets that a group has committed.")
@click.argument("group")
@places_option("Whose offsets; repeatable.", required=True)
@bootstrap_option
def delete_offsets(group: str, topics: tuple[str, ...], bootstrap_server: str) -> None:
    """Forget the offsets of GROUP in a topic, or in some of its partitions. Topics that a member of the group reads are
    refused.

    \b
    Examples:
      odradek groups delete-offsets delays --topic flights
      odradek groups delete-offsets delays --topic flights:0,3
    """

    async def work() -> None:
        from ..client import Admin

        async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
            await admin.delete_group_offsets(group, await places_of(admin, topics))

    run(work())


async def _state(groups: tuple[str, ...], bootstrap_server: str) -> list[dict[str, Any]]:
    from ..client import Admin

    async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
        described = await admin.describe_groups(*groups)
    return [
        {
            "group": name,
            "coordinator": str(group.coordinator),
            "state": group.state,
            "strategy": group.protocol,
            "protocol_type": group.protocol_type,
            "members": len(group.members),
        }
        for name, group in described.items()
    ]


async def _members(groups: tuple[str, ...], bootstrap_server: str) -> list[dict[str, Any]]:
    from ..client import Admin

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
    from ..client import LATEST, Admin

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
