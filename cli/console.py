"""`odradek console`: a web page over a Kafka, a process of its own.

The contract with scripts is that of `serve`: the first line on standard output is `ready URL`, once a browser can
connect; logs go to standard error. SIGTERM and SIGINT end it with status 0.
"""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .child import end_with_parent, read_configs
from .connection_options import connection_options, note_configs
from .errors import CliError, cannot_listen
from .registry import login_of, tls_context
from .schema_options import registry_client
from .serve import FORMATS, LEVELS, check_listen, say_ready, set_up_logging
from .session import client_options, run
from .values import OneOf

if TYPE_CHECKING:
    from ..client import Acl, Admin
    from ..console import ConsoleConfig
    from ..console.reading.schemas import Schemas


@click.command(short_help="Serve a web page over a Kafka.")
@click.option(
    "--listen", metavar="HOST:PORT", default="127.0.0.1:8080", show_default=True,
    help="The address to listen on; port 0 takes a free one.",
)  # fmt: skip
@click.option("--read-only", is_flag=True, help="Show everything, and refuse every change.")
@click.option(
    "--history-file", metavar="FILE", type=click.Path(path_type=Path),
    help="Keep the last hour's samples there when it stops.  [default: in memory alone]",
)  # fmt: skip
@click.option(
    "--allow-host", metavar="NAME", multiple=True, help="A further name under which browsers reach it; repeatable."
)
@click.option(
    "--login-file", metavar="FILE", type=click.Path(path_type=Path),
    help="A file with NAME:PASSWORD, which everybody must send.",
)  # fmt: skip
@click.option(
    "--cluster-login", is_flag=True,
    help="Everybody logs in with their name and password of the cluster, whose ACLs then hold for them.",
)  # fmt: skip
@click.option("--insecure", is_flag=True, help="Listen beyond this machine without a login.")
@click.option("--tls-cert", metavar="FILE", help="Speak TLS with this certificate (PEM).")
@click.option("--tls-key", metavar="FILE", help="The key of --tls-cert, where it is not in the same file.")
@click.option(
    "--registry", metavar="URL", help="The schema registry by which records in Avro and by JSON Schema are shown."
)
@click.option(
    "--registry-login-file", metavar="FILE", type=click.Path(path_type=Path), help="NAME:PASSWORD for the registry."
)
@click.option("--registry-ca", metavar="FILE", help="Certificates (PEM) to trust, for a registry with TLS.")
@click.option("--as-child", is_flag=True, hidden=True, help="Of `serve --console`: end with standard input.")
@click.option("--log-format", type=OneOf(FORMATS), default="human", show_default=True, help="Text, or JSON lines.")
@click.option("--log-level", type=OneOf(LEVELS), default="info", show_default=True, help="The lowest level to log.")
@connection_options("admin", "consumer", "producer")
def command(
    listen: str,
    read_only: bool,
    history_file: Path | None,
    allow_host: tuple[str, ...],
    login_file: Path | None,
    cluster_login: bool,
    insecure: bool,
    tls_cert: str | None,
    tls_key: str | None,
    registry: str | None,
    registry_login_file: Path | None,
    registry_ca: str | None,
    as_child: bool,
    log_format: str,
    log_level: str,
    bootstrap_server: str,
) -> None:
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
    check_listen(listen)
    set_up_logging(log_format, log_level)
    if as_child:
        note_configs(click.get_current_context(), read_configs())
        end_with_parent(lambda: os.kill(os.getpid(), signal.SIGTERM))
    if login_file is not None and cluster_login:
        raise click.UsageError("--login-file and --cluster-login are two ways to log in: choose one")
    config = _config(listen, bootstrap_server)
    config = replace(
        config, allowed_hosts=allow_host, read_only=read_only, cluster_login=cluster_login, insecure=insecure,
        history_file=history_file, login=None if login_file is None else login_of(login_file),
        tls=tls_context(tls_cert, tls_key), schemas=_schemas(registry, registry_login_file, registry_ca),
    )  # fmt: skip
    _run(config)


def _config(listen: str, bootstrap_server: str) -> ConsoleConfig:
    try:
        from ..console import ConsoleConfig
    except ImportError as error:
        raise CliError(f"{error.name} is missing: pip install 'odradek[console]'") from error
    from ..console.cluster import ClusterOptions

    admin, consumer, producer = (client_options(kind) for kind in ("admin", "consumer", "producer"))
    host, _, port = listen.rpartition(":")
    cluster = ClusterOptions(bootstrap_server, admin, consumer, producer)
    return ConsoleConfig(cluster, host=host.strip("[]"), port=int(port), decide=_decide)


def _schemas(url: str | None, login_file: Path | None, ca_file: str | None) -> Schemas | None:
    """Return what asks the registry. UsageError for its options without it. Others as `registry_client`."""
    if url is None:
        if login_file is not None or ca_file is not None:
            raise click.UsageError("--registry-login-file and --registry-ca need --registry")
        return None
    from ..console.reading.schemas import Schemas

    return Schemas(registry_client(url, login_file, ca_file))


async def _decide(admin: Admin, asked: Acl) -> tuple[bool, str]:
    from .acls import explained

    found = await explained(admin, asked)
    return found.is_allowed, found.rule


def _run(config: ConsoleConfig) -> None:
    from ..console.history.history import HistoryFileError
    from ..console.server import UnsafeConsole, serve

    try:
        run(serve(config, say_ready))
    except (HistoryFileError, UnsafeConsole) as error:
        raise CliError(str(error)) from error
    except OSError as error:
        raise cannot_listen(config.host, config.port, error) from error
