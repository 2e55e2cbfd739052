"""`odradek config`: list what can be configured, describe what holds, set it while the broker runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from . import CliError
from .connect import PATIENCE_MS, bootstrap_option, run
from .output import Rows, json_option

if TYPE_CHECKING:
    from ..broker.configs.definition import ConfigDef
    from ..client import Admin, ConfigResource

# DescribeConfigs' numbers, in words.
_SOURCES = {1: "topic", 2: "broker", 3: "every broker", 4: "given at start", 5: "default"}


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


@command.command("list", short_help="Print every config that is acted on.")
@click.option("--topics", is_flag=True, help="Those of topics instead of the broker's.")
@json_option
def list_(topics: bool, as_json: bool) -> None:
    """Print every config that Odradek acts on: type, default, whether it can be changed while the broker runs, meaning.
    No broker is asked.

    \b
    Examples:
      odradek config list
      odradek config list --topics | cut -f 1
    """
    from ..broker.configs.broker_config import BROKER_CONFIGS
    from ..broker.configs.topic_config import SUPPORTED_TOPIC_CONFIGS

    with Rows(("config", "type", "default", "dynamic", "range", "meaning"), as_json) as rows:
        for declared in (SUPPORTED_TOPIC_CONFIGS if topics else BROKER_CONFIGS).values():
            rows.add(_declaration(declared, topics))


def _declaration(declared: ConfigDef, of_topics: bool) -> dict[str, Any]:
    return {
        "config": declared.name,
        "type": declared.type.name.lower(),
        "default": declared.format(declared.default),
        "dynamic": of_topics or declared.dynamic,
        "range": declared.range_text,
        "meaning": declared.doc,
    }


@command.command(short_help="Print the values that hold.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--topic", metavar="TOPIC", help="Of this topic.")
@click.option("--broker", type=click.IntRange(min=0), metavar="ID", help="Of this broker  [the one that is asked]")
@click.option("--all-brokers", is_flag=True, help="What was changed for every broker.")
@click.option("--changed", is_flag=True, help="Only those that are not their default.")
@json_option
@bootstrap_option
def describe(
    names: tuple[str, ...],
    topic: str | None,
    broker: int | None,
    all_brokers: bool,
    changed: bool,
    as_json: bool,
    bootstrap_server: str,
) -> None:
    """Print configs with their values, where each comes from and whether it can be changed while the broker runs.

    \b
    Examples:
      odradek config describe
      odradek config describe retention.ms segment.bytes --topic flights
      odradek config describe --all-brokers
    """

    async def work() -> list[dict[str, Any]]:
        from ..client import Admin

        async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
            resource = await _resource(admin, topic, broker, all_brokers)
            found = await admin.describe_configs([resource], names=names or None)
            missing = sorted(set(names) - found[resource].keys())
            # What was changed for every broker is all that it has.
            if missing and not all_brokers:
                raise CliError(f"{resource} has no config {missing[0]}{_list_of(topic)}")
        return [
            {
                "config": name,
                "value": entry.value,
                "source": _SOURCES.get(entry.source, str(entry.source)),
                "dynamic": not entry.read_only,
                "meaning": entry.documentation,
            }
            for name, entry in sorted(found[resource].items())
            if not changed or entry.source != _DEFAULT
        ]

    with Rows(("config", "value", "source", "dynamic"), as_json) as rows:
        for row in run(work()):
            rows.add(row)


_DEFAULT = 5


def _list_of(topic: str | None) -> str:
    """Where to look for the name that was meant."""
    return f"; `odradek config list{' --topics' if topic is not None else ''}` names those that are acted on"


@command.command("set", short_help="Change configs while the broker runs.")
@click.argument("pairs", metavar="[NAME=VALUE]...", nargs=-1)
@click.option("--delete", "deleted", metavar="NAME", multiple=True, help="A config that is its default again.")
@click.option("--append", "appended", metavar="NAME=VALUE", multiple=True, help="An entry that a list gets.")
@click.option("--subtract", "subtracted", metavar="NAME=VALUE", multiple=True, help="An entry that a list loses.")
@click.option("--topic", metavar="TOPIC", help="Of this topic.")
@click.option("--broker", type=click.IntRange(min=0), metavar="ID", help="Of this broker.")
@click.option("--all-brokers", is_flag=True, help="Of every broker of the cluster.")
@click.option("--validate-only", is_flag=True, help="Only see whether it could be done.")
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
    bootstrap_server: str,
) -> None:
    """Change configs of a topic, a broker or every broker: all that are named, or none. It takes effect at once and
    outlives restarts.

    \b
    Examples:
      odradek config set retention.ms=3600000 --topic flights
      odradek config set message.max.bytes=4194304 --all-brokers
      odradek config set --delete retention.ms --topic flights
    """
    changes = [(*_pair(text), "set") for text in pairs] + [(name, None, "delete") for name in deleted]
    changes += [(*_pair(text), "append") for text in appended] + [(*_pair(text), "subtract") for text in subtracted]
    if not changes:
        raise click.UsageError("say what: NAME=VALUE, --delete, --append or --subtract")
    if topic is None and broker is None and not all_brokers:
        raise click.UsageError("say whose: --topic, --broker or --all-brokers")

    async def work() -> None:
        from ..client import Admin, ConfigChange

        async with Admin(bootstrap_server, client_id="odradek-cli", default_api_timeout_ms=PATIENCE_MS) as admin:
            resource = await _resource(admin, topic, broker, all_brokers)
            wanted = [ConfigChange(name, value, operation) for name, value, operation in changes]
            await admin.alter_configs({resource: wanted}, validate_only=validate_only)

    run(work())


async def _resource(admin: Admin, topic: str | None, broker: int | None, all_brokers: bool) -> ConfigResource:
    from ..client import ConfigResource

    if (topic is not None) + (broker is not None) + all_brokers > 1:
        raise click.UsageError("only one of --topic, --broker and --all-brokers")
    if topic is not None:
        return ConfigResource.topic(topic)
    if all_brokers:
        return ConfigResource.every_broker()
    return ConfigResource.broker((await admin.describe_cluster()).controller_id if broker is None else broker)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise click.UsageError(f"NAME=VALUE is needed, got {text!r}")
    return name.strip(), value
