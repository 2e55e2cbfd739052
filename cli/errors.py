"""How a command ends: with an error of one line, or because standard output fails. Closed streams are replaced."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from io import TextIOWrapper
from select import select
from typing import IO, Any, Literal

import click


class CliError(click.ClickException):
    """A failure that the user can do something about: one line on standard error and status 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo("odradek: " + " ".join(self.message.split()), file=file, err=True)


@contextmanager
def as_cli_error(*kinds: type[Exception]) -> Generator[None]:
    """Make a CliError of an error of these kinds; that of Kafka is told without its code."""
    try:
        yield
    except kinds as error:
        raise CliError(getattr(error, "message", "") or str(error)) from error


# A shell reports a command that SIGPIPE ended with this status; a reader like `head` causes no message.
_SIGPIPE_STATUS = 141


def escape_unknown_characters() -> None:
    """Have standard output write what its encoding lacks as an escape, as standard error does."""
    # A test's stream has no such method.
    reconfigure: Callable[..., None] | None = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None and sys.stdout.errors == "strict":
        reconfigure(errors="backslashreplace")


def open_closed_streams() -> None:
    """Fill the descriptors 0 to 2 where the caller closed them. Otherwise a socket or a file would get their numbers.

    Reading or writing a stream that was closed fails with EBADF, as in other programs; errors to it are dropped.
    """
    if sys.stdin is None:
        sys.stdin = _open(0, os.O_WRONLY, "r")
    if sys.stdout is None:
        sys.stdout = _open(1, os.O_RDONLY, "w")
    if sys.stderr is None:
        sys.stderr = _open(2, os.O_WRONLY, "w")


def _open(fd: int, flags: int, mode: Literal["r", "w"]) -> TextIOWrapper:
    opened = os.open(os.devnull, flags)
    if opened != fd:
        os.dup2(opened, fd)
        os.close(opened)
    return open(fd, mode, closefd=False)


def flush_output() -> None:
    """Write what is buffered for standard output. Raises OSError."""
    if sys.stdout is not None:
        sys.stdout.flush()


def output_failure(error: OSError) -> click.ClickException | click.exceptions.Exit:
    """Return the end of a command that a failed system call stopped. No more output is written."""
    discard_output()
    if isinstance(error, BrokenPipeError):
        return click.exceptions.Exit(_SIGPIPE_STATUS)
    what = error.filename if error.filename is not None else "cannot write to standard output"
    return CliError(f"{what}: {error.strerror or error}")


def cannot_listen(host: str, port: int, error: OSError) -> CliError:
    """Return the end of a server whose address is not free. asyncio's text has Python's form of an address."""
    # The numbers of name resolution are negative, and only their own texts say what they mean.
    number = error.errno or 0
    what = os.strerror(number) if number > 0 else error.strerror or str(error)
    return CliError(
        f"cannot listen on {host}:{port}: {what.lower()} (choose another --listen; port 0 takes a free one)"
    )


def discard_output(*, if_blocked: bool = False) -> None:
    """Send standard output to nowhere, so that the interpreter does not try to write the buffered rest at its end.

    With `if_blocked` only where its reader takes nothing now: the interpreter would wait for the reader.
    """
    try:
        fd = sys.stdout.fileno()
    except (OSError, ValueError):
        return  # not a real file: a test captures it
    if if_blocked and select([], [fd], [], 0)[1]:
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, fd)
    os.close(null)
