"""Commands of the command line, run in the test's own process against a broker in a thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from click.testing import CliRunner, Result
from odradek.broker import Broker, BrokerConfig
from odradek.cli import main


def run(*args: str | Path, stdin: bytes | None = None) -> Result:
    """Run a command; its exceptions are the test's, except those that end a command."""
    result = CliRunner().invoke(main, [str(arg) for arg in args], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def rows(*args: str | Path) -> list[list[str]]:
    """Run a command that must succeed; return its output as cells."""
    result = run(*args)
    assert result.exit_code == 0, result.output
    return [line.split("\t") for line in result.stdout.splitlines()]


@contextmanager
def threaded_broker(folder: Path, **configs: object) -> Iterator[Broker]:
    """A broker in a thread of its own, on a free port."""
    config = BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=(str(folder),), **configs)  # type: ignore[arg-type]
    with Broker(config) as broker:
        yield broker
