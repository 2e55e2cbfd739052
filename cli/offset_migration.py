"""`odradek groups migrate-offsets`: how far groups are on the way between ZooKeeper and Kafka, and a copy of the rest.

A group of Kafka 0.8 migrates by its own commits, while its members commit to both. This command shows when both are
equal, and copies the offsets of partitions that nobody reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .confirmation import confirm
from .errors import CliError
from .names import GROUP
from .output import Rows, row_options
from .session import bootstrap_option, with_admin

if TYPE_CHECKING:
    from ..client import Admin, OffsetAndMetadata, SimpleConsumer, TopicPartition

_COLUMNS = ("group", "topic", "partition", "zookeeper", "kafka", "state")
_KAFKA, _ZOOKEEPER = "kafka", "zookeeper"
# Partitions of one request.
_AT_A_TIME = 500


@click.command("migrate-offsets", short_help="Compare a group's offsets in ZooKeeper and in Kafka, and copy them.")
@click.argument("groups", metavar="GROUP...", nargs=-1, required=True, type=GROUP)
@click.option("--to", "target", type=click.Choice([_KAFKA, _ZOOKEEPER]), required=True, help="Where offsets are to be.")
@click.option("--dry-run", is_flag=True, help="Only print how far each partition is.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@row_options
@bootstrap_option
def migrate_offsets(
    groups: tuple[str, ...], target: str, dry_run: bool, yes: bool, as_json: bool, bootstrap_server: str
) -> None:
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
    rows = with_admin(bootstrap_server, lambda admin: _compare(admin, groups, target))
    with Rows(_COLUMNS, as_json) as printed:
        for row in rows:
            printed.add(row)
    left = [row for row in rows if row["state"] in ("missing", "behind")]
    if dry_run or not left:
        click.echo(f"odradek: {len(left)} of {len(rows)} offsets are not in {target} yet", err=True)
        return
    confirm(f"Copy {len(left)} offsets to {target}?", yes, "nothing was copied")
    with_admin(bootstrap_server, lambda admin: _copy(admin, left, target))
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
                rows.append(dict(zip(_COLUMNS, (group, *place, *found, state), strict=True)))
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
