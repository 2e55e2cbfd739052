"""What `odradek registry` and `odradek console` share: a process over a Kafka that serves HTTP.

The contract with scripts is that of `serve`: the first line on standard output is `ready URL`, once a client can
connect; logs go to standard error. SIGTERM and SIGINT end it with status 0.
"""

from __future__ import annotations

import os
import signal
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from .child import end_with_parent, read_configs
from .connection_options import connection_options, note_configs, with_options
from .errors import CliError, as_cli_error, cannot_listen
from .serve import FORMATS, LEVELS, check_listen, say_ready, set_up_logging
from .session import client_options, run
from .values import OneOf, login_of

_CLIENTS = ("admin", "consumer", "producer")


@dataclass(frozen=True, slots=True)
class Served:
    """Where a service listens, who may come in, and the cluster that it is over with the options of its clients."""

    host: str
    port: int
    login_file: Path | None
    tls: ssl.SSLContext | None
    allowed_hosts: tuple[str, ...]
    bootstrap_servers: str
    clients: dict[str, dict[str, Any]]

    @property
    def login(self) -> str | None:
        """NAME:PASSWORD, None without a file. CliError for a file without one."""
        return None if self.login_file is None else login_of(self.login_file)


def service_options(listen: str, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives the command `name` the options of a service. They arrive as `served`."""
    usual_port = int(listen.rpartition(":")[2])
    options = (
        click.option("--listen", metavar="HOST:PORT", default=listen, show_default=True,
                     help="The address to listen on; port 0 takes a free one."),
        click.option("--login-file", metavar="FILE", type=click.Path(path_type=Path),
                     help="A file with NAME:PASSWORD, which everybody must send."),
        click.option("--allow-host", metavar="NAME", multiple=True,
                     help="A further name under which clients reach it; repeatable."),
        click.option("--tls-cert", metavar="FILE", help="Speak TLS with this certificate (PEM)."),
        click.option("--tls-key", metavar="FILE", help="The key of --tls-cert, where it is not in the same file."),
        click.option("--log-format", type=OneOf(FORMATS), default="human", show_default=True,
                     help="Text, or JSON lines."),
        click.option("--log-level", type=OneOf(LEVELS), default="info", show_default=True,
                     help="The lowest level to log."),
        click.option("--as-child", is_flag=True, hidden=True, help=f"Of `serve --{name}`: end with standard input."),
        connection_options(*_CLIENTS),
    )  # fmt: skip

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def command(
            listen: str, login_file: Path | None, allow_host: tuple[str, ...], tls_cert: str | None,
            tls_key: str | None, log_format: str, log_level: str, as_child: bool, bootstrap_server: str, **given: Any,
        ) -> None:  # fmt: skip
            check_listen(listen, usual_port)
            set_up_logging(log_format, log_level)
            if as_child:
                note_configs(click.get_current_context(), read_configs())
                end_with_parent(lambda: os.kill(os.getpid(), signal.SIGTERM))
            host, _, port = listen.rpartition(":")
            clients = {kind: client_options(kind) for kind in _CLIENTS}
            tls = tls_context(tls_cert, tls_key)
            served = Served(host.strip("[]"), int(port), login_file, tls, allow_host, bootstrap_server, clients)
            function(served=served, **given)

        return with_options(options, command)

    return decorate


def run_service(
    served: Served, serve: Callable[[Callable[[str], None]], Coroutine[Any, Any, None]], *errors: type[Exception]
) -> None:
    """Run a service until it ends. `serve` takes what announces its URL; CliError for one of `errors`."""
    try:
        with as_cli_error(*errors):
            run(serve(say_ready))
    except OSError as error:
        raise cannot_listen(served.host, served.port, error) from error


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
