"""Client configs by Kafka's names (`fetch.min.bytes`), as -X and profiles give them, for the clients of Odradek.

The table of options says which client has a config, and what texts it takes. Promise: a name that no client of a
command acts on is rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from .profile_file import value_text
from .values import parse_value

if TYPE_CHECKING:
    from ..client.core.option_table import Option

# Kinds of configs, with the class of the client that has them. Only a "member" of a group has those of groups.
KINDS = {"admin": "Admin", "consumer": "Consumer", "member": "Consumer", "producer": "Producer", "sql": "Consumer"}
# Configs that have an option of their own.
_OPTIONS = {
    "bootstrap.servers": "-b",
    "group.id": "--group",
    "isolation.level": "--isolation",
    "auto.offset.reset": "--offset",
    "compression.type": "--compression",
    "acks": "--acks",
}
# Configs of the clients that would change nothing, with the reason.
_WITHOUT_EFFECT = {
    "allow.auto.create.topics": "commands that read create no topic",
    "max.poll.records": "a command takes as many records at a time as suits its output; --max ends it",
    "transactional.id": "commands send outside of transactions",
    "transaction.timeout.ms": "commands send outside of transactions",
}
_SECURITY = ("security.", "sasl.", "ssl.")


def options_of(kind: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the parameters of a client of that kind (`KINDS`) for the configs that it has; others are left out."""
    from ..client.core.security import security_arguments

    known = _known(kind) | (_known("member") if kind == "consumer" else {})
    own = {known[name].name: _read(known[name], text) for name, text in texts.items() if name in known}
    return own | security_arguments(texts)


def texts_of(kind: str, of_profile: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the configs of that kind, and those of security, as plain texts without units. Those `given` replace
    those of a profile, whatever name each has: a line of JAAS holds a user and a password.
    """
    from ..client.core.option_table import OPTIONS
    from ..client.core.security import TOKEN_FILE, security_arguments

    known = _known(kind)
    texts = {**of_profile, **given}
    own = {name: parse_value(name, text) for name, text in texts.items() if name in known}
    security: dict[str, Any] = {**security_arguments(of_profile), **security_arguments(given)}
    if security.pop("sasl_oauth_token_provider", None) is not None:  # an object, which has no text
        own[TOKEN_FILE] = texts[TOKEN_FILE]
    return own | {OPTIONS[name].config: value_text(value) for name, value in security.items()}


def check(name: str, text: str, kinds: Iterable[str], source: str) -> None:
    """Raise UsageError unless a client of one of `kinds` has a config of that name, and `text` is a value of it.

    The message names `source`, where the config comes from.
    """
    try:
        if name.startswith(_SECURITY):
            _check_security(name, text)
        else:
            _check(name, text, {each: row for kind in kinds for each, row in _known(kind).items()})
    except click.UsageError as error:
        raise click.UsageError(f"{source}: {error.message}") from None


def check_without_group(names: Iterable[str], source: str) -> None:
    """Raise UsageError if one of these configs acts in a group only: the command could be in a group, and is not."""
    for name in names:
        if name in _known("member"):
            raise click.UsageError(f"{source}: {name} would have no effect without --group")


def _check(name: str, text: str, known: Mapping[str, Option]) -> None:
    from ..client.core.option_table import OTHER_NAMES
    from ..client.core.options import nearest

    meant = OTHER_NAMES[name].config if name in OTHER_NAMES else name
    if meant in _OPTIONS:
        raise click.UsageError(f"{name} is the option {_OPTIONS[meant]} of commands")
    if name in _WITHOUT_EFFECT:
        raise click.UsageError(f"{name} would have no effect: {_WITHOUT_EFFECT[name]}")
    if name not in known:
        all_known = f"known are {', '.join(sorted(known))}"
        if any(name in _known(kind) for kind in KINDS):
            raise click.UsageError(f"{name} would have no effect: no client of this command has it; {all_known}")
        raise click.UsageError(f"{name} is no config of this command's client: {nearest(name, known, all_known)}")
    try:
        _read(known[name], text)
    except ValueError:
        needs = str(known[name].values).lower() + (", not empty" if known[name].default is None else "")
        raise click.UsageError(f"{name}={text[:100]}: needs {needs}") from None


def _check_security(name: str, text: str) -> None:
    from ..client.core.options import nearest
    from ..client.core.security import SECURITY_CONFIGS, security_arguments
    from ..client.errors import InvalidOption

    if name not in SECURITY_CONFIGS:
        hint = nearest(name, SECURITY_CONFIGS, f"known are {', '.join(sorted(SECURITY_CONFIGS))}")
        raise click.UsageError(f"{name} is no config of Odradek's clients: {hint}")
    try:
        security_arguments({name: text})
    except InvalidOption as error:
        raise click.UsageError(error.message) from None


def _read(row: Option, text: str) -> Any:
    """Return a config's value. Raises ValueError; UsageError for a unit that the config does not take."""
    from ..client.core.option_values import read_text

    if not text and row.default is None:
        raise ValueError
    return read_text(row.values, parse_value(row.config, text))


@cache
def _known(kind: str) -> dict[str, Option]:
    """Return the configs of that kind that a text can give."""
    from ..client.core.option_table import CONFIGS

    # The reader of SQL is Spark's source, with the options that a consumer has too.
    takers = {"consumer", "source"} if kind == "sql" else {kind}
    return {
        name: row
        for name, row in CONFIGS.items()
        if all(map(row.is_of, takers))
        and row.is_checked
        and name not in _OPTIONS
        and name not in _WITHOUT_EFFECT
        and not name.startswith(_SECURITY)
    }
