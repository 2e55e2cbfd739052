"""`odradek topics`: create, list, describe, alter, delete; delete records."""

from typing import TYPE_CHECKING, Any

import click

from . import CliError
from .connect import PATIENCE_MS, bootstrap_option, run
from .output import Rows, json_option
from .places import places_of, places_option

if TYPE_CHECKING:
    from ..client import TopicPartition

_PARTITION = ("topic", "partition", "leader", "replicas", "isr", "start_offset", "end_offset")
# DescribeConfigs' number for a value that was given to the topic itself.
_OF_THE_TOPIC = 1


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
    """


_validate_option = click.option("--validate-only", is_flag=True, help="Only see whether it could be done.")


@command.command(short_help="Make a topic.")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option("--partitions", type=click.IntRange(min=1), help="[the broker's num.partitions]")
@click.option("--replication-factor", type=click.IntRange(min=1), help="[the broker's default.replication.factor]")
@click.option("--config", "configs", metavar="NAME=VALUE", multiple=True, help="A topic config; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="A topic that is there is no error.")
@_validate_option
@bootstrap_option
def create(
    topics: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    validate_only: bool,
    bootstrap_server: str,
) -> None:
    """Make one or more topics.

    \b
    Examples:
      odradek topics create flights --partitions 6
      odradek topics create audit --config flush.messages=1 --if-not-exists
      odradek topics create much --partitions 5000 --validate-only
    """
    pairs = dict(_pair(config) for config in configs)

    async def work() -> None:
        from ..client import Admin, NewTopic
        from ..client.errors import ErrorCode, KafkaError

        async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
            for name in topics:
                try:
                    topic = NewTopic(name, partitions or -1, replication_factor or -1, pairs)
                    await admin.create_topics([topic], validate_only=validate_only)
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
        from ..client import Admin

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
    from ..client import EARLIEST, LATEST, Admin, TopicPartition

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
    from ..client import Admin, ConfigResource

    async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
        described = await admin.describe_configs([ConfigResource.topic(name) for name in topics])
    return [
        {"topic": resource.name, "config": name, "value": entry.value, "own": entry.source == _OF_THE_TOPIC}
        for resource, entries in described.items()
        for name, entry in sorted(entries.items())
    ]


@command.command(short_help="Give topics more partitions, or other configs.")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option("--partitions", type=click.IntRange(min=1), help="How many there are to be: more than now.")
@click.option("--config", "configs", metavar="NAME=VALUE", multiple=True, help="A config to set; repeatable.")
@click.option("--delete-config", "defaults", metavar="NAME", multiple=True, help="A config that is its default again.")
@_validate_option
@bootstrap_option
def alter(
    topics: tuple[str, ...],
    partitions: int | None,
    configs: tuple[str, ...],
    defaults: tuple[str, ...],
    validate_only: bool,
    bootstrap_server: str,
) -> None:
    """Give topics more partitions, or other configs; what is not named stays.

    \b
    Examples:
      odradek topics alter flights --partitions 12
      odradek topics alter audit --config retention.ms=3600000 --delete-config flush.messages
    """
    pairs = dict(_pair(config) for config in configs)
    if partitions is None and not pairs and not defaults:
        raise click.UsageError("say what: --partitions, --config or --delete-config")

    async def work() -> None:
        from ..client import Admin, ConfigChange, ConfigResource

        changes = [ConfigChange(name, value) for name, value in pairs.items()]
        changes += [ConfigChange(name, operation="delete") for name in defaults]
        async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
            for name in topics:
                if changes:
                    await admin.alter_configs({ConfigResource.topic(name): changes}, validate_only=validate_only)
                if partitions is not None:
                    await admin.create_partitions({name: partitions}, validate_only=validate_only)

    run(work())


@command.command("delete-records", short_help="Delete what partitions hold below an offset.")
@places_option("The partitions; without :N all of the topic.", required=True)
@click.option("--before", type=click.IntRange(min=0), help="The first offset that stays  [the end: nothing stays]")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@bootstrap_option
def delete_records(
    topics: tuple[str, ...], before: int | None, yes: bool, as_json: bool, bootstrap_server: str
) -> None:
    """Delete what partitions hold below an offset, and print where each begins now. On a terminal it asks first.

    \b
    Examples:
      odradek topics delete-records --topic flights:0 --before 1000
      odradek topics delete-records --topic flights --yes
    """
    _confirm(topics, yes, "delete records of")

    async def work() -> dict["TopicPartition", int]:
        from ..client import Admin

        async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
            places = await places_of(admin, topics)
            return await admin.delete_records(dict.fromkeys(places, -1 if before is None else before))

    with Rows(("topic", "partition", "start_offset"), as_json) as rows:
        for (topic, partition), start in sorted(run(work()).items()):
            rows.add({"topic": topic, "partition": partition, "start_offset": start})


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
        from ..client import Admin
        from ..client.errors import UnknownTopic

        async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
            for name in topics:
                try:
                    await admin.delete_topics(name)
                except UnknownTopic:
                    if not if_exists:
                        raise

    run(work())


def _confirm(topics: tuple[str, ...], yes: bool, what: str = "delete, with all records,") -> None:
    import sys

    if not yes and sys.stdin.isatty() and not click.confirm(f"{what} {', '.join(topics)}?", err=True):
        raise CliError("nothing was deleted")
