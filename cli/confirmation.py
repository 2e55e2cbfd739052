"""Commands that delete things: the question before they begin, and the report when some of them fail."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import click

from .errors import CliError

if TYPE_CHECKING:
    from ..client.errors import KafkaError

# Where several names were given, the status is this and the number of those that failed. 1 and 2 mean something else.
_SEVERAL_FAILED = 10
# A status above this means something else to a shell.
_MAX_STATUS = 100


def confirm(question: str, yes: bool, otherwise: str) -> None:
    """Ask on a terminal, unless `--yes` was given. CliError with the text `otherwise` if the user says no.

    Without a terminal nobody can be asked: CliError unless `--yes` was given.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise CliError(f"{otherwise}: standard input is no terminal to ask on; --yes does it without asking")
    if not click.confirm(question, err=True):
        raise CliError(otherwise)


def deletion_question(noun: str, names: Sequence[str], contents: str) -> str:
    """Return the question whether to delete things of that kind with all that is in them."""
    plural = len(names) > 1
    return f"Delete {noun}{'s' * plural} {', '.join(names)} and all {'their' if plural else 'its'} {contents}?"


async def for_each(
    names: Sequence[str], work: Callable[[str], Awaitable[None]], advice: Callable[[KafkaError], str]
) -> None:
    """Do `work` for every name, and report each failure on its own line.

    The exit status is 1 where the only name failed, and 10 and the number of failures where there are several names.
    """
    from ..client.errors import KafkaError, NoBrokerReachable

    failures = 0
    for name in names:
        try:
            await work(name)
        except NoBrokerReachable:
            raise
        except KafkaError as error:
            failures += 1
            CliError(advice(error)).show()
    if failures and len(names) > 1:
        click.echo(f"odradek: {failures} of {len(names)} failed", err=True)
        raise click.exceptions.Exit(min(_SEVERAL_FAILED + failures, _MAX_STATUS))
    if failures:
        raise click.exceptions.Exit(1)
