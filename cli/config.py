"""`odradek config`: list the supported configs, describe effective values, set them while the broker runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .confirmation import validate_option
from .errors import CliError
from .names import TOPIC
from .output import print_rows, row_options
from .session import bootstrap_option, with_admin
from .values import WholeNumber, config_pairs, parse_pair, readable

if TYPE_CHECKING:
    from ..broker.configs.definition import ConfigDef
    from ..client import Admin, ConfigResource

# The sources of DescribeConfigs in words.
_SOURCES = {1: "topic", 2: "broker", 3: "every broker", 4: "given at start", 5: "default"}
_DEFAULT_CONFIG = 5


@click.group(short_help="Look at configs and change them while the broker runs.")
def command() -> None:
    """Look at configs and change them while the broker runs.

    \b
    Examples:
      odradek config list --topics
      odradek config describe --changed
      odradek config describe --topic flights
      odradek config set retention.ms=3600000 --topic flights
      odradek config set message.max.bytes=4194304 --all-brokers
    """


@command.command("list", short_help="Print every supported config.")
@click.option("--topics", is_flag=True, help="Topic configs instead of broker configs.")
@row_options
def list_(topics: bool) -> None:
    """Print every config that Odradek supports, with its type, its default, its meaning, and whether it can be changed
    while the broker runs. This needs no broker.

    \b
    Examples:
      odradek config list
      odradek config list --topics | cut -f 1
    """
    from ..broker.configs.broker_config import BROKER_CONFIGS
    from ..broker.configs.topic_config import SUPPORTED_TOPIC_CONFIGS

    print_rows(
        ("config", "type", "default", "dynamic", "range", "meaning"),
        (_definition(row, topics) for row in (SUPPORTED_TOPIC_CONFIGS if topics else BROKER_CONFIGS).values()),
    )


def _definition(row: ConfigDef, of_topics: bool) -> tuple[Any, ...]:
    dynamic = of_topics or row.dynamic
    return row.name, row.type.name.lower(), row.format(row.default), dynamic, row.range_text, row.doc


@command.command(short_help="Print effective values.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--topic", metavar="TOPIC", type=TOPIC, help="The configs of this topic.")
@click.option("--broker", type=WholeNumber(min=0), metavar="ID", help="The configs of this broker.  [default: any]")
@click.option("--all-brokers", is_flag=True, help="The configs that were changed for every broker.")
@click.option("--changed", is_flag=True, help="Only values that are not the default.")
@row_options
@bootstrap_option
def describe(names: tuple[str, ...], topic: str | None, broker: int | None, all_brokers: bool, changed: bool) -> None:
    """Print configs with their values, where each comes from and whether it can be changed while the broker runs.

    \b
    Examples:
      odradek config describe
      odradek config describe retention.ms segment.bytes --topic flights
      odradek config describe --all-brokers
    """

    async def work(admin: Admin) -> list[dict[str, Any]]:
        resource = await _resource(admin, topic, broker, all_brokers)
        found = await admin.describe_configs([resource], names=names or None)
        missing = sorted(set(names) - found[resource].keys())
        # The resource of every broker has only the configs that were changed for it.
        if missing and not all_brokers:
            raise CliError(f"{resource} has no config {missing[0]}{_list_advice(topic)}")
        return [
            {
                "config": name,
                "value": entry.value,
                "source": _SOURCES.get(entry.source, str(entry.source)),
                "dynamic": not entry.read_only,
                "means": readable(name, entry.value),
                "meaning": entry.documentation,
            }
            for name, entry in sorted(found[resource].items())
            if not changed or entry.source != _DEFAULT_CONFIG
        ]

    print_rows(("config", "value", "source", "dynamic", "means"), with_admin(work))


def _list_advice(topic: str | None) -> str:
    return f"; `odradek config list{' --topics' if topic is not None else ''}` names the supported ones"


@command.command("set", short_help="Change configs while the broker runs.")
@click.argument("pairs", metavar="[NAME=VALUE]...", nargs=-1)
@click.option("--delete", "deleted", metavar="NAME", multiple=True, help="A config to reset to its default.")
@click.option("--append", "appended", metavar="NAME=VALUE", multiple=True, help="An entry to add to a list.")
@click.option("--subtract", "subtracted", metavar="NAME=VALUE", multiple=True, help="An entry to remove from a list.")
@click.option("--topic", metavar="TOPIC", type=TOPIC, help="The configs of this topic.")
@click.option("--broker", type=WholeNumber(min=0), metavar="ID", help="The configs of this broker.")
@click.option("--all-brokers", is_flag=True, help="The configs of every broker of the cluster.")
@validate_option
@bootstrap_option
def set_(
    pairs: tuple[str, ...],
    deleted: tuple[str, ...],
    appended: tuple[str, ...],
    subtracted: tuple[str, ...],
    topic: str | None,
    broker: int | None,
    all_brokers: bool,
    validate_only: bool,
) -> None:
    """Change configs of a topic, a broker or every broker: all that are named, or none. Changes take effect at once and
    survive restarts. Values of times take ms, s, min, h, d and w, those of sizes B, kB, KiB, MB, MiB and so on.

    \b
    Examples:
      odradek config set retention.ms=1h segment.bytes=64MiB --topic flights
      odradek config set message.max.bytes=4194304 --all-brokers
      odradek config set --delete retention.ms --topic flights
    """
    changes = [(name, value, "set") for name, value in config_pairs(pairs, "set").items()]
    changes += [(name, None, "delete") for name in deleted]
    changes += [(*parse_pair(text, "--append"), "append") for text in appended]
    changes += [(*parse_pair(text, "--subtract"), "subtract") for text in subtracted]
    if not changes:
        raise click.UsageError("say what: NAME=VALUE, --delete, --append or --subtract")
    if topic is None and broker is None and not all_brokers:
        raise click.UsageError("say whose: --topic, --broker or --all-brokers")

    async def work(admin: Admin) -> None:
        from ..client import ConfigChange

        resource = await _resource(admin, topic, broker, all_brokers)
        wanted = [ConfigChange(name, value, operation) for name, value, operation in changes]
        await admin.alter_configs({resource: wanted}, validate_only=validate_only)

    with_admin(work)


async def _resource(admin: Admin, topic: str | None, broker: int | None, all_brokers: bool) -> ConfigResource:
    from ..client import ConfigResource

    if (topic is not None) + (broker is not None) + all_brokers > 1:
        raise click.UsageError("only one of --topic, --broker and --all-brokers")
    if topic is not None:
        return ConfigResource.topic(topic)
    if all_brokers:
        return ConfigResource.every_broker()
    return ConfigResource.broker((await admin.describe_cluster()).controller_id if broker is None else broker)
