"""`odradek groups reset-offsets`: where a group goes on reading. It shows what it would do, and does it when told to.

A target beyond an end of the log is moved to that end, since there is nothing to read from elsewhere.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from .connect import PATIENCE_MS, bootstrap_option, run
from .output import Rows, json_option
from .places import places_of, places_option

if TYPE_CHECKING:
    from ..client import Admin, TopicPartition

_COLUMNS = ("group", "topic", "partition", "committed", "new_offset", "start_offset", "end_offset", "lag")
_TARGETS = ("to_earliest", "to_latest", "to_offset", "to_datetime", "shift_by")


@click.command("reset-offsets", short_help="Set where a group goes on; a dry run unless --execute is given.")
@click.argument("group")
@places_option("Only these; repeatable. [every partition that has an offset]")
@click.option("--to-earliest", is_flag=True, help="The first record that is kept.")
@click.option("--to-latest", is_flag=True, help="Behind the last record.")
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="This offset.")
@click.option(
    "--to-datetime", metavar="TIME", help="The first record at or after an ISO 8601 time; local if it names no zone."
)
@click.option("--shift-by", type=int, metavar="N", help="N records on, or back if negative.")
@click.option("--execute", is_flag=True, help="Do it; otherwise only show it.")
@json_option
@bootstrap_option
def reset_offsets(
    group: str, topics: tuple[str, ...], execute: bool, as_json: bool, bootstrap_server: str, **targets: Any
) -> None:
    """Set the committed offsets of GROUP, whose consumers must be stopped.

    \b
    Examples:
      odradek groups reset-offsets delays --to-earliest
      odradek groups reset-offsets delays --topic flights:0 --to-offset 1000 --execute
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
        for row in run(_reset(group, topics, target, value, execute, bootstrap_server)):
            rows.add(row)
    if not execute:
        click.echo("odradek: a dry run, nothing has changed; --execute does it", err=True)


async def _reset(
    group: str, topics: tuple[str, ...], target: str, value: int, execute: bool, bootstrap_server: str
) -> list[dict[str, Any]]:
    from ..client import Admin, OffsetAndMetadata

    async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
        plan = await _plan(admin, group, topics, target, value)
        if execute:
            offsets = {place: OffsetAndMetadata(row["new_offset"]) for place, row in plan.items()}
            await admin.alter_group_offsets(group, offsets)
    return list(plan.values())


async def _plan(
    admin: Admin, group: str, topics: tuple[str, ...], target: str, value: int
) -> dict[TopicPartition, dict[str, Any]]:
    from ..client import EARLIEST, LATEST
    from . import CliError

    committed = await admin.list_group_offsets(group)
    there = await admin.describe_topics()
    places = await places_of(admin, topics) if topics else sorted(each for each in committed if each.topic in there)
    if not places:
        raise CliError(f"group {group!r} has no offsets; name topics with --topic to give it some")
    starts = await admin.list_offsets(dict.fromkeys(places, EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(places, LATEST))
    then = await admin.list_offsets(dict.fromkeys(places, value)) if target == "to_datetime" else {}
    plan: dict[TopicPartition, dict[str, Any]] = {}
    for place in places:
        start, end = starts[place].offset, ends[place].offset
        old = committed[place].offset if place in committed else None
        if target == "shift_by" and old is None:
            raise CliError(f"group {group!r} has no offset in {place.topic}-{place.partition} to shift")
        # No record at or after the time: whatever comes will be.
        at_time = then[place].offset if place in then and then[place].offset >= 0 else end
        wanted = {
            "to_earliest": start,
            "to_latest": end,
            "to_offset": value,
            "to_datetime": at_time,
            "shift_by": (old or 0) + value,
        }[target]
        new = min(max(wanted, start), end)
        values = (group, place.topic, place.partition, old, new, start, end, end - new)
        plan[place] = dict(zip(_COLUMNS, values, strict=True))
    return plan


def _timestamp_ms(text: str) -> int:
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise click.UsageError(f"--to-datetime is a time like 2026-11-21T08:00:00+01:00, not {text!r}") from None
