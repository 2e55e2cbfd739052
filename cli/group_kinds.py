"""What `odradek groups` does differently for groups of each kind: classic, consumer (KIP-848) and share (KIP-932).

A share group commits no offsets. What stands for them is where it begins in each partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from .lag import lags
from .output import print_rows

if TYPE_CHECKING:
    from ..client import Admin, TopicPartition
    from ..client.core.descriptions import GroupDescription

# Where a click context knows that rows are missing.
_INCOMPLETE = "odradek.incomplete"
_AWAITED = ("group", "state", "epoch", "topic", "partition", "awaited_by", "held_by", "client", "host")


async def kind_of(admin: Admin, group: str) -> str:
    """Return the type of a group; empty for one that does not exist."""
    from ..client.errors import ErrorCode, KafkaError

    try:
        return (await admin.describe_groups(group))[group].type
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return ""
        raise


async def offsets_of(admin: Admin, group: str) -> dict[TopicPartition, int]:
    """Return a group's committed offsets, or where a share group begins."""
    from ..client.admin import group_resets

    return await group_resets.offsets_of(admin, group, await kind_of(admin, group))


async def lags_of(admin: Admin, group: str) -> dict[TopicPartition, tuple[int, int]]:
    """Return (end offset, records left) of each partition of a group."""
    if await kind_of(admin, group) != "share":
        return await lags(admin, await offsets_of(admin, group))
    starts = await admin.list_share_group_offsets(group)
    found = await lags(admin, {place: each.start_offset for place, each in starts.items()})
    # Of the records behind the start, some are done with already.
    lag = {place: each.lag for place, each in starts.items()}
    return {place: (end, left if lag[place] is None else lag[place] or 0) for place, (end, left) in found.items()}


async def lag_of(admin: Admin, group: str) -> int:
    """Return the lag of a group over its partitions. Standard error says which are not in the sum: without a leader."""
    at, found = await offsets_of(admin, group), await lags_of(admin, group)
    existing = await admin.describe_topics()
    missing = sorted(f"{each.topic}-{each.partition}" for each in at if each not in found and each.topic in existing)
    if missing:
        text = f"odradek: the lag of group {group} leaves out {', '.join(missing)}, of which no leader answers now"
        click.echo(text, err=True)
    return sum(lag for _, lag in found.values())


async def described_groups(admin: Admin, groups: Sequence[str]) -> dict[str, GroupDescription]:
    """Return the groups that can be described. Standard error says of the others why, and the status will be 1.

    KafkaError where none can be described.
    """
    from ..client.errors import ItemsFailed, KafkaError

    try:
        return await admin.describe_groups(*groups)
    except ItemsFailed as error:
        if len(error.failures) == len(error.results):
            raise
        for group, failure in error.failures.items():
            click.echo(f"odradek: group {group}: {failure.message}", err=True)
        click.get_current_context().meta[_INCOMPLETE] = True
        return {group: found for group, found in error.results.items() if not isinstance(found, KafkaError)}


def end_incomplete() -> None:
    """End the command with status 1 if it could not describe all groups."""
    context = click.get_current_context()
    if context.meta.get(_INCOMPLETE):
        context.exit(1)


def show_awaited(group: GroupDescription) -> None:
    """Print which partitions members of a consumer group wait for, and who must give them up."""
    rows: list[tuple[Any, ...]] = []
    for each in group.awaited():
        holder = each.holder
        # What nobody holds, the member gets with its next heartbeat.
        held_by = (holder.member_id, holder.client_id, holder.client_host) if holder else (None, None, None)
        rows.append((group.group_id, group.state, group.epoch, *each.partition, each.member.member_id, *held_by))
    print_rows(_AWAITED, rows)
