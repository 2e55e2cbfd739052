"""`odradek groups`: list, describe, explain and delete consumer groups; delete and reset their offsets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from .confirmation import confirm, deletion_question, dry_run_option, for_each, show_groups, show_places
from .group_kinds import described_groups, end_incomplete, lag_of, lags_of, offsets_of, show_awaited
from .group_offsets import migrate_offsets, reset_offsets
from .lag import lag_times_ms, lags
from .names import GROUP, partition_option, partitions_of
from .output import print_rows, row_options, time_options, watch, watch_option
from .rebalance_timeline import show
from .session import bootstrap_option, with_admin, with_advice

if TYPE_CHECKING:
    from ..client import Admin, TopicPartition
    from ..client.core.descriptions import GroupDescription, GroupRebalance

_GROUP = ("group", "state", "type", "protocol_type", "members", "lag")
_OFFSET = ("group", "topic", "partition", "committed", "end_offset", "lag", "member", "client", "host", "lag_ms")
_MEMBER = (
    *("group", "state", "strategy", "member", "instance", "client", "host"),
    *("protocol", "epoch", "target", "partitions"),
)
_QUEUE = (
    *("group", "waiting", "held", "archiving", "rejected", "delivered_too_often", "lost"),
    "dead_letter_topic",
)
_STATE = (
    *("group", "coordinator", "state", "strategy", "protocol_type", "type", "epoch"),
    *("members", "lag", "lag_ms"),
)


@click.group(short_help="Look at groups, reset their offsets, delete them.")
def command() -> None:
    """Look at groups of every type, reset their offsets, delete them.

    \b
    Examples:
      odradek groups list
      odradek groups describe delays
      odradek groups explain delays
      odradek groups reset-offsets delays --topic flights --to-earliest
    """


command.add_command(reset_offsets)
command.add_command(migrate_offsets)


@command.command("list", short_help="Print the groups.")
@click.option("--lag", is_flag=True, help="Also the number of members and the lag over all partitions.")
@watch_option
@row_options
@bootstrap_option
def list_(lag: bool, every_s: float | None) -> None:
    """Print every group with its state.

    \b
    Examples:
      odradek groups list
      odradek groups list --lag --watch
      odradek groups list --json
    """
    columns = _GROUP if lag else _GROUP[:4]

    async def work(admin: Admin) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        for group in await admin.list_groups():
            row = (group.group_id, group.state, group.type, group.protocol_type)
            rows.append((*row, *await _extent(admin, group.group_id)) if lag else row)
        return rows

    watch(every_s, lambda: print_rows(columns, with_admin(work)))


async def _extent(admin: Admin, group: str) -> tuple[int | None, int | None]:
    """Return the members and the lag of a group. A group that has gone meanwhile has neither.

    Nor has one that cannot be described: standard error says why, and the other groups are printed.
    """
    from ..client.errors import ErrorCode, KafkaError

    try:
        described = (await admin.describe_groups(group))[group]
        return len(described.members), await lag_of(admin, group)
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            click.echo(f"odradek: group {group}: {error.message}", err=True)
        return None, None


@command.command(short_help="Print the offsets and lag of groups, their members or their state.")
@click.argument("groups", metavar="GROUP...", nargs=-1, required=True, type=GROUP)
@click.option("--offsets", "what", flag_value="offsets", default=True, help="Offsets and lag: this is the default.")
@click.option("--members", "what", flag_value="members", help="The members with their partitions.")
@click.option("--state", "what", flag_value="state", help="One line a group, with its lag over all partitions.")
@click.option("--queue", "what", flag_value="queue", help="What waits in share groups, is held, and is dead, by cause.")
@click.option("--lag-time", is_flag=True, help="Read the first record of each lag, and print its age.")
@watch_option
@row_options
@bootstrap_option
def describe(groups: tuple[str, ...], what: str, lag_time: bool, every_s: float | None) -> None:
    """Print each partition's committed offset, its lag and the member that reads it.

    The lag counts offsets. With --lag-time it is also the age of the oldest record that the group has not read, in
    milliseconds: 0 where it has read all.

    With --queue it prints one line a share group: records that wait, that members hold, that are being written as dead
    letters, and that are dead since the brokers started, by cause; lost ones have no dead letter, and the broker's log
    says why. Brokers that are not Odradek tell what waits alone.

    \b
    Examples:
      odradek groups describe delays
      odradek groups describe delays --state --lag-time
      odradek groups describe delays --members
      odradek groups describe delays --watch 5
      odradek groups describe workers --queue
    """
    if lag_time and what in ("members", "queue"):
        raise click.UsageError("--lag-time is for offsets and --state")
    columns, work = {
        "offsets": (_OFFSET, _offsets),
        "members": (_MEMBER, _members),
        "state": (_STATE, _states),
        "queue": (_QUEUE, _queues),
    }[what]
    if not lag_time:
        columns = tuple(column for column in columns if column != "lag_ms")

    async def found(admin: Admin) -> list[dict[str, Any]]:
        rows = await work(admin, groups)
        if lag_time:
            await _add_times(admin, rows)
        return rows

    watch(every_s, lambda: print_rows(columns, with_admin(found)))
    end_incomplete()


async def _add_times(admin: Admin, rows: list[dict[str, Any]]) -> None:
    """Give rows of partitions or of whole groups their `lag_ms`."""
    from ..client import TopicPartition

    for group in {row["group"] for row in rows}:
        committed = await offsets_of(admin, group)
        found = await lags(admin, committed)
        behind = {partition: committed[partition] for partition, (_, lag) in found.items() if lag}
        times = await lag_times_ms(behind)
        for row in rows:
            if row["group"] != group:
                continue
            if "partition" not in row:
                row["lag_ms"] = max(times.values(), default=None if behind else 0)
            elif (row["topic"], row["partition"]) in found:
                partition = TopicPartition(row["topic"], row["partition"])
                row["lag_ms"] = times.get(partition) if partition in behind else 0


@command.command(short_help="Print why a group rebalanced, and which members it waited for.")
@click.argument("group", type=GROUP)
@row_options
@time_options
@bootstrap_option
def explain(group: str) -> None:
    """Print the last rebalances of GROUP, the oldest first: when and why each began, how long members took to join and
    the leader to assign, and which members the others waited for.

    The broker remembers 16 rebalances of each group, and none from before its start. A consumer group does not stop to
    rebalance: of one, the command prints which partitions a member waits for, and which one must give them up.

    \b
    Examples:
      odradek groups explain delays
      odradek groups explain delays --json
    """

    async def work(admin: Admin) -> GroupDescription | list[GroupRebalance]:
        described = (await admin.describe_groups(group))[group]
        return described if described.type != "classic" else await admin.explain_group(group)

    found = with_admin(work)
    if isinstance(found, list):
        show(found)
    else:
        show_awaited(found)


@command.command(short_help="Delete groups that have no members.")
@click.argument("groups", metavar="GROUP...", nargs=-1, required=True, type=GROUP)
@click.option("--yes", is_flag=True, help="Do not ask.")
@dry_run_option
@bootstrap_option
def delete(groups: tuple[str, ...], yes: bool, dry_run: bool) -> None:
    """Delete each GROUP with all its committed offsets. A group that has members cannot be deleted.

    It asks first; without a terminal it needs --yes. Every group is tried. Status 1 if the only one failed; of several,
    10 and the number of those that failed.

    \b
    Examples:
      odradek groups delete delays --dry-run
      odradek groups delete delays arrivals --yes
    """
    if dry_run:
        show_groups(groups)
        return
    confirm(deletion_question("group", groups, "offsets"), yes, "nothing was deleted")

    async def work(admin: Admin) -> None:
        await for_each(groups, lambda group: admin.delete_groups(group), with_advice)

    with_admin(work)


@command.command("delete-offsets", short_help="Delete committed offsets of a group.")
@click.argument("group", type=GROUP)
@partition_option("The partitions; repeatable.", required=True)
@dry_run_option
@bootstrap_option
def delete_offsets(group: str, topics: tuple[str, ...], dry_run: bool) -> None:
    """Delete the committed offsets of GROUP in a topic, or in some of its partitions. A topic that a member of the
    group reads is rejected.

    \b
    Examples:
      odradek groups delete-offsets delays --topic flights
      odradek groups delete-offsets delays --topic flights:0,3 --dry-run
    """

    async def work(admin: Admin) -> dict[TopicPartition, int]:
        partitions = await partitions_of(admin, topics)
        if dry_run:
            committed = await offsets_of(admin, group)
            return {each: committed[each] for each in partitions if each in committed}
        await admin.delete_group_offsets(group, partitions)
        return {}

    deleted = with_admin(work)
    if dry_run:
        show_places(deleted, "offset")


async def _states(admin: Admin, groups: tuple[str, ...]) -> list[dict[str, Any]]:
    return [
        {
            "group": name,
            "coordinator": str(group.coordinator),
            "state": group.state,
            "strategy": group.protocol,
            "protocol_type": group.protocol_type,
            "members": len(group.members),
            "type": group.type,
            "epoch": None if group.epoch < 0 else group.epoch,
            "lag": await lag_of(admin, name),
        }
        for name, group in (await described_groups(admin, groups)).items()
    ]


async def _queues(admin: Admin, groups: tuple[str, ...]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name, group in (await described_groups(admin, groups)).items():
        if group.type != "share":
            raise click.UsageError(f"--queue is for share groups, and {name} is a {group.type} group")
        rows.append({"group": name} | asdict(await admin.describe_share_queue(name)))
    return rows


async def _members(admin: Admin, groups: tuple[str, ...]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name, group in (await described_groups(admin, groups)).items():
        of_group = {"group": name, "state": group.state, "strategy": group.protocol}
        for member in group.members:
            of_member = {
                "member": member.member_id,
                "instance": member.group_instance_id,
                "client": member.client_id,
                "host": member.client_host,
                "partitions": _names(member.partitions),
                "protocol": member.protocol,
                "epoch": None if member.epoch < 0 else member.epoch,
                "target": None if group.type == "classic" else _names(member.target),
            }
            rows.append(of_group | of_member)
        if not group.members:
            rows.append(of_group | {"partitions": []})
    return rows


def _names(partitions: Iterable[TopicPartition]) -> list[str]:
    return [f"{each.topic}-{each.partition}" for each in partitions]


async def _offsets(admin: Admin, groups: tuple[str, ...]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name, group in (await described_groups(admin, groups)).items():
        committed = await offsets_of(admin, name)
        owners = {partition: member for member in group.members for partition in member.partitions}
        found = await lags(admin, dict.fromkeys(owners, 0) | committed) | await lags_of(admin, name)
        for each in sorted(committed.keys() | owners.keys()):
            owner = owners.get(each)
            end, lag = found.get(each, (None, None))
            offset = committed.get(each)
            who = (owner.member_id, owner.client_id, owner.client_host) if owner else (None, None, None)
            values = (name, *each, offset, end, None if offset is None else lag, *who)
            rows.append(dict(zip(_OFFSET, values, strict=False)))
    return rows
