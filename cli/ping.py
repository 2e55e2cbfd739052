"""`odradek ping`: whether brokers answer. With plain options `health_check.py` does it without this module."""

from __future__ import annotations

import click

from ..client.core.record_json import as_json as json_text
from .broker_address import BadAddress
from .connection_options import chosen_configs, connection_options
from .errors import CliError
from .health_check import DEFAULT_TIMEOUT_S, NoAnswer, answers, time_ms
from .output import chosen, json_option
from .values import Number


@click.command(short_help="Ask a broker whether it answers.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=Number(min=0, min_open=True),
    default=DEFAULT_TIMEOUT_S,
    show_default=True,
    help="How long to wait.",
)
@json_option
@connection_options()
def command(timeout: float, bootstrap_server: str) -> None:
    """Connect to each broker of -b and ask for its API versions. Status 0 if all of them answer in time, otherwise 1.

    \b
    Examples:
      odradek ping
      odradek ping -b kafka-1:9092 --timeout 1
      odradek ping -b kafka-1:9092,kafka-2:9092 --json
    """
    _check_profile()
    failed = False
    try:
        for address, answer in answers(bootstrap_server, timeout):
            is_there = not isinstance(answer, NoAnswer)
            if not is_there:
                failed = True
                CliError(str(answer)).show()
            taken_ms = time_ms(answer) if is_there else None
            if chosen("json"):
                click.echo(json_text({"broker": address, "answered": is_there, "time_ms": taken_ms}))
            elif is_there:
                click.echo(f"{address} answered in {taken_ms} ms")
    except BadAddress as error:
        raise click.UsageError(str(error)) from error
    if failed:
        raise click.exceptions.Exit(1)


def _check_profile() -> None:
    """CliError if the profile that says where the broker is also says that it wants TLS."""
    context = click.get_current_context()
    if context.get_parameter_source("bootstrap_server") is click.core.ParameterSource.COMMANDLINE:
        return
    protocol = chosen_configs(context)[0].get("security.protocol", "")
    if protocol.upper().endswith("SSL"):
        raise CliError(f"ping knows no TLS, and the profile says {protocol}: `odradek cluster health` asks with it")
