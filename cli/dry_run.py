"""`--dry-run` of commands that change something: they print what they would do, and change nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from .output import Rows
from .session import with_admin

if TYPE_CHECKING:
    from ..client import Admin, TopicPartition

dry_run_option: Callable[[Any], Any] = click.option("--dry-run", is_flag=True, help="Only print what would be done.")
# Where the broker itself checks whether it could be done.
validate_option: Callable[[Any], Any] = click.option(
    "--dry-run", "--validate-only", "validate_only", is_flag=True, help="Only check whether it could be done."
)


def show_places(places: Mapping[TopicPartition, Any], column: str, as_json: bool = False) -> None:
    """Print partitions with what would become of each."""
    with Rows(("topic", "partition", column), as_json) as rows:
        for (topic, partition), value in sorted(places.items()):
            rows.add({"topic": topic, "partition": partition, column: value})


def show_topics(bootstrap_server: str, topics: Sequence[str], *, if_exists: bool) -> None:
    """Print the topics that would be deleted, with their partitions. UnknownTopic for one that is not there."""

    async def work(admin: Admin) -> dict[str, int]:
        known = await admin.list_topics() if if_exists else topics
        wanted = [each for each in topics if each in known]
        # Without names all topics would be described.
        described = await admin.describe_topics(*wanted) if wanted else {}
        return {name: len(found.partitions) for name, found in described.items()}

    with Rows(("topic", "partitions"), False) as rows:
        for topic, partitions in with_admin(bootstrap_server, work).items():
            rows.add({"topic": topic, "partitions": partitions})


def show_groups(bootstrap_server: str, groups: Sequence[str], count: Callable[[Admin, str], Awaitable[int]]) -> None:
    """Print the groups that would be deleted, with their state and how many offsets each has committed."""

    async def work(admin: Admin) -> list[dict[str, Any]]:
        described = await admin.describe_groups(*groups)
        return [
            {"group": name, "state": group.state, "offsets": await count(admin, name)}
            for name, group in described.items()
        ]

    with Rows(("group", "state", "offsets"), False) as rows:
        for row in with_admin(bootstrap_server, work):
            rows.add(row)
