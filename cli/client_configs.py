"""Client configs by Kafka's names (`fetch.min.bytes`), as -X and profiles give them, for the clients of Odradek.

A client's options are the parameters of its class: `fetch_min_bytes` is `fetch.min.bytes`, and its annotation says what
texts it takes. Promise: a name that no client of a command acts on is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

import click

KINDS = {"admin": "Admin", "consumer": "Consumer", "producer": "Producer"}
# Configs that have an option or a command of their own.
_OPTIONS = {
    "bootstrap.servers": "-b",
    "group.id": "--group",
    "isolation.level": "--isolation",
    "auto.offset.reset": "--offset",
    "compression.type": "--compression",
    "acks": "--acks",
}
_SECURITY = ("security.", "sasl.", "ssl.")
_BOOLEANS = {"true": True, "false": False}


def options_of(kind: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the parameters of a client of that kind (`KINDS`) for the configs that it has; others are left out."""
    from ..client.network.security_configs import security_arguments

    known = _parameters(kind)
    own = {known[name].name: known[name].parse(text) for name, text in texts.items() if name in known}
    return own | security_arguments(texts)


def check(name: str, text: str, kinds: Iterable[str], source: str) -> None:
    """Raise UsageError unless a client of one of `kinds` has a config of that name, and `text` is a value of it.

    The message names `source`, where the config comes from.
    """
    if name in _OPTIONS:
        raise click.UsageError(f"{source}: {name} is the option {_OPTIONS[name]} of commands")
    if name.startswith(_SECURITY):
        return _check_security(name, text, source)
    known = {each: parameter for kind in kinds for each, parameter in _parameters(kind).items()}
    if name not in known:
        close = get_close_matches(name.replace("_", "."), known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(known))}"
        raise click.UsageError(f"{source}: {name} is no config of this command's client: {hint}")
    try:
        known[name].parse(text)
    except (ValueError, KeyError):
        raise click.UsageError(f"{source}: {name}={text}: needs {known[name].needs}") from None


def _check_security(name: str, text: str, source: str) -> None:
    from ..client.errors import InvalidOption
    from ..client.network.security_configs import SECURITY_CONFIGS, security_arguments

    if name not in SECURITY_CONFIGS:
        close = get_close_matches(name, SECURITY_CONFIGS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(SECURITY_CONFIGS))}"
        raise click.UsageError(f"{source}: {name} is no config of Odradek's clients: {hint}")
    try:
        security_arguments({name: text})
    except InvalidOption as error:
        raise click.UsageError(f"{source}: {error.message}") from None


class _Parameter:
    """A parameter of a client's class: its name, and how it reads a text."""

    def __init__(self, name: str, annotation: str) -> None:
        self.name = name
        self.needs, self.parse = _TYPES[annotation]


# By annotation: what a user is told, and the function that reads a text, or raises ValueError or KeyError.
_TYPES: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "int": ("a whole number", int),
    "float": ("a number", float),
    "bool": ("true or false", lambda text: _BOOLEANS[text.lower()]),
    "str": ("a text", str),
    "str | None": ("a text", str),
}


@cache
def _parameters(kind: str) -> dict[str, _Parameter]:
    """Return the parameters of a client's class that a text can give, by Kafka's name."""
    from inspect import signature

    from .. import client

    found: dict[str, _Parameter] = {}
    for each in signature(getattr(client, KINDS[kind])).parameters.values():
        name = each.name.replace("_", ".")
        if each.annotation in _TYPES and name not in _OPTIONS:
            found[name] = _Parameter(each.name, each.annotation)
    return found
