"""`odradek groups reset-offsets`: set the offsets at which a group continues. It is a dry run unless told otherwise.

A target before the start or behind the end of a log is moved to that end: there are no records elsewhere.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from .errors import CliError
from .names import GROUP
from .output import Rows, row_options
from .partition_option import partition_option, partitions_of
from .session import bootstrap_option, with_admin

if TYPE_CHECKING:
    from ..client import Admin, TopicPartition

_COLUMNS = ("group", "topic", "partition", "committed", "new_offset", "start_offset", "end_offset", "lag")
_TARGETS = ("to_earliest", "to_latest", "to_offset", "to_datetime", "shift_by")


@click.command("reset-offsets", short_help="Set the offsets of a group; a dry run unless --execute is given.")
@click.argument("group", type=GROUP)
@partition_option("Only these partitions; repeatable.  [default: every partition that has an offset]")
@click.option("--to-earliest", is_flag=True, help="To the first record.")
@click.option("--to-latest", is_flag=True, help="Behind the last record.")
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="To this offset.")
@click.option(
    "--to-datetime",
    metavar="TIME",
    help="To the first record at or after an ISO 8601 time; local time if it has no zone.",
)
@click.option("--shift-by", type=int, metavar="N", help="N records forward, or back if negative.")
@click.option("--execute", is_flag=True, help="Set the offsets; otherwise only print them.")
@row_options
@bootstrap_option
def reset_offsets(
    group: str, topics: tuple[str, ...], execute: bool, as_json: bool, bootstrap_server: str, **targets: Any
) -> None:
    """Set the committed offsets of GROUP, whose consumers must be stopped.

    \b
    Examples:
      odradek groups reset-offsets delays --to-earliest
      odradek groups reset-offsets delays --topic flights:0 --to-offset 9
      odradek groups reset-offsets delays --to-datetime 2026-11-21T08:00 --execute
      odradek groups reset-offsets delays --shift-by -10 --execute
    """
    chosen = [name for name in _TARGETS if targets[name] not in (None, False)]
    if len(chosen) != 1:
        raise click.UsageError("give one of --to-earliest, --to-latest, --to-offset, --to-datetime, --shift-by")
    target, value = chosen[0], targets[chosen[0]]
    if target == "to_datetime":
        value = _timestamp_ms(value)
    with Rows(_COLUMNS, as_json) as rows:
        for row in with_admin(bootstrap_server, lambda admin: _reset(admin, group, topics, target, value, execute)):
            rows.add(row)
    if not execute:
        click.echo("odradek: a dry run, nothing has changed; --execute does it", err=True)


async def _reset(
    admin: Admin, group: str, topics: tuple[str, ...], target: str, value: int, execute: bool
) -> list[dict[str, Any]]:
    from ..client import OffsetAndMetadata

    plan = await _plan(admin, group, topics, target, value)
    if execute:
        offsets = {partition: OffsetAndMetadata(row["new_offset"]) for partition, row in plan.items()}
        await admin.alter_group_offsets(group, offsets)
    return list(plan.values())


async def _plan(
    admin: Admin, group: str, topics: tuple[str, ...], target: str, value: int
) -> dict[TopicPartition, dict[str, Any]]:
    """Return a row for each partition, with the offset that it would get."""
    from ..client import EARLIEST, LATEST

    committed = await admin.list_group_offsets(group)
    existing = await admin.describe_topics()
    partitions = (
        await partitions_of(admin, topics) if topics else sorted(each for each in committed if each.topic in existing)
    )
    if not partitions:
        raise CliError(f"group {group!r} has no offsets; name topics with --topic to give it some")
    starts = await admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(partitions, LATEST))
    at_time = await admin.list_offsets(dict.fromkeys(partitions, value)) if target == "to_datetime" else {}
    plan: dict[TopicPartition, dict[str, Any]] = {}
    for each in partitions:
        start, end = starts[each].offset, ends[each].offset
        old = committed[each].offset if each in committed else None
        if target == "shift_by" and old is None:
            raise CliError(f"group {group!r} has no offset in {each.topic}-{each.partition} to shift")
        wanted = {
            "to_earliest": start,
            "to_latest": end,
            "to_offset": value,
            # Without a record at or after the time, the next record will be the first.
            "to_datetime": at_time[each].offset if each in at_time and at_time[each].offset >= 0 else end,
            "shift_by": (old or 0) + value,
        }[target]
        new = min(max(wanted, start), end)
        values = (group, each.topic, each.partition, old, new, start, end, end - new)
        plan[each] = dict(zip(_COLUMNS, values, strict=True))
    return plan


def _timestamp_ms(text: str) -> int:
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise click.UsageError(f"--to-datetime is a time like 2026-11-21T08:00:00+01:00, not {text!r}") from None
