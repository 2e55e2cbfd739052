"""The error that ends a command, and the one that every command has in common."""

from __future__ import annotations

from typing import IO, Any

import click


class CliError(click.ClickException):
    """A failure that the user can do something about: one line on standard error and status 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo("odradek: " + " ".join(self.message.split()), file=file, err=True)


def nothing_listens(tried: str) -> CliError:
    """Return the error of an address where no broker listens: `tried` has it with the reason."""
    return CliError(f'cannot reach {tried}. Start a broker with "odradek serve", or pass -b.')
