"""The question that a command asks on a terminal before it deletes something."""

from __future__ import annotations

import sys

import click

from .errors import CliError


def confirm(question: str, yes: bool, otherwise: str) -> None:
    """Ask on a terminal, unless `--yes` was given. CliError with the text `otherwise` if the user says no."""
    if not yes and sys.stdin.isatty() and not click.confirm(question, err=True):
        raise CliError(otherwise)
