"""Client configs by Kafka's names (`fetch.min.bytes`), as -X and profiles give them, for the clients of Odradek.

A client's options are the parameters of its class: `fetch_min_bytes` is `fetch.min.bytes`, and its annotation says what
texts it takes. Promise: a name that no client of a command acts on is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

import click

from .units import parse_value

# Kinds of configs, with the class of the client that has them. Only a "member" of a group has those of groups.
KINDS = {"admin": "Admin", "consumer": "Consumer", "member": "Consumer", "producer": "Producer", "sql": "Consumer"}
_GROUP_CONFIGS = {
    "auto.commit.interval.ms", "enable.auto.commit", "group.instance.id", "heartbeat.interval.ms",
    "max.poll.interval.ms", "session.timeout.ms",
}  # fmt: skip
# Configs that have an option of their own, also by the names of librdkafka.
_OPTIONS = {
    "bootstrap.servers": "-b",
    "metadata.broker.list": "-b",
    "group.id": "--group",
    "isolation.level": "--isolation",
    "auto.offset.reset": "--offset",
    "compression.type": "--compression",
    "compression.codec": "--compression",
    "acks": "--acks",
    "request.required.acks": "--acks",
}
# Configs of the clients' classes that would change nothing, with the reason.
_WITHOUT_EFFECT = {
    "allow.auto.create.topics": "commands that read create no topic",
    "max.poll.records": "a command takes as many records at a time as suits its output; --max ends it",
    "transactional.id": "commands send outside of transactions",
    "transaction.timeout.ms": "commands send outside of transactions",
}
# What librdkafka, and so kcat, calls a config.
_OTHER_NAMES = {
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.max.bytes": "max.request.size",
    "message.timeout.ms": "delivery.timeout.ms",
    "queue.buffering.max.kbytes": "buffer.memory",
    "queue.buffering.max.ms": "linger.ms",
    "socket.timeout.ms": "request.timeout.ms",
}
_SECURITY = ("security.", "sasl.", "ssl.")
_BOOLEANS = {"true": True, "false": False}


def options_of(kind: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the parameters of a client of that kind (`KINDS`) for the configs that it has; others are left out."""
    from ..client.core.security_configs import security_arguments

    known = _parameters(kind) | (_parameters("member") if kind == "consumer" else {})
    own = {known[name].name: known[name].parse(text) for name, text in texts.items() if name in known}
    return own | security_arguments(texts)


def texts_of(kind: str, texts: Mapping[str, str]) -> dict[str, str]:
    """Return the configs of that kind, and those of security, as plain texts without units."""
    known = _parameters(kind)
    own = {name: parse_value(name, text) for name, text in texts.items() if name in known}
    return own | {name: text for name, text in texts.items() if name.startswith(_SECURITY)}


def check(name: str, text: str, kinds: Iterable[str], source: str) -> None:
    """Raise UsageError unless a client of one of `kinds` has a config of that name, and `text` is a value of it.

    The message names `source`, where the config comes from.
    """
    if name in _OPTIONS:
        raise click.UsageError(f"{source}: {name} is the option {_OPTIONS[name]} of commands")
    if name in _WITHOUT_EFFECT:
        raise click.UsageError(f"{source}: {name} would have no effect: {_WITHOUT_EFFECT[name]}")
    if name.startswith(_SECURITY):
        return _check_security(name, text, source)
    known = {each: parameter for kind in kinds for each, parameter in _parameters(kind).items()}
    if name not in known:
        raise click.UsageError(f"{source}: {_why_unknown(name, known)}")
    try:
        known[name].parse(text)
    except (ValueError, KeyError):
        raise click.UsageError(f"{source}: {name}={text[:100]}: needs {known[name].needs}") from None
    except click.UsageError as error:
        raise click.UsageError(f"{source}: {error.message}") from None


def check_without_group(names: Iterable[str], source: str) -> None:
    """Raise UsageError if one of these configs acts in a group only: the command could be in a group, and is not."""
    for name in names:
        if name in _GROUP_CONFIGS:
            raise click.UsageError(f"{source}: {name} would have no effect without --group")


def in_words_of_kafka(message: str) -> str:
    """Return an error's message with the names of configs in the place of those of parameters."""
    return _parameter_names().sub(lambda match: match[0].replace("_", "."), message)


def _why_unknown(name: str, known: Mapping[str, Any]) -> str:
    others = {each for kind in KINDS for each in _parameters(kind)}
    if name in others:
        return f"{name} would have no effect: no client of this command has it; known are {', '.join(sorted(known))}"
    meant = [_OTHER_NAMES[name]] if name in _OTHER_NAMES else get_close_matches(name.replace("_", "."), known, n=1)
    hint = f"did you mean {meant[0]}?" if meant else f"known are {', '.join(sorted(known))}"
    return f"{name} is no config of this command's client: {hint}"


def _check_security(name: str, text: str, source: str) -> None:
    from ..client.core.security_configs import SECURITY_CONFIGS, security_arguments
    from ..client.errors import InvalidOption

    if name not in SECURITY_CONFIGS:
        close = get_close_matches(name, SECURITY_CONFIGS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(SECURITY_CONFIGS))}"
        raise click.UsageError(f"{source}: {name} is no config of Odradek's clients: {hint}")
    try:
        security_arguments({name: text})
    except InvalidOption as error:
        raise click.UsageError(f"{source}: {error.message}") from None


def _name(text: str) -> str:
    if not text:
        raise ValueError
    return text


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


class _Parameter:
    """A parameter of a client's class: its name, and how it reads a text."""

    def __init__(self, name: str, annotation: str) -> None:
        from ..client.core.option_values import MOST_TEXT_BYTES, NUMBERS, fits

        self.name = name
        self._config = name.replace("_", ".")
        self._read = _READERS[annotation]
        self._has: Callable[[Any], bool] = fits
        if annotation == "bool":
            self.needs, self._has = "true or false", _is_bool
        elif annotation in ("int", "float"):
            self.needs, self._has = str(NUMBERS[name]), NUMBERS[name].has
        else:
            self.needs = f"a text of {MOST_TEXT_BYTES} bytes or less" + ("" if annotation == "str" else ", not empty")

    def parse(self, text: str) -> Any:
        """Return the value. Raises ValueError or KeyError; UsageError for a unit that the config does not take."""
        value = self._read(parse_value(self._config, text))
        if not self._has(value):
            raise ValueError
        return value


# By annotation: the function that reads a text, or raises ValueError or KeyError.
_READERS: Mapping[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": lambda text: _BOOLEANS[text.lower()],
    "str": str,
    "str | None": _name,
}


@cache
def _parameters(kind: str) -> dict[str, _Parameter]:
    """Return the parameters of a client's class that a text can give, by Kafka's name: those of that kind."""
    from inspect import Parameter, signature

    from .. import client

    found: dict[str, _Parameter] = {}
    for each in signature(getattr(client, KINDS[kind])).parameters.values():
        name = each.name.replace("_", ".")
        if each.kind is not Parameter.VAR_POSITIONAL and each.annotation in _READERS and _is_of(kind, name):
            found[name] = _Parameter(each.name, each.annotation)
    return found


def _is_of(kind: str, name: str) -> bool:
    if name in _OPTIONS or name in _WITHOUT_EFFECT or (name in _GROUP_CONFIGS) != (kind == "member"):
        return False
    if kind != "sql":
        return True
    from ..client.spark.kafka_settings import reason_for_no_effect

    return reason_for_no_effect(name) is None


@cache
def _parameter_names() -> re.Pattern[str]:
    from inspect import signature

    from .. import client
    from ..client.core.security_options import SecurityOptions

    classes = *(getattr(client, name) for name in set(KINDS.values())), SecurityOptions
    names = {name for each in classes for name in signature(each).parameters if "_" in name}
    return re.compile(rf"\b({'|'.join(sorted(names))})\b")
