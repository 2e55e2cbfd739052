"""Commands that delete or change things: the question before they begin, `--dry-run`, and the report of failures."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from .errors import CliError
from .group_kinds import offsets_of
from .output import print_rows
from .session import with_admin

if TYPE_CHECKING:
    from ..client import Admin, TopicPartition
    from ..client.errors import KafkaError

# Where several names were given, the status is this and the number of those that failed. 1 and 2 mean something else.
_SEVERAL_FAILED = 10
# A status above this means something else to a shell.
_MAX_STATUS = 100


def confirm(question: str, yes: bool, otherwise: str) -> None:
    """Ask on a terminal, unless `--yes` was given. CliError with the text `otherwise` if the user says no, or nothing.

    Without a terminal nobody can be asked: CliError unless `--yes` was given.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise CliError(f"{otherwise}: standard input is no terminal to ask on; --yes does it without asking")
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort as end:
        if not isinstance(end.__context__, EOFError):
            raise
        agreed = False
        click.echo(err=True)  # no line was typed: the cursor is still behind the question
    if not agreed:
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


dry_run_option: Callable[[Any], Any] = click.option("--dry-run", is_flag=True, help="Only print what would be done.")
# Where the broker itself checks whether it could be done.
validate_option: Callable[[Any], Any] = click.option(
    "--dry-run", "--validate-only", "validate_only", is_flag=True, help="Only check whether it could be done."
)


def show_places(places: Mapping[TopicPartition, Any], column: str) -> None:
    """Print partitions with what would become of each."""
    print_rows(("topic", "partition", column), ((*place, value) for place, value in sorted(places.items())))


def show_topics(topics: Sequence[str], *, if_exists: bool) -> None:
    """Print the topics that would be deleted, with their partitions. UnknownTopic for one that is not there."""

    async def work(admin: Admin) -> dict[str, int]:
        known = await admin.list_topics() if if_exists else topics
        wanted = [each for each in topics if each in known]
        # Without names all topics would be described.
        described = await admin.describe_topics(*wanted) if wanted else {}
        return {name: len(found.partitions) for name, found in described.items()}

    print_rows(("topic", "partitions"), with_admin(work).items())


def show_groups(groups: Sequence[str]) -> None:
    """Print the groups that would be deleted, with their state and how many offsets each has committed."""

    async def work(admin: Admin) -> list[tuple[str, str, int]]:
        described = await admin.describe_groups(*groups)
        return [(name, group.state, len(await offsets_of(admin, name))) for name, group in described.items()]

    print_rows(("group", "state", "offsets"), with_admin(work))
