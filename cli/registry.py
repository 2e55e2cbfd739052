"""`odradek registry`: run a schema registry over a Kafka, a process of its own.

The contract with scripts is that of `serve`: the first line on standard output is `ready URL`, once a client can
connect; logs go to standard error. SIGTERM and SIGINT end it with status 0.
"""

from __future__ import annotations

import os
import signal
import ssl
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .child import end_with_parent, read_configs
from .connection_options import connection_options, note_configs
from .errors import CliError, cannot_listen
from .serve import FORMATS, LEVELS, check_listen, say_ready, set_up_logging
from .session import client_options, run
from .values import OneOf, WholeNumber

if TYPE_CHECKING:
    from ..registry import LogOptions, RegistryConfig


@click.command(short_help="Run a schema registry.")
@click.option(
    "--listen", metavar="HOST:PORT", default="127.0.0.1:8081", show_default=True,
    help="The address to listen on; port 0 takes a free one.",
)  # fmt: skip
@click.option("--topic", metavar="TOPIC", default="_schemas", show_default=True, help="Where the schemas are kept.")
@click.option(
    "--replication-factor", metavar="N", type=WholeNumber(min=1),
    help="Of the topic, if it does not exist yet.  [default: the broker's]",
)  # fmt: skip
@click.option("--read-only", is_flag=True, help="Answer look-ups, and refuse everything that would change something.")
@click.option(
    "--login-file", metavar="FILE", type=click.Path(path_type=Path),
    help="A file with NAME:PASSWORD, which clients must send.",
)  # fmt: skip
@click.option(
    "--allow-host", metavar="NAME", multiple=True,
    help="A further name under which clients reach it, where there is no login; repeatable.",
)  # fmt: skip
@click.option("--tls-cert", metavar="FILE", help="Speak TLS with this certificate (PEM).")
@click.option("--tls-key", metavar="FILE", help="The key of --tls-cert, where it is not in the same file.")
@click.option("--log-format", type=OneOf(FORMATS), default="human", show_default=True, help="Text, or JSON lines.")
@click.option("--log-level", type=OneOf(LEVELS), default="info", show_default=True, help="The lowest level to log.")
@click.option("--as-child", is_flag=True, hidden=True, help="Of `serve --registry`: end with standard input.")
@connection_options("admin", "consumer", "producer")
def command(
    listen: str,
    topic: str,
    replication_factor: int | None,
    read_only: bool,
    login_file: Path | None,
    allow_host: tuple[str, ...],
    tls_cert: str | None,
    tls_key: str | None,
    log_format: str,
    log_level: str,
    as_child: bool,
    bootstrap_server: str,
) -> None:
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
    check_listen(listen)
    set_up_logging(log_format, log_level)
    if as_child:
        note_configs(click.get_current_context(), read_configs())
        end_with_parent(lambda: os.kill(os.getpid(), signal.SIGTERM))
    config = _config(listen, login_file, tls_cert, tls_key)
    log = replace(
        config.log, bootstrap_servers=bootstrap_server, topic=topic, replication_factor=replication_factor or -1,
        read_only=read_only,
    )  # fmt: skip
    _run(replace(config, log=_with_client_options(log), allowed_hosts=allow_host))


def _config(listen: str, login_file: Path | None, tls_cert: str | None, tls_key: str | None) -> RegistryConfig:
    try:
        from ..registry import RegistryConfig
    except ImportError as error:
        raise CliError(f"{error.name} is missing: pip install 'odradek[registry]'") from error
    host, _, port = listen.rpartition(":")
    login = None if login_file is None else login_of(login_file)
    return RegistryConfig(host=host.strip("[]"), port=int(port), login=login, tls=tls_context(tls_cert, tls_key))


def _with_client_options(log: LogOptions) -> LogOptions:
    """Return the options with those of the profile and of -X for each client."""
    admin, consumer, producer = (client_options(kind) for kind in ("admin", "consumer", "producer"))
    return replace(log, admin=admin, consumer=consumer, producer=producer)


def login_of(path: Path, option: str = "--login-file") -> str:
    """Return the NAME:PASSWORD of the file that an option names. CliError for a file without one."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise CliError(f"{option} {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CliError(f"{option} {path}: is no text in UTF-8") from error
    name, colon, password = text.partition(":")
    if not (name and colon and password) or "\n" in text:
        raise CliError(f"{option} {path}: one line NAME:PASSWORD is expected")
    return text


def tls_context(cert: str | None, key: str | None) -> ssl.SSLContext | None:
    """Return what --tls-cert and --tls-key say, None without them. UsageError for a key alone, CliError."""
    if cert is None:
        if key is not None:
            raise click.UsageError("--tls-key needs --tls-cert")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert, key)
    except ssl.SSLError as error:
        is_other = error.reason == "KEY_VALUES_MISMATCH"
        what = "the key is that of another certificate" if is_other else "no PEM file of a certificate with its key"
        raise CliError(f"--tls-cert {cert}: {what}") from error
    except OSError as error:
        raise CliError(f"--tls-cert {cert}: {error.strerror or error}") from error
    return context


def _run(config: RegistryConfig) -> None:
    from ..registry.errors import RegistryError
    from ..registry.server import serve

    try:
        run(serve(config, say_ready))
    except RegistryError as error:
        raise CliError(error.message) from error
    except OSError as error:
        raise cannot_listen(config.host, config.port, error) from error
