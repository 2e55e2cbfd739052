"""NAME=VALUE on the command line."""

from __future__ import annotations

from collections.abc import Iterable

import click

from .units import parse_value, readable


def parse_pair(text: str, source: str) -> tuple[str, str]:
    """Return name and value. UsageError for any other text; it says that `source`, an option, needs a pair."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise click.UsageError(f"{source} needs NAME=VALUE, got {text!r}")
    return name.strip(), value


def config_pairs(texts: Iterable[str], source: str) -> dict[str, str]:
    """Return configs by name, with units taken off their values. What they mean is then said on standard error.

    UsageError for a text that is no pair, and for a unit that does not fit.
    """
    configs: dict[str, str] = {}
    for text in texts:
        name, given = parse_pair(text, source)
        configs[name] = value = parse_value(name, given)
        if value != given:
            click.echo(f"{name}={value} ({readable(name, value) or given})", err=True)
    return configs
