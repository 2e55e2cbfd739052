"""What the commands that talk to a broker share: which broker, how to run, and failures as one line each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

from . import CliError

if TYPE_CHECKING:
    from ..client.errors import KafkaError

T = TypeVar("T")

# A command line waits for a person: what takes longer than this is reported, not waited for.
PATIENCE_MS = 20_000

bootstrap_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--bootstrap-server", metavar="HOST:PORT", default="127.0.0.1:9092", show_default=True, help="The broker to ask."
)


def _with_advice(error: KafkaError) -> str:
    """An error with what to do about it, which a broker cannot know."""
    from ..client.errors import ErrorCode

    advice = {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`odradek topics list` names the topics that are there",
        ErrorCode.TOPIC_ALREADY_EXISTS: "--if-not-exists makes that no error, `odradek topics alter` changes a topic",
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "`odradek transactions list` names those that are known",
    }
    return f"{str(error).removesuffix('.')}; {advice[error.code]}" if error.code in advice else str(error)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs the command's coroutine. What a broker or the way to it refuses is a CliError; Ctrl-C is status 130."""
    from ..client.errors import KafkaError, NoBrokerReachable

    try:
        return asyncio.run(main)
    except NoBrokerReachable as error:
        raise CliError(f"{error}; --bootstrap-server names another") from error
    except KafkaError as error:
        raise CliError(_with_advice(error)) from error
    except KeyboardInterrupt:
        raise click.exceptions.Exit(130) from None
