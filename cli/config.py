"""`odradek config`: list the supported configs, describe effective values, set them while the broker runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from .confirmation import validate_option
from .connection_options import with_options
from .errors import CliError
from .names import GROUP, TOPIC
from .output import print_rows, row_options
from .session import bootstrap_option, with_admin
from .values import WholeNumber, config_pairs, parse_pair, readable

if TYPE_CHECKING:
    from ..broker.configs.definition import ConfigDef
    from ..client import Admin, ConfigResource

# The sources of DescribeConfigs in words.
_SOURCES = {1: "topic", 2: "broker", 3: "every broker", 4: "given at start", 5: "default", 8: "group"}
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
      odradek config set share.auto.offset.reset=earliest --group workers
    """


def _resource_options(help_texts: tuple[str, str, str, str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that gives a command --topic, --group, --broker and --all-brokers."""
    topic, group, broker, all_brokers = help_texts
    options = (
        click.option("--topic", metavar="TOPIC", type=TOPIC, help=topic),
        click.option("--group", metavar="GROUP", type=GROUP, help=group),
        click.option("--broker", type=WholeNumber(min=0), metavar="ID", help=broker),
        click.option("--all-brokers", is_flag=True, help=all_brokers),
    )
    return partial(with_options, options)


@command.command("list", short_help="Print every supported config.")
@click.option("--topics", "of", flag_value="topics", help="Topic configs instead of broker configs.")
@click.option("--groups", "of", flag_value="groups", help="Group configs instead of broker configs.")
@row_options
def list_(of: str | None) -> None:
    """Print every config that Odradek supports, with its type, its default, its meaning, and whether it can be changed
    while the broker runs. This needs no broker.

    \b
    Examples:
      odradek config list
      odradek config list --topics | cut -f 1
    """
    from ..broker.configs.broker_config import BROKER_CONFIGS
    from ..broker.configs.group_config import GROUP_CONFIGS
    from ..broker.configs.topic_config import SUPPORTED_TOPIC_CONFIGS

    table = {"topics": SUPPORTED_TOPIC_CONFIGS, "groups": GROUP_CONFIGS}.get(of or "", BROKER_CONFIGS)
    print_rows(
        ("config", "type", "default", "dynamic", "range", "meaning"),
        (_definition(row, of is None) for row in table.values()),
    )


def _definition(row: ConfigDef, of_brokers: bool) -> tuple[Any, ...]:
    dynamic = row.dynamic or not of_brokers
    return row.name, row.type.name.lower(), row.format(row.default), dynamic, row.range_text, row.doc


@command.command(short_help="Print effective values.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@_resource_options(
    (
        "The configs of this topic.",
        "The configs of this group.",
        "The configs of this broker.  [default: any]",
        "The configs that were changed for every broker.",
    )
)
@click.option("--changed", is_flag=True, help="Only values that are not the default.")
@row_options
@bootstrap_option
def describe(names: tuple[str, ...], changed: bool, **resource: Any) -> None:
    """Print configs with their values, where each comes from and whether it can be changed while the broker runs.

    \b
    Examples:
      odradek config describe
      odradek config describe retention.ms segment.bytes --topic flights
      odradek config describe --all-brokers
    """
    chosen = _chosen(**resource)

    async def work(admin: Admin) -> list[dict[str, Any]]:
        from ..client import ConfigResource

        owner = chosen or ConfigResource.broker((await admin.describe_cluster()).controller_id)
        found = await admin.describe_configs([owner], names=names or None)
        missing = sorted(set(names) - found[owner].keys())
        # The resource of every broker has only the configs that were changed for it.
        if missing and not resource["all_brokers"]:
            raise CliError(f"{owner} has no config {missing[0]}{_list_advice(**resource)}")
        return [
            {
                "config": name,
                "value": entry.value,
                "source": _SOURCES.get(entry.source, str(entry.source)),
                "dynamic": not entry.read_only,
                "means": readable(name, entry.value),
                "meaning": entry.documentation,
            }
            for name, entry in sorted(found[owner].items())
            if not changed or entry.source != _DEFAULT_CONFIG
        ]

    print_rows(("config", "value", "source", "dynamic", "means"), with_admin(work))


def _list_advice(topic: str | None, group: str | None, **_: Any) -> str:
    of = " --topics" if topic is not None else " --groups" if group is not None else ""
    return f"; `odradek config list{of}` names the supported ones"


@command.command("set", short_help="Change configs while the broker runs.")
@click.argument("pairs", metavar="[NAME=VALUE]...", nargs=-1)
@click.option("--delete", "deleted", metavar="NAME", multiple=True, help="A config to reset to its default.")
@click.option("--append", "appended", metavar="NAME=VALUE", multiple=True, help="An entry to add to a list.")
@click.option("--subtract", "subtracted", metavar="NAME=VALUE", multiple=True, help="An entry to remove from a list.")
@_resource_options(
    (
        "The configs of this topic.",
        "The configs of this group, which need not exist yet.",
        "The configs of this broker.",
        "The configs of every broker of the cluster.",
    )
)
@validate_option
@bootstrap_option
def set_(
    pairs: tuple[str, ...],
    deleted: tuple[str, ...],
    appended: tuple[str, ...],
    subtracted: tuple[str, ...],
    validate_only: bool,
    **resource: Any,
) -> None:
    """Change configs of a topic, a group, a broker or every broker: all that are named, or none. Changes take effect at
    once and survive restarts. Values of times take ms, s, min, h, d and w, sizes B, kB, KiB, MB, MiB and so on.

    \b
    Examples:
      odradek config set retention.ms=1h segment.bytes=64MiB --topic flights
      odradek config set message.max.bytes=4194304 --all-brokers
      odradek config set --delete retention.ms --topic flights
      odradek config set share.auto.offset.reset=earliest --group workers
    """
    changes = [(name, value, "set") for name, value in config_pairs(pairs, "set").items()]
    changes += [(name, None, "delete") for name in deleted]
    changes += [(*parse_pair(text, "--append"), "append") for text in appended]
    changes += [(*parse_pair(text, "--subtract"), "subtract") for text in subtracted]
    if not changes:
        raise click.UsageError("say what: NAME=VALUE, --delete, --append or --subtract")
    owner = _chosen(**resource)
    if owner is None:
        raise click.UsageError("say whose: --topic, --group, --broker or --all-brokers")
    from ..client import ConfigChange

    wanted = [ConfigChange(name, value, operation) for name, value, operation in changes]
    with_admin(lambda admin: admin.alter_configs({owner: wanted}, validate_only=validate_only))


def _chosen(topic: str | None, group: str | None, broker: int | None, all_brokers: bool) -> ConfigResource | None:
    """Return whose configs are meant, None if nobody is named. UsageError where several are."""
    from ..client import ConfigResource

    if (topic is not None) + (group is not None) + (broker is not None) + all_brokers > 1:
        raise click.UsageError("only one of --topic, --group, --broker and --all-brokers")
    if topic is not None:
        return ConfigResource.topic(topic)
    if group is not None:
        return ConfigResource.group(group)
    if all_brokers:
        return ConfigResource.every_broker()
    return None if broker is None else ConfigResource.broker(broker)
