"""`odradek topics`: create, list, describe, delete."""

from typing import Any

import click

from . import CliError
from .connect import PATIENCE_MS, bootstrap_option, run
from .output import Rows, json_option

_PARTITION = ("topic", "partition", "leader", "replicas", "isr", "start_offset", "end_offset")
# DescribeConfigs' number for a value that was given to the topic itself.
_OF_THE_TOPIC = 1


@click.group(short_help="Create, list, describe and delete topics.")
def command() -> None:
    """Create, list, describe and delete topics."""


@command.command(short_help="Make a topic.")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option("--partitions", type=click.IntRange(min=1), help="[the broker's num.partitions]")
@click.option("--replication-factor", type=click.IntRange(min=1), help="[the broker's default.replication.factor]")
@click.option("--config", "configs", metavar="NAME=VALUE", multiple=True, help="A topic config; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="A topic that is there is no error.")
@bootstrap_option
def create(
    topics: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    bootstrap_server: str,
) -> None:
    """Make one or more topics.

    \b
    Examples:
      odradek topics create flights --partitions 6
      odradek topics create audit --config flush.messages=1
    """
    pairs = dict(_pair(config) for config in configs)

    async def work() -> None:
        from ...client import Admin, NewTopic
        from ...client.errors import ErrorCode, KafkaError

        async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
            for name in topics:
                try:
                    await admin.create_topics([NewTopic(name, partitions or -1, replication_factor or -1, pairs)])
                except KafkaError as error:
                    if not (if_not_exists and error.code is ErrorCode.TOPIC_ALREADY_EXISTS):
                        raise

    run(work())


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise click.UsageError(f"--config needs NAME=VALUE, got {text!r}")
    return name.strip(), value


@command.command("list", short_help="Print the topics' names.")
@click.option("--internal", is_flag=True, help="Also Kafka's own, as __consumer_offsets.")
@json_option
@bootstrap_option
def list_(internal: bool, as_json: bool, bootstrap_server: str) -> None:
    """Print every topic with its number of partitions.

    \b
    Examples:
      odradek topics list
      odradek topics list --internal | cut -f 1
    """

    async def work() -> list[tuple[str, int]]:
        from ...client import Admin

        async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
            found = (await admin.describe_topics()).values()
            return [(topic.name, len(topic.partitions)) for topic in found if internal or not topic.is_internal]

    with Rows(("topic", "partitions"), as_json) as rows:
        for name, partitions in sorted(run(work())):
            rows.add({"topic": name, "partitions": partitions})


@command.command(short_help="Print a topic's partitions, or its configs.")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option("--configs", is_flag=True, help="The configs instead; those of the topic's own are marked.")
@json_option
@bootstrap_option
def describe(topics: tuple[str, ...], configs: bool, as_json: bool, bootstrap_server: str) -> None:
    """Print leader, replicas and offsets of every partition of TOPIC, or its configs.

    \b
    Examples:
      odradek topics describe flights
      odradek topics describe flights --configs
    """
    if configs:
        rows, columns = run(_configs(topics, bootstrap_server)), ("topic", "config", "value", "own")
    else:
        rows, columns = run(_partitions(topics, bootstrap_server)), _PARTITION
    with Rows(columns, as_json) as out:
        for row in rows:
            out.add(row)


async def _partitions(topics: tuple[str, ...], bootstrap_server: str) -> list[dict[str, Any]]:
    from ...client import Admin, TopicPartition
    from ...client.positions import EARLIEST, LATEST

    async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
        described = await admin.describe_topics(*topics)
        places = [TopicPartition(name, each.partition) for name in topics for each in described[name].partitions]
        starts = await admin.list_offsets(dict.fromkeys(places, EARLIEST))
        ends = await admin.list_offsets(dict.fromkeys(places, LATEST))
    rows: list[dict[str, Any]] = []
    for place in places:
        info = described[place.topic].partitions[place.partition]
        values = (*place, info.leader, list(info.replicas), list(info.isr), starts[place].offset, ends[place].offset)
        rows.append(dict(zip(_PARTITION, values, strict=True)))
    return rows


async def _configs(topics: tuple[str, ...], bootstrap_server: str) -> list[dict[str, Any]]:
    from ...client import Admin, ConfigResource

    async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
        described = await admin.describe_configs([ConfigResource.topic(name) for name in topics])
    return [
        {"topic": resource.name, "config": name, "value": entry.value, "own": entry.source == _OF_THE_TOPIC}
        for resource, entries in described.items()
        for name, entry in sorted(entries.items())
    ]


@command.command(short_help="Delete topics with all their records.")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--if-exists", is_flag=True, help="A topic that is not there is no error.")
@bootstrap_option
def delete(topics: tuple[str, ...], yes: bool, if_exists: bool, bootstrap_server: str) -> None:
    """Delete topics with all their records. On a terminal it asks first.

    \b
    Examples:
      odradek topics delete flights
      odradek topics delete flights --yes --if-exists
    """
    _confirm(topics, yes)

    async def work() -> None:
        from ...client import Admin
        from ...client.errors import UnknownTopic

        async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
            for name in topics:
                try:
                    await admin.delete_topics(name)
                except UnknownTopic:
                    if not if_exists:
                        raise

    run(work())


def _confirm(topics: tuple[str, ...], yes: bool) -> None:
    import sys

    if not yes and sys.stdin.isatty() and not click.confirm(f"delete {', '.join(topics)} with all records?", err=True):
        raise CliError("nothing was deleted")
