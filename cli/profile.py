"""`odradek profile`: named clusters with the configs of clients, kept in one file."""

from __future__ import annotations

import click

from . import profile_file
from .client_configs import KINDS, check
from .confirmation import confirm
from .errors import CliError
from .output import print_rows, row_options
from .values import parse_pair, properties_of

# As Kafka prints a password.
_HIDDEN = "[hidden]"


@click.group(short_help="Keep addresses and client configs of clusters under a name.")
def command() -> None:
    """Keep the address of each cluster and the configs of its clients under a name.

    A command takes the profile that --profile or ODRADEK_PROFILE names, or the current one. -b, and
    ODRADEK_BOOTSTRAP_SERVER where --profile is not given, replace its address. -X replaces its configs.

    \b
    Examples:
      odradek profile set staging bootstrap.servers=kafka-1:9092
      odradek profile use staging
      odradek profile list
    """


@command.command("set", short_help="Make a profile, or change configs of one.")
@click.argument("name")
@click.argument("pairs", metavar="[NAME=VALUE]...", nargs=-1)
@click.option("--file", metavar="FILE", help="Take the configs of a file, such as client.properties.")
@click.option("--delete", "deleted", metavar="NAME", multiple=True, help="A config to remove; repeatable.")
def set_(name: str, pairs: tuple[str, ...], file: str | None, deleted: tuple[str, ...]) -> None:
    """Make the profile NAME or change configs of it: bootstrap.servers, and configs of clients by Kafka's names.

    \b
    Examples:
      odradek profile set staging bootstrap.servers=kafka-1:9092,kafka-2:9092
      odradek profile set staging request.timeout.ms=5000 --delete client.id
      odradek profile set secure --file odradek-data.secure/client.properties
    """
    configs = (properties_of(file) if file else {}) | dict(parse_pair(text, "profile set") for text in pairs)
    if not configs and not deleted:
        raise click.UsageError("say what: NAME=VALUE, --file or --delete")
    for key, value in configs.items():
        if key != profile_file.ADDRESS_CONFIG:
            check(key, value, KINDS, "profile set")
    known = profile_file.load()
    profile = known.by_name.setdefault(name, profile_file.Profile(name))
    for key in deleted:
        if profile.configs.pop(key, None) is None:
            raise CliError(f"profile {name!r} has no config {key}; `odradek profile show {name}` prints what it has")
    profile.configs.update(configs)
    known.save()


@command.command("list", short_help="Print the profiles.")
@row_options
def list_() -> None:
    """Print every profile with its address. The current one is marked.

    \b
    Examples:
      odradek profile list
      odradek profile list --json
    """
    known = profile_file.load()
    rows = ((name, profile.address, name == known.current) for name, profile in sorted(known.by_name.items()))
    print_rows(("profile", "bootstrap_servers", "current"), rows)


@command.command(short_help="Print the configs of a profile.")
@click.argument("name", required=False)
@row_options
def show(name: str | None) -> None:
    """Print the configs of the profile NAME, or of the current one. Passwords are not printed.

    \b
    Examples:
      odradek profile show
      odradek profile show staging --json
    """
    known = profile_file.load()
    chosen = known.get(name) if name is not None else known.current_profile
    if chosen is None:
        raise CliError("no profile is current: name one, or choose one with `odradek profile use NAME`")
    pairs = ((key, _HIDDEN if _is_secret(key) else value) for key, value in sorted(chosen.configs.items()))
    print_rows(("profile", "config", "value"), ((chosen.name, *pair) for pair in pairs))


def _is_secret(config: str) -> bool:
    return "password" in config or config.endswith("sasl.jaas.config")


@command.command(short_help="Choose the profile for commands that name none.")
@click.argument("name", required=False)
@click.option("--none", is_flag=True, help="Use no profile.")
def use(name: str | None, none: bool) -> None:
    """Make NAME the profile of every command that names no other.

    \b
    Examples:
      odradek profile use staging
      odradek profile use --none
    """
    if none == (name is not None):
        raise click.UsageError("give a NAME, or --none")
    known = profile_file.load()
    known.current = None if name is None else known.get(name).name
    known.save()


@command.command(short_help="Delete a profile.")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(name: str, yes: bool) -> None:
    """Delete the profile NAME. It asks first; without a terminal it needs --yes.

    \b
    Examples:
      odradek profile delete staging --yes
    """
    known = profile_file.load()
    known.get(name)
    confirm(f"Delete profile {name}?", yes, "nothing was deleted")
    del known.by_name[name]
    if known.current == name:
        known.current = None
    known.save()
