"""`odradek registry`: run a schema registry over a Kafka, a process of its own (service.py has the contract)."""

from __future__ import annotations

from functools import partial

import click

from .. import how_to_install
from .errors import CliError
from .service import Served, run_service, service_options
from .values import INT16, WholeNumber


@click.command(short_help="Run a schema registry.")
@service_options("127.0.0.1:8081", "registry")
@click.option("--topic", metavar="TOPIC", default="_schemas", show_default=True, help="Where the schemas are kept.")
@click.option(
    "--replication-factor", metavar="N", type=WholeNumber(1, INT16),
    help="Of the topic, if it does not exist yet.  [default: the broker's]",
)  # fmt: skip
@click.option("--read-only", is_flag=True, help="Answer look-ups, and refuse everything that would change something.")
def command(topic: str, replication_factor: int | None, read_only: bool, served: Served) -> None:
    """Run a schema registry with Confluent's HTTP API until SIGTERM or Ctrl-C. It keeps schemas in a topic.

    The first line on standard output is "ready URL", printed when clients can connect. Without --login-file everybody
    who can connect may change schemas, and requests name an address, localhost or a host of --allow-host: otherwise web
    pages could reach it by a name of their own.

    \b
    Examples:
      odradek registry
      odradek registry -b kafka-1:9092 --listen 127.0.0.1:8081
      odradek registry --listen 0.0.0.0:8081 --login-file login.txt
      odradek registry --read-only
    """
    try:
        from ..registry import LogOptions, RegistryConfig
        from ..registry.errors import RegistryError
        from ..registry.server import serve
    except ImportError as error:
        raise CliError(f"{error.name} is missing: {how_to_install('registry')}") from error
    log = LogOptions(
        served.bootstrap_servers, topic, replication_factor=replication_factor or -1, read_only=read_only,
        **served.clients,
    )  # fmt: skip
    config = RegistryConfig(log, served.host, served.port, served.login, served.tls, served.allowed_hosts)
    run_service(served, partial(serve, config), RegistryError)
