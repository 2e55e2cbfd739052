"""NAME=VALUE on the command line."""

from __future__ import annotations

import click


def parse_pair(text: str, source: str) -> tuple[str, str]:
    """Return name and value. UsageError for any other text; it says that `source`, an option, needs a pair."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise click.UsageError(f"{source} needs NAME=VALUE, got {text!r}")
    return name.strip(), value
