"""Topics, partitions and groups as arguments: names, which shells complete, wildcards, and TOPIC[:N,...].

A completion is silent and quick: where no broker answers within a second, there are no names. No topic's name can
contain the wildcards `*`, `?` and `[abc]`, nor a colon.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from .errors import CliError

if TYPE_CHECKING:
    from ..client import Admin, TopicPartition

# A person waits with a finger on the key.
_PATIENCE_MS = 1_000
# A shell shows no more with profit.
_MAX_NAMES = 1_000


class _Name(click.types.StringParamType):
    """A name of which the broker knows some."""

    def __init__(self, name: str, known: Callable[[Admin], Awaitable[list[str]]]) -> None:
        self.name = name
        self._known = known

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin with `incomplete`; none where the broker does not answer, whatever the reason."""
        from ..client.errors import KafkaError
        from .connection_options import address_of

        try:
            found = asyncio.run(self._ask(address_of(ctx)))
        except (KafkaError, CliError, TimeoutError, OSError):
            return []  # a message would stand in the middle of the user's line
        return [CompletionItem(name) for name in sorted(found)[:_MAX_NAMES] if name.startswith(incomplete)]

    async def _ask(self, address: str) -> list[str]:
        from ..client import Admin

        admin = Admin(address, client_id="odradek-completion", default_api_timeout_ms=_PATIENCE_MS)
        async with asyncio.timeout(_PATIENCE_MS / 1000), admin:
            return await self._known(admin)


async def _groups(admin: Admin) -> list[str]:
    return [each.group_id for each in await admin.list_groups()]


TOPIC = _Name("topic", lambda admin: admin.list_topics())
GROUP = _Name("group", _groups)


_WILDCARDS = "*?["


def matching(patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the names that patterns stand for, in order, each once. A name without a wildcard stands for itself.

    CliError for a pattern that no name matches.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        if not has_wildcard(pattern):
            found[pattern] = None
            continue
        matches = [name for name in sorted(names) if fnmatchcase(name, pattern)]
        if not matches:
            raise CliError(f"no topic matches {pattern!r}; `odradek topics list` names the topics that are there")
        found.update(dict.fromkeys(matches))
    return list(found)


def has_wildcard(pattern: str) -> bool:
    """Return whether the text is a pattern and no name."""
    return any(char in pattern for char in _WILDCARDS)


def partition_option(help_text: str, *, required: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option. It passes its texts, already checked, as the parameter `topics`."""
    return click.option(
        "--topic",
        "topics",
        metavar="TOPIC[:N,...]",
        type=TOPIC,
        multiple=True,
        required=required,
        callback=check_partitions,
        help=help_text,
    )


async def partitions_of(admin: Admin, topics: tuple[str, ...]) -> list[TopicPartition]:
    """Return the partitions that the texts name, in order. UnknownTopic for a missing topic or partition."""
    from ..client import TopicPartition
    from ..client.errors import UnknownTopic

    wanted = [_parse(text) for text in topics]
    described = await admin.describe_topics(*dict.fromkeys(name for name, _ in wanted))
    partitions: dict[TopicPartition, None] = {}
    for name, numbers in wanted:
        known = sorted(each.partition for each in described[name].partitions)
        for number in known if numbers is None else numbers:
            if number not in known:
                raise UnknownTopic(f"topic {name!r} has no partition {number}")
            partitions[TopicPartition(name, number)] = None
    return list(partitions)


def check_partitions(context: click.Context, parameter: click.Parameter, topics: tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts as they are. BadParameter for one that names no partitions."""
    for text in topics:
        _parse(text)
    return topics


def _parse(text: str) -> tuple[str, list[int] | None]:
    """Return a topic's name, which cannot hold a colon, and the numbers of partitions, or None for all of them."""
    name, colon, numbers = text.partition(":")
    if not colon:
        return name, None
    try:
        return name, [int(number) for number in numbers.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not TOPIC or TOPIC:0,1,...") from None
