"""The command line: the table of commands, and the click group that loads the module of each on use.

`serve` must be listening in a fraction of a second, so this module imports only click: no asyncio, no rich, no client.
Every failure that a user can do something about is a CliError: one line on standard error and status 1. Wrong usage is
status 2.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from .. import __version__
from .errors import (
    discard_output,
    escape_unknown_characters,
    flush_output,
    open_closed_streams,
    output_failure,
)

# Command -> its line in `odradek --help`. The module of that name holds a click command named `command`.
COMMANDS = {
    "serve": "Run a broker.",
    "registry": "Run a schema registry.",
    "console": "Serve a web page over a Kafka.",
    "topics": "Create, list, describe, alter and delete topics.",
    "config": "Look at configs and change them while the broker runs.",
    "produce": "Send lines from standard input as records.",
    "consume": "Print a topic's records.",
    "sql": "Query topics with SQL.",
    "archive": "Keep topics as tables of Apache Iceberg, each record once.",
    "schemas": "List, show, check, register and delete schemas of a registry.",
    "groups": "Look at groups, reset their offsets, delete them.",
    "users": "Set, list and delete the passwords by which clients log in.",
    "transactions": "Look at transactions, abort those that hang.",
    "acls": "List, add and remove ACLs, and explain which of them decides.",
    "quotas": "List, set and delete how much of a broker clients may use.",
    "certs": "Make certificates for TLS, and look at those of a file or a listener.",
    "ping": "Ask a broker whether it answers.",
    "cluster": "Run and look at a cluster, and move its leaders and replicas.",
    "doctor": "Look for what is wrong with this machine, a config or a broker, and say what to do.",
    "profile": "Keep addresses and client configs of clusters under a name.",
    "completion": "Print what makes a shell complete commands, topics and groups.",
    "man": "Print the manual page.",
    "perf": "Measure how fast records go in and out, and their latency.",
    "backup": "Copy the data of a broker, running or stopped.",
    "restore": "Make data directories from a backup.",
    "log": "Look into the files of a data directory, offline; verify, repair, import.",
}

# Commands of the module of another one, where each has its own name.
_SHARED = {"restore": "backup", "man": "manual", "completion": "manual"}


@contextmanager
def _ends_in_one_line() -> Generator[None]:
    """Ctrl-C at any moment is status 130, output that fails is one line, and wrong usage says what to type."""
    try:
        yield
    except (KeyboardInterrupt, click.Abort):
        discard_output(if_blocked=True)
        raise click.exceptions.Exit(130) from None
    except click.NoSuchOption as error:
        from .usage_errors import explained

        raise explained(error) from None
    except click.MissingParameter:
        raise
    except click.BadParameter as error:
        from .usage_errors import plain

        raise plain(error) from None
    except OSError as error:
        raise output_failure(error) from error


class _Lazy(click.Group):
    """A group whose commands are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            from .usage_errors import check_command

            check_command(cmd_name, COMMANDS, ctx)
            return None
        module = import_module("." + _SHARED.get(cmd_name, cmd_name), __package__)
        command: click.Command = getattr(module, cmd_name if cmd_name in _SHARED else "command")
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the options of `odradek` itself. `--help` and `--version` print here, before `invoke`."""
        open_closed_streams()
        escape_unknown_characters()
        with _ends_in_one_line():
            context = super().make_context(info_name, args, parent, **extra)
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            context.color = False
        return context

    def invoke(self, ctx: click.Context) -> Any:
        with _ends_in_one_line():
            result = super().invoke(ctx)
            flush_output()
        return result

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="odradek")
def main() -> None:
    """A Kafka broker that is one pip install away, and the tools to talk to it.

    \b
    Examples:
      odradek serve
      odradek topics create flights --partitions 6
      seq 1000 | odradek produce numbers
      odradek consume numbers --max 10
      odradek log dump odradek-data/numbers-0/00000000000000000000.log --records
    """
