"""How a command talks to a broker: the option for its address, an admin client, and each failure as one line."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .errors import CliError

if TYPE_CHECKING:
    from ..client import Admin
    from ..client.errors import KafkaError

T = TypeVar("T")

# A person waits for a command: it reports what takes longer than this.
PATIENCE_MS = 20_000
CLIENT_ID = "odradek-cli"

bootstrap_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "-b",
    "--bootstrap-server",
    metavar="HOST:PORT",
    envvar="ODRADEK_BOOTSTRAP_SERVER",
    default="127.0.0.1:9092",
    show_default=True,
    show_envvar=True,
    help="The broker to connect to.",
)


def with_admin(bootstrap_server: str, work: Callable[[Admin], Awaitable[T]]) -> T:
    """Run `work` with an admin client of that broker and return its result. Errors are those of `run`."""

    async def main() -> T:
        async with open_admin(bootstrap_server) as admin:
            return await work(admin)

    return run(main())


def open_admin(bootstrap_server: str) -> Admin:
    """Return an admin client that is not started yet: use it with `async with`."""
    from ..client import Admin

    return Admin(bootstrap_server, client_id=CLIENT_ID, default_api_timeout_ms=PATIENCE_MS)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine and return its result.

    An error of the broker, or of the way to it, becomes a CliError. Ctrl-C ends the command with status 130.
    """
    from ..client.errors import KafkaError, NoBrokerReachable

    try:
        return asyncio.run(main)
    except NoBrokerReachable as error:
        raise CliError(
            f'{error}; start one with "odradek serve", or name another with -b (--bootstrap-server)'
        ) from error
    except KafkaError as error:
        raise CliError(with_advice(error)) from error
    except KeyboardInterrupt:
        raise click.exceptions.Exit(130) from None


def with_advice(error: KafkaError) -> str:
    """Return an error's text with what the user can do about it, which a broker cannot know."""
    from ..client.errors import ErrorCode

    advice = {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`odradek topics list` names the topics that are there",
        ErrorCode.TOPIC_ALREADY_EXISTS: "--if-not-exists makes that no error, `odradek topics alter` changes a topic",
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "`odradek transactions list` names those that are known",
    }
    return f"{str(error).removesuffix('.')}; {advice[error.code]}" if error.code in advice else str(error)
