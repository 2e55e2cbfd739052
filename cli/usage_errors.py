"""Wrong usage: what an option takes, and hints for people who know kcat, rpk or Kafka's scripts.

Options that mean the same as there are taken as they are (docs/cli.md). The hints are for the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

import click

# Command -> the one that does it here. That of a misspelt one is the nearest.
_COMMANDS = {
    "list": "topics list",
    "create": "topics create",
    "describe": "topics describe",
    "delete": "topics delete",
    "metadata": "cluster info",
    "version": "--version",
    "help": "--help",
}
_TOPIC = "The topic is an argument: `odradek {} TOPIC`."
_SCRIPT = "`odradek {}` does that."
# Command -> option -> what to do.
_OPTIONS: dict[str, dict[str, str]] = {
    "": {
        "-L": "`odradek topics list` and `odradek cluster info` do that.",
        "-C": _SCRIPT.format("consume TOPIC"),
        "-P": _SCRIPT.format("produce TOPIC"),
        "-G": _SCRIPT.format("consume TOPIC --group GROUP"),
        "-b": "Options follow the command: `odradek topics list -b HOST:PORT`.",
        "-X": "Options follow the command: `odradek consume TOPIC -X NAME=VALUE`.",
    },
    "topics": {
        f"--{verb}": _SCRIPT.format(f"topics {verb}") for verb in ("list", "create", "describe", "alter", "delete")
    },
    "groups": {
        f"--{verb}": _SCRIPT.format(f"groups {verb}") for verb in ("list", "describe", "reset-offsets", "delete")
    },
    "consume": {
        "-t": _TOPIC.format("consume"),
        "--topic": _TOPIC.format("consume"),
        "--from-beginning": "That is where it begins; --offset end waits for new records.",
        "-u": "Records are printed as they come.",
        "-q": "Nothing but records is printed.",
        "-D": "--format '%vTEXT' prints TEXT behind each record.",
        "-s": "--format has %v{hex}, %v{base64} and %v{json}.",
    },
    "produce": {
        "-t": _TOPIC.format("produce"),
        "--topic": _TOPIC.format("produce"),
        "-D": "Each line is a record; --file sends a whole file as one.",
        "-l": "Each line of standard input is a record: `odradek produce TOPIC < FILE`.",
        "-Z": "--tombstones sends keys without a value, --null TEXT makes a null of TEXT.",
    },
}


def check_command(name: str, known: Iterable[str], context: click.Context) -> None:
    """Raise UsageError for a command that has another name here, or nearly that of a known one."""
    meant = _COMMANDS.get(name) or next(iter(get_close_matches(name, known, 1)), None)
    if meant is not None:
        raise click.UsageError(f"No such command {name!r}. Did you mean `odradek {meant}`?", context)


def explained(error: click.NoSuchOption) -> click.UsageError:
    """Return the error of an unknown option, with what to do where that is known."""
    path = "" if error.ctx is None else error.ctx.command_path.partition(" ")[2]
    remedy = _OPTIONS.get(path, {}).get(error.option_name)
    return error if remedy is None else click.UsageError(f"No such option {error.option_name!r}. {remedy}", error.ctx)


def plain(error: click.BadParameter) -> click.UsageError:
    """Return the error of a bad value: it names the option, and says what is wrong or what the option takes."""
    from .values import NotTaken

    hint = error.param_hint or (error.param.opts[-1] if isinstance(error.param, click.Option) else None)
    if hint is None and error.param is not None:
        hint = error.param.make_metavar(error.ctx) if error.ctx is not None else error.param.name
    colon = "" if isinstance(error, NotTaken) else ":"
    return click.UsageError(f"{hint}{colon} {error.message}", error.ctx)
