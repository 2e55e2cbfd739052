"""The options by which a command finds its broker: -b, --profile and -X, with the configs of the client behind them.

The address is that of -b; then of --profile; then of ODRADEK_BOOTSTRAP_SERVER; then of the profile in ODRADEK_PROFILE,
or of the current one (`odradek profile use`); then 127.0.0.1:9092. Client configs have Kafka's names; -X replaces those
of the profile.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import click

from . import profile_file
from .broker_address import ADDRESS_VARIABLE, DEFAULT_ADDRESS, BadAddress, split_addresses

PROFILE_VARIABLE = "ODRADEK_PROFILE"

# Where the choices are kept in a click context.
_PROFILE, _CONFIGS = "odradek.profile", "odradek.client_configs"

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def connection_options(*clients: str) -> Decorator:
    """Return a decorator that gives a command -b, --profile and -X. -b arrives as the parameter `bootstrap_server`.

    `clients` are the kinds of configs that the command acts on (`client_configs.KINDS`). -X takes those; without any
    the command has no -X.
    """

    return partial(with_options, (_PROFILE_OPTION, *([_configs(clients)] if clients else []), _ADDRESS_OPTION))


def with_options(options: Sequence[Decorator], function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command options, which its help shows in this order."""
    return reduce(lambda wrapped, option: option(wrapped), reversed(options), function)


def chosen_configs(context: click.Context) -> tuple[dict[str, str], dict[str, str]]:
    """Return the client configs of the chosen profile, and those of -X. UsageError for what no client acts on."""
    given: dict[str, str] = context.meta.get(_CONFIGS, {})
    profile = _chosen_profile(context)
    if profile is None or not profile.client_configs:
        return {}, given
    from .client_configs import KINDS, check

    for name, value in profile.client_configs.items():
        check(name, value, KINDS, f"profile {profile.name!r}")
    return profile.client_configs, given


def reading_texts(bootstrap_server: str, path: str, client_id: str) -> dict[str, str]:
    """Return the options of a reader of topics as Arrow columns, with the client configs of the command that runs."""
    from .client_configs import texts_of

    of_profile, given = chosen_configs(click.get_current_context())
    configs = {f"kafka.{name}": value for name, value in texts_of("sql", of_profile, given).items()}
    return {"kafka.bootstrap.servers": bootstrap_server, "kafka.client.id": client_id, "path": path, **configs}


def note_configs(context: click.Context, configs: dict[str, str]) -> None:
    """Have a command use these client configs, as if -X had given them."""
    context.meta[_CONFIGS] = configs


def address_of(context: click.Context) -> str:
    """Return the address of the broker while a shell completes a line, whose options may not all be there yet."""
    return context.params.get("bootstrap_server") or _resolve(context)


def _configs(clients: tuple[str, ...]) -> Decorator:
    def note(context: click.Context, _: click.Parameter, texts: tuple[str, ...]) -> None:
        from .values import parse_pair

        if not texts:
            return
        from .client_configs import check

        pairs = dict(parse_pair(text, "-X") for text in texts)
        for name, value in pairs.items():
            check(name, value, clients, "-X")
        note_configs(context, pairs)

    return click.option(
        "-X",
        "client_configs",
        metavar="NAME=VALUE",
        multiple=True,
        is_eager=True,
        expose_value=False,
        callback=note,
        help="A config of the client, by Kafka's name; repeatable.",
    )


def _note_profile(context: click.Context, _: click.Parameter, name: str | None) -> None:
    if name is not None:
        context.meta[_PROFILE] = profile_file.load().get(name)


def _chosen_profile(context: click.Context) -> profile_file.Profile | None:
    """Return the profile of --profile, of ODRADEK_PROFILE, or the current one; None if there is none."""
    if _PROFILE in context.meta:
        return context.meta[_PROFILE]
    name = os.environ.get(PROFILE_VARIABLE)
    known = profile_file.load()
    return known.get(name) if name else known.current_profile


def _resolve_address(context: click.Context, _: click.Parameter, given: str | None) -> str:
    found = _resolve(context) if given is None else given
    try:
        split_addresses(found)
    except BadAddress as error:
        raise click.UsageError(str(error), context) from None
    return found


def _resolve(context: click.Context) -> str:
    variable = os.environ.get(ADDRESS_VARIABLE)
    if variable and _PROFILE not in context.meta:
        return variable
    profile = _chosen_profile(context)
    return profile.address if profile is not None and profile.address else DEFAULT_ADDRESS


_ADDRESS_OPTION = click.option(
    "-b",
    "--bootstrap-server",
    metavar="HOST:PORT",
    callback=_resolve_address,
    help=f"The broker to connect to.  [env var: {ADDRESS_VARIABLE}; default: {DEFAULT_ADDRESS}]",
)
_PROFILE_OPTION = click.option(
    "--profile",
    metavar="NAME",
    is_eager=True,
    expose_value=False,
    callback=_note_profile,
    help=f"A profile of `odradek profile`.  [env var: {PROFILE_VARIABLE}]",
)
