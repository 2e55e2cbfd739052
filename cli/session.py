"""How a command talks to a broker: its clients with their options, and each failure as one line."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import closing, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .broker_address import nothing_listens
from .connection_options import chosen_configs, connection_options
from .errors import CliError
from .notices import retry_notice

if TYPE_CHECKING:
    from ..client import Admin
    from ..client.errors import KafkaError, NoBrokerReachable

T = TypeVar("T")

# A person waits for a command: it reports what takes longer than this.
PATIENCE_MS = 20_000
_CLIENT_ID = "odradek-cli"
# The options of each kind of client in every command.
_USUAL: dict[str, dict[str, Any]] = {
    "admin": {"client_id": _CLIENT_ID, "default_api_timeout_ms": PATIENCE_MS},
    "consumer": {"client_id": _CLIENT_ID, "default_api_timeout_ms": PATIENCE_MS, "allow_auto_create_topics": False},
    "producer": {"client_id": _CLIENT_ID, "max_block_ms": PATIENCE_MS},
}


def bootstrap_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command whose only client is an Admin -b, --profile and -X. `with_admin` acts on them."""

    @wraps(function)
    def command(bootstrap_server: str, **given: Any) -> Any:
        return function(**given)

    return connection_options("admin")(command)


def chosen_address() -> str:
    """Return the address of -b, or of what stands for it."""
    return click.get_current_context().params["bootstrap_server"]


def client_options(kind: str, **needed: Any) -> dict[str, Any]:
    """Return the options of a client ("admin", "consumer", "producer"): those that the command needs, replaced by those
    of the profile and of -X.
    """
    context = click.get_current_context(silent=True)
    needed = _USUAL[kind] | needed
    of_profile, given = ({}, {}) if context is None else chosen_configs(context)
    if not of_profile and not given:
        return needed
    from .client_configs import options_of

    # As options: a password has several names, and a line of JAAS holds it, too.
    return needed | options_of(kind, of_profile) | options_of(kind, given)


def with_admin(work: Callable[[Admin], Awaitable[T]]) -> T:
    """Run `work` with an admin client of the chosen broker and return its result. Errors are those of `run`."""

    async def main() -> T:
        async with open_admin(chosen_address()) as admin:
            return await work(admin)

    return run(main())


def open_admin(bootstrap_server: str) -> Admin:
    """Return an admin client that is not started yet: use it with `async with`."""
    from ..client import Admin

    return Admin(bootstrap_server, **client_options("admin"))


def _run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as asyncio.run does, and hold Ctrl-C back until asyncio handles it.

    A loop that Ctrl-C leaves half made prints a traceback of its own when it is collected.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return asyncio.run(_interruptible(main))
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


async def _interruptible(main: Coroutine[Any, Any, T]) -> T:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    return await main


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine and return its result.

    An error of the broker, or of the way to it, becomes a CliError. Ctrl-C ends the command with status 130.
    """
    with closing(main):  # Ctrl-C may come before it begins
        try:
            with failures_in_one_line(), retry_notice():
                return _run(main)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(130) from None


@contextmanager
def failures_in_one_line() -> Generator[None]:
    """Make a CliError of an error of the broker, or of the way to it."""
    from ..client.errors import KafkaError, NoBrokerReachable

    try:
        yield
    except NoBrokerReachable as error:
        raise _unreachable(error) from error
    except KafkaError as error:
        raise CliError(with_advice(error)) from error


def _unreachable(error: NoBrokerReachable) -> CliError:
    """Return the error of a command that found no broker: to start one helps only where nobody listens."""
    from ..client.core.options import in_words_of_kafka

    return CliError(in_words_of_kafka(error.message) if error.listens else nothing_listens(error.tried))


def with_advice(error: KafkaError) -> str:
    """Return an error's text with what the user can do about it, which a broker cannot know."""
    from ..client.core.options import in_words_of_kafka
    from ..client.errors import (
        AuthenticationFailed,
        DeliveryFailed,
        ErrorCode,
        InvalidOption,
        RecordTooLarge,
        RequestTimedOut,
    )

    if isinstance(error, AuthenticationFailed | InvalidOption):
        return in_words_of_kafka(error.message)
    # Their messages say all: Kafka's name for the error would add nothing.
    plain = {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_PARTITIONS}
    advice = {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`odradek topics list` has all topics with their partitions",
        ErrorCode.TOPIC_ALREADY_EXISTS: "--if-not-exists makes that no error, `odradek topics alter` changes a topic",
        ErrorCode.OFFSET_OUT_OF_RANGE: "`odradek topics describe` prints where each partition begins and ends",
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "`odradek transactions list` names those that are known",
    }
    text = error.message.removesuffix(".")
    if isinstance(error, DeliveryFailed | RecordTooLarge | RequestTimedOut):
        text = in_words_of_kafka(text)
    if error.code in advice:
        return f"{text}; {advice[error.code]}"
    return text if error.code in plain else f"{text} ({error.code.name})"
