"""`odradek console`: a web page over a Kafka, a process of its own (service.py has the contract)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import how_to_install
from .errors import CliError
from .schema_options import registry_client, registry_options
from .service import Served, run_service, service_options

if TYPE_CHECKING:
    from ..client import Acl, Admin
    from ..console.reading.schemas import Schemas


@click.command(short_help="Serve a web page over a Kafka.")
@service_options("127.0.0.1:8080", "console")
@click.option("--read-only", is_flag=True, help="Show everything, and refuse every change.")
@click.option(
    "--history-file", metavar="FILE", type=click.Path(path_type=Path),
    help="Keep the last hour's samples there when it stops.  [default: in memory alone]",
)  # fmt: skip
@click.option(
    "--cluster-login", is_flag=True,
    help="Everybody logs in with their name and password of the cluster, whose ACLs then hold for them.",
)  # fmt: skip
@click.option("--insecure", is_flag=True, help="Listen beyond this machine without a login.")
@registry_options
def command(
    read_only: bool, history_file: Path | None, cluster_login: bool, insecure: bool, registry: str | None,
    registry_login_file: Path | None, registry_ca: str | None, served: Served,
) -> None:  # fmt: skip
    """Serve a web page over a Kafka until SIGTERM or Ctrl-C: topics, records, groups, and what goes on.

    The first line on standard output is "ready URL", printed when a browser can connect. Beyond this machine it listens
    with a login only.

    \b
    Examples:
      odradek console
      odradek console -b kafka-1:9092 --listen 127.0.0.1:8080 --read-only
      odradek console --listen 0.0.0.0:8080 --login-file login.txt
      odradek console --history-file history.msgpack
    """
    if served.login_file is not None and cluster_login:
        raise click.UsageError("--login-file and --cluster-login are two ways to log in: choose one")
    try:
        from ..console import ConsoleConfig
    except ImportError as error:
        raise CliError(f"{error.name} is missing: {how_to_install('console')}") from error
    from ..console.cluster import ClusterOptions
    from ..console.history.history import HistoryFileError
    from ..console.server import UnsafeConsole, serve

    config = ConsoleConfig(
        ClusterOptions(served.bootstrap_servers, **served.clients), served.host, served.port, served.allowed_hosts,
        read_only, served.login, cluster_login, insecure, served.tls, history_file,
        _schemas(registry, registry_login_file, registry_ca), _decide, _why_unmatchable,
    )  # fmt: skip
    run_service(served, partial(serve, config), HistoryFileError, UnsafeConsole)


def _schemas(url: str | None, login_file: Path | None, ca_file: str | None) -> Schemas | None:
    """Return what asks the registry. UsageError for its options without it. Others as `registry_client`."""
    if url is None:
        if login_file is not None or ca_file is not None:
            raise click.UsageError("--registry-login-file and --registry-ca need --registry")
        return None
    from ..console.reading.schemas import Schemas

    return Schemas(registry_client(url, login_file, ca_file))


def _why_unmatchable(acl: Acl) -> str:
    from .acls import objection

    return objection(acl)


async def _decide(admin: Admin, asked: Acl) -> tuple[bool, str]:
    from .acls import explained

    found = await explained(admin, asked)
    return found.is_allowed, found.rule
