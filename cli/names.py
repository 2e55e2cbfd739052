"""The names of topics and groups as arguments, which shells complete.

A completion is silent and quick: where no broker answers within a second, there are no names.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from ..client import Admin

# A person waits with a finger on the key.
_PATIENCE_MS = 1_000
# A shell shows no more with profit.
_MAX_NAMES = 1_000


class TopicName(click.types.StringParamType):
    """The name of a topic."""

    name = "topic"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        async def topics(admin: Admin) -> list[str]:
            return await admin.list_topics()

        return _complete(ctx, topics, incomplete)


class GroupName(click.types.StringParamType):
    """The id of a consumer group."""

    name = "group"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        async def groups(admin: Admin) -> list[str]:
            return [each.group_id for each in await admin.list_groups()]

        return _complete(ctx, groups, incomplete)


TOPIC = TopicName()
GROUP = GroupName()


def _complete(context: click.Context, names: Any, incomplete: str) -> list[CompletionItem]:
    """Return the names that begin with `incomplete`; none where the broker does not answer, whatever the reason."""
    from ..client import Admin
    from ..client.errors import KafkaError
    from .connection_options import address_of
    from .errors import CliError

    async def ask(address: str) -> list[str]:
        admin = Admin(address, client_id="odradek-completion", default_api_timeout_ms=_PATIENCE_MS)
        async with asyncio.timeout(_PATIENCE_MS / 1000), admin:
            return await names(admin)

    try:
        found = asyncio.run(ask(address_of(context)))
    except (KafkaError, CliError, TimeoutError, OSError):
        return []  # a message would stand in the middle of the user's line
    return [CompletionItem(name) for name in sorted(found)[:_MAX_NAMES] if name.startswith(incomplete)]
