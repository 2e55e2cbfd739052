"""`odradek groups reset-offsets` and `migrate-offsets`: set a group's offsets, or move them out of ZooKeeper or back.

A reset is a dry run unless told otherwise. A target before the start or behind the end of a log is moved to that end:
there are no records elsewhere.

A group of Kafka 0.8 migrates by its own commits, while its members commit to both. The command shows when both are
equal, and copies the offsets of partitions that nobody reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .confirmation import confirm
from .errors import CliError
from .group_kinds import kind_of
from .names import GROUP, partition_option, partitions_of
from .offset_range import known_ones
from .output import print_rows, row_options
from .session import bootstrap_option, with_admin
from .values import AnyWholeNumber, OneOf, WholeNumber, parse_search_time_ms

if TYPE_CHECKING:
    from ..client import Admin, OffsetAndMetadata, SimpleConsumer, TopicPartition

_COLUMNS = ("group", "topic", "partition", "committed", "new_offset", "start_offset", "end_offset", "lag")
_TARGETS = {
    "to_earliest": "earliest", "to_latest": "latest", "to_offset": "offset", "to_datetime": "time",
    "shift_by": "shift by",
}  # fmt: skip


@click.command("reset-offsets", short_help="Set the offsets of a group; a dry run unless --execute is given.")
@click.argument("group", type=GROUP)
@partition_option("Only these partitions; repeatable.  [default: every partition that has an offset]")
@click.option("--to-earliest", is_flag=True, help="To the first record.")
@click.option("--to-latest", is_flag=True, help="Behind the last record.")
@click.option("--to-offset", type=WholeNumber(min=0), metavar="N", help="To this offset.")
@click.option(
    "--to-datetime",
    metavar="TIME",
    help="To the first record at or after a time: ISO 8601, local if it has no zone, or milliseconds.",
)
@click.option("--shift-by", type=AnyWholeNumber(), metavar="N", help="N records forward, or back if negative.")
@click.option("--execute", is_flag=True, help="Set the offsets; otherwise only print them.")
@row_options
@bootstrap_option
def reset_offsets(group: str, topics: tuple[str, ...], execute: bool, **targets: Any) -> None:
    """Set the committed offsets of GROUP, whose consumers must be stopped; of a share group, where it begins.

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
    target, value = _TARGETS[chosen[0]], targets[chosen[0]]
    if target == "time":
        value = parse_search_time_ms(text := value)
        if value is None:
            raise click.UsageError(f"--to-datetime is a time like 2026-11-21T08:00:00+01:00, not {text!r}")
    print_rows(_COLUMNS, with_admin(lambda admin: _reset(admin, group, topics, target, value, execute)))
    if not execute:
        click.echo("odradek: a dry run, nothing has changed; --execute does it", err=True)


async def _reset(
    admin: Admin, group: str, topics: tuple[str, ...], target: str, value: int, execute: bool
) -> list[tuple[Any, ...]]:
    """Return a row for each partition, with the offset that it gets, or would get."""
    from ..client.admin import group_resets

    kind = await kind_of(admin, group)
    committed = await group_resets.offsets_of(admin, group, kind)
    existing = await admin.describe_topics()
    partitions = (
        await partitions_of(admin, topics) if topics else sorted(each for each in committed if each.topic in existing)
    )
    if not partitions:
        raise CliError(f"group {group!r} has no offsets; name topics with --topic to give it some")
    found = await group_resets.resets(admin, partitions, committed, target, value)
    plan = {each: found[each] for each in known_ones(partitions, found, "not reset")}
    for each in plan:
        if target == "shift by" and each not in committed:
            raise CliError(f"group {group!r} has no offset in {each.topic}-{each.partition} to shift")
    if execute:
        await group_resets.set_offsets(admin, group, kind, {each: new for each, (_, _, new) in plan.items()})
    return [(group, *each, committed.get(each), new, start, end, end - new) for each, (start, end, new) in plan.items()]


_MIGRATION = ("group", "topic", "partition", "zookeeper", "kafka", "state")
_KAFKA, _ZOOKEEPER = "kafka", "zookeeper"
# Partitions of one request.
_AT_A_TIME = 500


@click.command("migrate-offsets", short_help="Compare a group's offsets in ZooKeeper and in Kafka, and copy them.")
@click.argument("groups", metavar="GROUP...", nargs=-1, required=True, type=GROUP)
@click.option("--to", "target", type=OneOf([_KAFKA, _ZOOKEEPER]), required=True, help="Where offsets are to be.")
@click.option("--dry-run", is_flag=True, help="Only print how far each partition is.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@row_options
@bootstrap_option
def migrate_offsets(groups: tuple[str, ...], target: str, dry_run: bool, yes: bool) -> None:
    """Print each GROUP's offsets in ZooKeeper and at its coordinator, and copy those that the target lacks.

    The state of a partition is: equal; missing, behind or ahead, which the target is. Missing ones and those behind are
    copied. The members of a running group do that by themselves while they commit to both; wait until all is equal or
    ahead before they commit to the target alone.

    \b
    Examples:
      odradek groups migrate-offsets old --to kafka --dry-run
      odradek groups migrate-offsets old --to kafka --yes
      odradek groups migrate-offsets old --to zookeeper --dry-run --json
    """
    rows = with_admin(lambda admin: _compare(admin, groups, target))
    print_rows(_MIGRATION, rows)
    left = [row for row in rows if row["state"] in ("missing", "behind")]
    if dry_run or not left:
        click.echo(f"odradek: {len(left)} of {len(rows)} offsets are not in {target} yet", err=True)
        return
    confirm(f"Copy {len(left)} offsets to {target}?", yes, "nothing was copied")
    with_admin(lambda admin: _copy(admin, left, target))
    click.echo(f"odradek: {len(left)} offsets were copied to {target}", err=True)


async def _compare(admin: Admin, groups: tuple[str, ...], target: str) -> list[dict[str, Any]]:
    """Return a row for each partition in which a group has an offset."""
    from ..client import TopicPartition

    topics = await admin.describe_topics()
    every = [TopicPartition(name, each.partition) for name, topic in topics.items() for each in topic.partitions]
    rows: list[dict[str, Any]] = []
    async with await _any_broker(admin) as broker:
        for group in dict.fromkeys(groups):
            in_kafka = {place: each.offset for place, each in (await admin.list_group_offsets(group)).items()}
            in_zookeeper = await _read(broker, group, every)
            for place in sorted(in_kafka.keys() | in_zookeeper.keys()):
                found = in_zookeeper.get(place), in_kafka.get(place)
                state = _state(*(found if target == _KAFKA else found[::-1]))
                rows.append(dict(zip(_MIGRATION, (group, *place, *found, state), strict=True)))
    return rows


def _state(source: int | None, target: int | None) -> str:
    if target is None:
        return "missing"
    if source is None or target > source:
        return "ahead"
    return "equal" if target == source else "behind"


async def _read(broker: SimpleConsumer, group: str, every: list[TopicPartition]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, OffsetAndMetadata | None] = {}
    for begin in range(0, len(every), _AT_A_TIME):
        found |= await broker.fetch_offsets(group, every[begin : begin + _AT_A_TIME], storage=_ZOOKEEPER)
    return {place: each.offset for place, each in found.items() if each is not None}


async def _copy(admin: Admin, rows: list[dict[str, Any]], target: str) -> None:
    from ..client import OffsetAndMetadata, TopicPartition

    for group in dict.fromkeys(row["group"] for row in rows):
        source = _ZOOKEEPER if target == _KAFKA else _KAFKA
        offsets = {
            TopicPartition(row["topic"], row["partition"]): OffsetAndMetadata(row[source])
            for row in rows
            if row["group"] == group
        }
        if target == _KAFKA:
            await admin.alter_group_offsets(group, offsets)
            continue
        async with await _any_broker(admin) as broker:
            places = list(offsets)
            for begin in range(0, len(places), _AT_A_TIME):
                some = {place: offsets[place] for place in places[begin : begin + _AT_A_TIME]}
                await broker.commit_offsets(group, some, storage=_ZOOKEEPER)


async def _any_broker(admin: Admin) -> SimpleConsumer:
    """Return a connection to a broker of a cluster on ZooKeeper, not opened. CliError where there is no ZooKeeper."""
    from ..client import ConfigResource, SimpleConsumer

    node = (await admin.describe_cluster()).nodes[0]
    resource = ConfigResource.broker(node.node_id)
    entry = (await admin.describe_configs([resource]))[resource].get("zookeeper.connect")
    if entry is None or not entry.value:
        raise CliError(
            f"the broker at {node.host}:{node.port} has no ZooKeeper (zookeeper.connect), so groups keep their offsets "
            "in Kafka alone: there is nothing to migrate"
        )
    return SimpleConsumer(node.host, node.port)
