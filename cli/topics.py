"""`odradek topics`: create, list, describe, alter and delete topics; delete records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from .confirmation import (
    confirm,
    deletion_question,
    dry_run_option,
    for_each,
    show_places,
    show_topics,
    validate_option,
)
from .lag import Lags, replica_lags
from .names import TOPIC, check_partitions, has_wildcard, matching, partition_option, partitions_of
from .offset_range import known_ones
from .output import print_rows, row_options, watch, watch_option
from .session import bootstrap_option, with_admin, with_advice
from .topic_copy import copy
from .topic_sizes import PARTITION_ROW, TOPIC_ROW, partition_rows, topic_rows
from .values import INT16, INT32, WholeNumber, config_pairs, readable

if TYPE_CHECKING:
    from ..client import Admin, TopicPartition
    from ..client.core.metadata import PartitionInfo, TopicInfo

_CONFIG = ("topic", "config", "value", "own", "means")
_TROUBLED = ("topic", "partition", "leader", "replicas", "isr", "offline", "lag")
# DescribeConfigs' number for a value that was given to the topic itself.
_DYNAMIC_TOPIC_CONFIG = 1


@click.group(short_help="Create, list, describe, alter and delete topics.")
def command() -> None:
    """Create, list, describe, alter and delete topics; delete records.

    \b
    Examples:
      odradek topics create flights --partitions 6
      odradek topics list
      odradek topics describe flights
      odradek topics alter flights --config retention.ms=3600000
      odradek topics delete flights
      odradek topics copy flights --to other:9092
    """


command.add_command(copy)


@command.command(short_help="Create topics.")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option(
    "-p",
    "--partitions",
    metavar="N",
    type=WholeNumber(1, INT32),
    show_default="the broker's num.partitions",
    help="How many partitions each topic gets.",
)
@click.option(
    "-r",
    "--replication-factor",
    metavar="N",
    type=WholeNumber(1, INT16),
    show_default="the broker's default.replication.factor",
    help="On how many brokers each partition is.",
)
@click.option("-c", "--config", "configs", metavar="NAME=VALUE", multiple=True, help="A topic config; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="A topic that exists is no error.")
@validate_option
@bootstrap_option
def create(
    topics: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    validate_only: bool,
) -> None:
    """Create one or more topics.

    \b
    Examples:
      odradek topics create flights --partitions 6
      odradek topics create audit --config flush.messages=1 --if-not-exists
      odradek topics create much --partitions 5000 --dry-run
    """
    pairs = config_pairs(configs, "--config")

    async def work(admin: Admin) -> None:
        from ..client import NewTopic
        from ..client.errors import ErrorCode, KafkaError

        async def create_one(name: str) -> None:
            try:
                topic = NewTopic(name, partitions or -1, replication_factor or -1, pairs)
                await admin.create_topics([topic], validate_only=validate_only)
            except KafkaError as error:
                if not (if_not_exists and error.code is ErrorCode.TOPIC_ALREADY_EXISTS):
                    raise

        await for_each(topics, create_one, with_advice)

    with_admin(work)


@command.command("list", short_help="Print the names of the topics.")
@click.argument("patterns", metavar="[PATTERN]...", nargs=-1, type=TOPIC)
@click.option("--internal", is_flag=True, help="Also internal topics, such as __consumer_offsets.")
@click.option("--sizes", is_flag=True, help="Also the number of replicas and records, and the size on disk.")
@watch_option
@row_options
@bootstrap_option
def list_(patterns: tuple[str, ...], internal: bool, sizes: bool, every_s: float | None) -> None:
    """Print every topic with its number of partitions, or those that a PATTERN with * and ? matches. With --sizes,
    `records` is how many offsets there are: compaction leaves fewer records, and a transaction's marker has an offset.

    \b
    Examples:
      odradek topics list
      odradek topics list 'flights-*' --sizes
      odradek topics list --sizes --watch 5
      odradek topics list --internal | cut -f 1
    """

    columns = TOPIC_ROW if sizes else TOPIC_ROW[:2]

    async def work(admin: Admin) -> list[tuple[Any, ...]]:
        known = {topic.name: topic for topic in (await admin.describe_topics()).values()}
        names = sorted(name for name, topic in known.items() if internal or not topic.is_internal)
        if patterns:
            names = matching(patterns, names)
            known |= await admin.describe_topics(*names)  # a name that is not there is an error
        if sizes:
            return [tuple(row.values()) for row in await topic_rows(admin, names)]
        return [(name, len(known[name].partitions)) for name in names]

    watch(every_s, lambda: print_rows(columns, with_admin(work)))


@command.command(short_help="Print the partitions of topics, or their configs.")
@click.argument("topics", metavar="[TOPIC...]", nargs=-1, type=TOPIC)
@click.option("--configs", is_flag=True, help="Print the configs; the topic's own are marked.")
@click.option("--under-replicated", is_flag=True, help="Only partitions with replicas that are not in sync.")
@click.option("--unavailable", is_flag=True, help="Only partitions without a leader.")
@watch_option
@row_options
@bootstrap_option
def describe(
    topics: tuple[str, ...], configs: bool, under_replicated: bool, unavailable: bool, every_s: float | None
) -> None:
    """Print leader, replicas, offsets and size of every partition of TOPIC, or its configs. * and ? match any names.
    `records` is how many offsets there are: compaction leaves fewer records, and a transaction's marker has an offset.

    With --under-replicated or --unavailable only partitions that are so are printed, of all topics where none is named.
    `lag` is then by how many records each of the replicas is behind the leader, empty for one that does not answer.

    \b
    Examples:
      odradek topics describe flights
      odradek topics describe 'flights-*' --watch 1
      odradek topics describe flights --configs
      odradek topics describe --under-replicated
    """
    is_selective = under_replicated or unavailable
    if configs and is_selective:
        raise click.UsageError("--configs prints no partitions: leave out --under-replicated and --unavailable")
    if not topics and not is_selective:
        raise click.UsageError("name a TOPIC; --under-replicated and --unavailable look at all topics")
    columns, work = (_CONFIG, _configs) if configs else (PARTITION_ROW, partition_rows)

    async def found(admin: Admin) -> Sequence[dict[str, Any] | tuple[Any, ...]]:
        names = await admin.list_topics() if any(map(has_wildcard, topics)) else ()
        wanted = matching(topics, names)
        if is_selective:
            described = (await admin.describe_topics(*wanted)).values()
            troubled = _troubled(described, under_replicated, unavailable)
            lags = await replica_lags(admin, troubled)
            return [_trouble(*each, lags) for each in troubled.items()]
        return await work(admin, wanted)

    if is_selective:
        columns = _TROUBLED

    watch(every_s, lambda: print_rows(columns, with_admin(found)))


def _troubled(
    topics: Iterable[TopicInfo], under_replicated: bool, unavailable: bool
) -> dict[TopicPartition, PartitionInfo]:
    """Return the partitions that lack replicas in sync, or a leader. Their offsets and sizes may be out of reach."""
    from ..client import TopicPartition

    return {
        TopicPartition(topic.name, each.partition): each
        for topic in sorted(topics, key=lambda each: each.name)
        for each in topic.partitions
        if (under_replicated and len(each.isr) < len(each.replicas)) or (unavailable and each.leader < 0)
    }


def _trouble(partition: TopicPartition, info: PartitionInfo, lags: Lags) -> tuple[Any, ...]:
    """Return the row of such a partition. `lag` is by replica, None for one that does not answer."""
    leader = None if info.leader < 0 else info.leader
    lag = [lags.get((broker, partition)) for broker in info.replicas]
    return *partition, leader, info.replicas, info.isr, info.offline, lag


async def _configs(admin: Admin, topics: Sequence[str]) -> list[tuple[Any, ...]]:
    from ..client import ConfigResource

    described = await admin.describe_configs([ConfigResource.topic(name) for name in topics])
    return [
        (resource.name, name, entry.value, entry.source == _DYNAMIC_TOPIC_CONFIG, readable(name, entry.value))
        for resource, entries in described.items()
        for name, entry in sorted(entries.items())
    ]


@command.command(short_help="Give topics more partitions, or other configs.")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, type=TOPIC)
@click.option(
    "-p", "--partitions", metavar="N", type=WholeNumber(1, INT32), help="The new number of partitions: more than now."
)
@click.option("-c", "--config", "configs", metavar="NAME=VALUE", multiple=True, help="A config to set; repeatable.")
@click.option("--delete-config", "deleted", metavar="NAME", multiple=True, help="A config to reset to its default.")
@validate_option
@bootstrap_option
def alter(
    topics: tuple[str, ...],
    partitions: int | None,
    configs: tuple[str, ...],
    deleted: tuple[str, ...],
    validate_only: bool,
) -> None:
    """Give topics more partitions, or other configs. Configs that are not named stay.

    \b
    Examples:
      odradek topics alter flights --partitions 12
      odradek topics alter audit --config retention.ms=1h --delete-config flush.ms
    """
    pairs = config_pairs(configs, "--config")
    if partitions is None and not pairs and not deleted:
        raise click.UsageError("say what: --partitions, --config or --delete-config")

    async def work(admin: Admin) -> None:
        from ..client import ConfigChange, ConfigResource

        changes = [ConfigChange(name, value) for name, value in pairs.items()]
        changes += [ConfigChange(name, operation="delete") for name in deleted]

        async def alter_one(name: str) -> None:
            if changes:
                await admin.alter_configs({ConfigResource.topic(name): changes}, validate_only=validate_only)
            if partitions is not None:
                await admin.create_partitions({name: partitions}, validate_only=validate_only)

        await for_each(topics, alter_one, with_advice)

    with_admin(work)


@command.command("delete-records", short_help="Delete the records of partitions below an offset.")
@click.argument("named", metavar="[TOPIC[:N,...]]...", nargs=-1, type=TOPIC, callback=check_partitions)
@partition_option("The same as an argument; repeatable.")
@click.option(
    "--before",
    metavar="OFFSET",
    type=WholeNumber(min=0),
    show_default="the end: delete all records",
    help="The first offset to keep.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@dry_run_option
@row_options
@bootstrap_option
def delete_records(
    named: tuple[str, ...], topics: tuple[str, ...], before: int | None, yes: bool, dry_run: bool
) -> None:
    """Delete the records of topics, or of the partitions after the colon, below an offset, and print the new start
    offsets. It asks first; without a terminal it needs --yes.

    \b
    Examples:
      odradek topics delete-records flights:0 --before 1000
      odradek topics delete-records flights --dry-run
      odradek topics delete-records flights --yes
    """
    topics = named + topics
    if not topics:
        raise click.UsageError("say which: TOPIC, or TOPIC:0,1 for some of its partitions")
    confirm(f"Delete records of {', '.join(topics)}?", yes or dry_run, "nothing was deleted")

    async def work(admin: Admin) -> dict[TopicPartition, int]:
        from ..client import EARLIEST, LATEST

        partitions = await partitions_of(admin, topics)
        if dry_run:
            starts = await admin.list_offsets(dict.fromkeys(partitions, EARLIEST), partial=True)
            ends = await admin.list_offsets(dict.fromkeys(partitions, LATEST), partial=True)
            known = known_ones(partitions, starts.keys() & ends.keys(), "not deleted")
            wanted = {each: ends[each].offset if before is None else before for each in known}
            return {each: max(starts[each].offset, offset) for each, offset in wanted.items()}
        return await admin.delete_records(dict.fromkeys(partitions, -1 if before is None else before))

    show_places(with_admin(work), "start_offset")


@command.command(short_help="Delete topics with all their records.")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, type=TOPIC)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--if-exists", is_flag=True, help="A missing topic is no error.")
@dry_run_option
@bootstrap_option
def delete(topics: tuple[str, ...], yes: bool, if_exists: bool, dry_run: bool) -> None:
    """Delete topics with all their records. It asks first; without a terminal it needs --yes.

    Every topic is tried. Status 1 if the only one failed; of several, 10 and the number of those that failed.

    \b
    Examples:
      odradek topics delete flights
      odradek topics delete 'flights-*' --dry-run
      odradek topics delete flights --yes --if-exists
    """
    if any(map(has_wildcard, topics)):
        known = with_admin(lambda admin: admin.list_topics())
        topics = tuple(matching(topics, known))
    if dry_run:
        show_topics(topics, if_exists=if_exists)
        return
    confirm(deletion_question("topic", topics, "records"), yes, "nothing was deleted")

    async def work(admin: Admin) -> None:
        from ..client.errors import UnknownTopic

        async def delete_one(name: str) -> None:
            try:
                await admin.delete_topics(name)
            except UnknownTopic:
                if not if_exists:
                    raise

        await for_each(topics, delete_one, with_advice)

    with_admin(work)
