"""The error that ends a command."""

from __future__ import annotations

from typing import IO, Any

import click


class CliError(click.ClickException):
    """A failure that the user can do something about: one line on standard error and status 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo("odradek: " + " ".join(self.message.split()), file=file, err=True)
