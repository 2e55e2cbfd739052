"""`odradek doctor`: what is wrong with this machine, a broker's config or a running broker, and what to do about it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from .broker_address import DEFAULT_ADDRESS
from .diagnoses import OK, PROBLEM, WARNING, Diagnosis, check_config, check_data_dirs, check_machine
from .output import Rows, row_options
from .serve import texts_of
from .session import bootstrap_option, open_admin

if TYPE_CHECKING:
    from ..client.core.descriptions import ClusterDescription
    from ..client.core.metadata import Node

_COLUMNS = ("check", "result", "finding", "remedy")
# An address that answers at all does so at once.
_ANSWER_WITHIN_S = 3.0
_ADVERTISED = "advertised address"
_RESULT_WIDTH = 7


@click.command(short_help="Look for what is wrong, and say what to do.")
@click.option("--config", "config_file", metavar="FILE", help="The server.properties file of the broker.")
@click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True, help="A config of the broker; repeatable.")
@click.option("--listen", metavar="HOST:PORT", help="As for `odradek serve`.")
@click.option("--data-dir", metavar="DIR", help="As for `odradek serve`.  [default: ./odradek-data]")
@row_options
@bootstrap_option
def command(
    config_file: str | None,
    assignments: tuple[str, ...],
    listen: str | None,
    data_dir: str | None,
    as_json: bool,
    bootstrap_server: str,
) -> None:
    """Check Python and its libraries, the limit of open files, the clock, a broker's config and data directory, and
    whether the broker at -b can be reached at the address that it tells clients. It changes nothing.

    Each line has a remedy where one is needed. Status 1 if there is a problem; warnings do not count.

    \b
    Examples:
      odradek doctor
      odradek doctor --config server.properties
      odradek doctor --data-dir /var/lib/odradek -b kafka-1:9092
    """
    config, found = check_config(texts_of(listen, data_dir, config_file, assignments))
    found = [*check_machine(), *found]
    if config is not None:
        found += check_data_dirs(config)
    found += _check_broker(bootstrap_server)
    _show(found, as_json)
    if any(each.result == PROBLEM for each in found):
        raise click.exceptions.Exit(1)


def _show(found: list[Diagnosis], as_json: bool) -> None:
    """Print the diagnoses: on a terminal as sentences, because a table would cut a remedy."""
    if sys.stdout.isatty() and not as_json:
        for each in found:
            colour = {WARNING: "yellow", PROBLEM: "red"}.get(each.result)
            click.echo(f"{click.style(each.result.ljust(_RESULT_WIDTH), fg=colour)} ", nl=False)
            click.echo(f"{each.check}: {each.finding}")
            if each.remedy:
                click.echo(f"{' ' * _RESULT_WIDTH} -> {each.remedy}")
        return
    with Rows(_COLUMNS, as_json) as rows:
        for each in found:
            rows.add({name: getattr(each, name) for name in _COLUMNS})


def _check_broker(bootstrap_server: str) -> Iterator[Diagnosis]:
    """Yield whether the broker answers, and whether clients reach every broker where they are told to."""
    from ..client.errors import KafkaError, NoBrokerReachable

    try:
        cluster = _describe(bootstrap_server)
    except NoBrokerReachable as error:
        # Before the first start nobody misses it.
        result = WARNING if bootstrap_server == DEFAULT_ADDRESS else PROBLEM
        if error.listens:
            remedy = "set what the reason names (-X NAME=VALUE), or pass the address of another listener with -b"
            yield Diagnosis("broker", PROBLEM, f"cannot use {error.tried}", remedy)
        else:
            what = f"cannot reach {error.tried}"
            yield Diagnosis("broker", result, what, 'start one with "odradek serve", or pass -b')
        return
    except KafkaError as error:
        yield Diagnosis("broker", PROBLEM, f"{bootstrap_server}: {error}", "look into the broker's log")
        return
    yield Diagnosis("broker", OK, f"{bootstrap_server} is of cluster {cluster.cluster_id}")
    for node in cluster.nodes:
        yield _check_advertised(bootstrap_server, cluster, node)


def _check_advertised(bootstrap_server: str, cluster: ClusterDescription, node: Node) -> Diagnosis:
    from ..client.errors import KafkaError
    from .health_check import NoAnswer, ask

    address = f"[{node.host}]:{node.port}" if ":" in node.host else f"{node.host}:{node.port}"
    how = f"start broker {node.node_id} with --set advertised.listeners=PLAINTEXT://HOST:PORT, an address that its "
    how += f"clients can reach, for example {bootstrap_server.split(',')[0]}"
    told = f"clients are told to reach broker {node.node_id} at {address}"
    try:
        ask(address, node.host, node.port, _ANSWER_WITHIN_S)
        there = _describe(address)
    except (NoAnswer, KafkaError) as error:
        return Diagnosis(_ADVERTISED, PROBLEM, f"{told}, but from here: {error}", how)
    if there.cluster_id != cluster.cluster_id:
        other = f"there is a broker of another cluster ({there.cluster_id})"
        return Diagnosis(_ADVERTISED, PROBLEM, f"{told}, but {other}", how)
    return Diagnosis(_ADVERTISED, OK, told)


def _describe(bootstrap_server: str) -> ClusterDescription:
    async def main() -> ClusterDescription:
        async with open_admin(bootstrap_server) as admin:
            return await admin.describe_cluster()

    return asyncio.run(main())
