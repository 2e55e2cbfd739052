"""`odradek groups`: list, describe, explain and delete consumer groups; delete and reset their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .confirmation import confirm, for_each
from .names import GROUP
from .offset_reset import reset_offsets
from .output import Rows, json_option
from .partition_option import partition_option, partitions_of
from .rebalance_timeline import show
from .session import bootstrap_option, with_admin, with_advice
from .times import time_options

if TYPE_CHECKING:
    from ..client import Admin

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
    with Rows(("group", "state", "type", "protocol_type"), as_json) as rows:
        for group in with_admin(bootstrap_server, lambda admin: admin.list_groups()):
            values = (group.group_id, group.state, group.type, group.protocol_type)
            rows.add(dict(zip(("group", "state", "type", "protocol_type"), values, strict=True)))


@command.command(short_help="Print the offsets and lag of groups, their members or their state.")
@click.argument("groups", metavar="GROUP...", nargs=-1, required=True, type=GROUP)
@click.option("--offsets", "what", flag_value="offsets", default=True, help="Offsets and lag. [default]")
@click.option("--members", "what", flag_value="members", help="The members with their partitions.")
@click.option("--state", "what", flag_value="state", help="One line a group.")
@json_option
@bootstrap_option
def describe(groups: tuple[str, ...], what: str, as_json: bool, bootstrap_server: str) -> None:
    """Print each partition's committed offset, its lag and the member that reads it.

    \b
    Examples:
      odradek groups describe delays
      odradek groups describe delays --members
    """
    columns, work = {"offsets": (_OFFSET, _offsets), "members": (_MEMBER, _members), "state": (_STATE, _states)}[what]
    with Rows(columns, as_json) as rows:
        for row in with_admin(bootstrap_server, lambda admin: work(admin, groups)):
            rows.add(row)


@command.command(short_help="Print why a group rebalanced, and which members it waited for.")
@click.argument("group", type=GROUP)
@json_option
@time_options
@bootstrap_option
def explain(group: str, as_json: bool, bootstrap_server: str) -> None:
    """Print the last rebalances of GROUP, the oldest first: when and why each began, how long members took to join and
    the leader to assign, and which members the others waited for.

    The broker remembers 16 rebalances of each group, and none from before its start.

    \b
    Examples:
      odradek groups explain delays
      odradek groups explain delays --json
    """
    show(with_admin(bootstrap_server, lambda admin: admin.explain_group(group)), as_json)


@command.command(short_help="Delete groups that have no members.")
@click.argument("groups", metavar="GROUP...", nargs=-1, required=True, type=GROUP)
@click.option("--yes", is_flag=True, help="Do not ask.")
@bootstrap_option
def delete(groups: tuple[str, ...], yes: bool, bootstrap_server: str) -> None:
    """Delete each GROUP with all its committed offsets. A group that has members is an error.

    It asks first; without a terminal it needs --yes. Every group is tried. Status 1 if the only one failed; of several,
    10 and the number of those that failed.

    \b
    Examples:
      odradek groups delete delays
      odradek groups delete delays arrivals --yes
    """
    confirm(f"Delete group {', '.join(groups)} and all its offsets?", yes, "nothing was deleted")

    async def work(admin: Admin) -> None:
        await for_each(groups, lambda group: admin.delete_groups(group), with_advice)

    with_admin(bootstrap_server, work)


@command.command("delete-offsets", short_help="Delete committed offsets of a group.")
@click.argument("group", type=GROUP)
@partition_option("The partitions; repeatable.", required=True)
@bootstrap_option
def delete_offsets(group: str, topics: tuple[str, ...], bootstrap_server: str) -> None:
    """Delete the committed offsets of GROUP in a topic, or in some of its partitions. A topic that a member of the
    group reads is an error.

    \b
    Examples:
      odradek groups delete-offsets delays --topic flights
      odradek groups delete-offsets delays --topic flights:0,3
    """

    async def work(admin: Admin) -> None:
        await admin.delete_group_offsets(group, await partitions_of(admin, topics))

    with_admin(bootstrap_server, work)


async def _states(admin: Admin, groups: tuple[str, ...]) -> list[dict[str, Any]]:
    return [
        {
            "group": name,
            "coordinator": str(group.coordinator),
            "state": group.state,
            "strategy": group.protocol,
            "protocol_type": group.protocol_type,
            "members": len(group.members),
        }
        for name, group in (await admin.describe_groups(*groups)).items()
    ]


async def _members(admin: Admin, groups: tuple[str, ...]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name, group in (await admin.describe_groups(*groups)).items():
        of_group = {"group": name, "state": group.state, "strategy": group.protocol}
        for member in group.members:
            of_member = {
                "member": member.member_id,
                "instance": member.group_instance_id,
                "client": member.client_id,
                "host": member.client_host,
                "partitions": [f"{each.topic}-{each.partition}" for each in member.partitions],
            }
            rows.append(of_group | of_member)
        if not group.members:
            rows.append(of_group | {"partitions": []})
    return rows


async def _offsets(admin: Admin, groups: tuple[str, ...]) -> list[dict[str, Any]]:
    from ..client import LATEST

    rows: list[dict[str, Any]] = []
    for name, group in (await admin.describe_groups(*groups)).items():
        committed = await admin.list_group_offsets(name)
        owners = {partition: member for member in group.members for partition in member.partitions}
        existing = await admin.describe_topics()
        # A deleted topic may have left committed offsets behind; it has no end offset.
        partitions = sorted(committed.keys() | owners.keys())
        ends = await admin.list_offsets({each: LATEST for each in partitions if each.topic in existing})
        for each in partitions:
            offset, end, owner = committed.get(each), ends.get(each), owners.get(each)
            values = (
                name,
                each.topic,
                each.partition,
                offset and offset.offset,
                end and end.offset,
                max(end.offset - offset.offset, 0) if end and offset else None,
                owner and owner.member_id,
                owner and owner.client_id,
                owner and owner.client_host,
            )
            rows.append(dict(zip(_OFFSET, values, strict=True)))
    return rows
