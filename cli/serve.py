"""`odradek serve`: read the configs, set up logging and the limit of open files, and run a broker until a signal.

The contract with scripts: the first line on standard output is `ready HOST:PORT`, once a client can connect; all else
goes to standard error. SIGTERM and SIGINT end it with status 0. A start that fails prints one line, with status 1.
Precedence: --listen, --data-dir and --http over --set, --set over --config, all over the defaults.

The log has lines for people, or one JSON object a line: `time` (UTC, ISO 8601, milliseconds), `level`, `logger`,
`message`, the fields of `extra`, and `exception` if there is one. Promise: one event is one line, whatever its text
contains. For people alone, a traceback has lines of its own.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ..broker.configs.broker_config import BrokerConfig
from ..broker.configs.definition import ConfigError
from .broker_address import DEFAULT_PORT
from .errors import as_cli_error, discard_output
from .service_notice import READY, STOPPING, notify
from .values import OneOf, parse_pair, parse_value, properties_of

if TYPE_CHECKING:
    from ..broker.server import Broker
    from .child import Child

log = logging.getLogger("odradek.broker")

_MAX_PORT = 65535


FORMATS = ("human", "json")
LEVELS = ("debug", "info", "warning", "error")

# Names of groups and clients come from outside: they must not begin a new line or colour it.
_ON_ONE_LINE = {code: ascii(chr(code))[1:-1] for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)}
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def set_up_logging(log_format: str, level: str, *, utc: bool = False) -> None:
    """Send all events from `level` up to standard error. This replaces an earlier set-up.

    For people, times are local, or in UTC; for machines always in UTC.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if log_format == "json" else _Human(utc))
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)


class _Human(logging.Formatter):
    """`2026-11-21T10:05:52.123+01:00 WARNING server: text`; a traceback takes lines of its own."""

    def __init__(self, utc: bool) -> None:
        super().__init__()
        self._utc = utc

    def format(self, record: logging.LogRecord) -> str:
        name = record.name.removeprefix("odradek.").removeprefix("broker.")
        message = record.getMessage().translate(_ON_ONE_LINE)
        line = f"{_stamp(record, self._utc)} {record.levelname:<7} {name}: {message}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _stamp(record: logging.LogRecord, utc: bool) -> str:
    """Return the time of an event as ISO 8601 with milliseconds and zone."""
    moment = time.gmtime(record.created) if utc else time.localtime(record.created)
    zone = "Z"
    if not utc:
        text = time.strftime("%z", moment)
        zone = f"{text[:3]}:{text[3:5]}"
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', moment)}.{int(record.msecs):03d}{zone}"


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:

        event: dict[str, Any] = {
            "time": _stamp(record, utc=True),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        event.update((name, value) for name, value in vars(record).items() if name not in _STANDARD)
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event, default=str)


@click.command(short_help="Run a broker.")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="The address to listen on; port 0 takes a free one.  [default: 127.0.0.1:9092]",
)
@click.option(
    "--data-dir", metavar="DIR", help="The directory of topics and offsets; made if missing.  [default: ./odradek-data]"
)
@click.option(
    "--http",
    metavar="[HOST:]PORT",
    help="An HTTP endpoint for /live, /ready and /metrics; a port alone listens on 127.0.0.1.  [default: none]",
)
@click.option("--config", "config_file", metavar="FILE", help="A Kafka server.properties file.")
@click.option(
    "--set", "assignments", metavar="NAME=VALUE", multiple=True, help="One config, by Kafka's name; repeatable."
)
@click.option(
    "--secure",
    is_flag=True,
    help="Listen by TLS and let in only users with a password: makes certificates and a first user, and prints the "
    "file that a client needs.",
)
@click.option(
    "--registry",
    metavar="[HOST:]PORT",
    help="A schema registry beside the broker, a process of its own; a port alone listens on 127.0.0.1.  "
    "[default: none]",
)
@click.option(
    "--console",
    metavar="[HOST:]PORT",
    help="A web page over the broker, a process of its own; a port alone listens on 127.0.0.1.  [default: none]",
)
@click.option(
    "--allow-host",
    metavar="NAME",
    multiple=True,
    help="Also serve requests that name this host at --registry and --console: the name of a container, say; "
    "repeatable.",
)
@click.option(
    "--ephemeral",
    is_flag=True,
    help="Keep nothing, for tests: a free port unless --listen names one, a directory that goes at the end, no fsync, "
    "and groups that do not wait for more members.",
)
@click.option("--with-parent", is_flag=True, help="Stop when the process that has started this one ends.")
@click.option("--strict", is_flag=True, help="Refuse to start with a config that neither Odradek nor Kafka knows.")
@click.option(
    "--log-format",
    type=OneOf(FORMATS),
    default="human",
    show_default=True,
    help="Text for people, or one JSON object a line.",
)
@click.option(
    "--log-level",
    type=OneOf(LEVELS),
    default="info",
    show_default=True,
    help="The lowest level that is logged; debug names each request.",
)
@click.option("--log-utc", is_flag=True, help="Times of the human log in UTC, not in local time; json always has UTC.")
def command(
    listen: str | None,
    data_dir: str | None,
    http: str | None,
    config_file: str | None,
    assignments: tuple[str, ...],
    secure: bool,
    registry: str | None,
    console: str | None,
    allow_host: tuple[str, ...],
    ephemeral: bool,
    with_parent: bool,
    strict: bool,
    log_format: str,
    log_level: str,
    log_utc: bool,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C.

    The first line on standard output is "ready HOST:PORT", printed when clients can connect. Logs go to standard error.

    \b
    Examples:
      odradek serve
      odradek serve --listen 0.0.0.0:9092 --data-dir /var/lib/odradek
      odradek serve --http 9644
      odradek serve --registry 8081 --console 8080
      odradek serve --config server.properties --set num.partitions=6
      odradek serve --ephemeral --with-parent
      odradek serve --secure --listen 0.0.0.0:9093
    """
    if with_parent:
        from .child import end_without_parent

        end_without_parent(lambda: os.kill(os.getpid(), signal.SIGTERM))
    texts = texts_of(listen, data_dir, config_file, assignments)
    if ephemeral:
        _check_ephemeral(texts, secure=secure)
    if http is not None:
        texts["http.listener"] = http
    if secure:
        from .secure_start import secure_texts

        texts = secure_texts(texts)
    # Not before: the broker that makes the first user would seem to be the one that was asked for.
    set_up_logging(log_format, log_level, utc=log_utc)
    with as_cli_error(ConfigError):
        config, warnings = BrokerConfig.parse(texts, strict=strict)
        broker = _ephemeral(texts, strict=strict) if ephemeral else None
    for warning in warnings:
        log.warning(warning)
    _raise_file_limit()
    config = config if broker is None else broker.config
    if allow_host and registry is None and console is None:
        raise click.UsageError("--allow-host is for --registry and --console: the broker serves every host")
    options = ("--log-format", log_format, "--log-level", log_level, *(f"--allow-host={each}" for each in allow_host))
    wanted = {name: listen for name, listen in (("registry", registry), ("console", console)) if listen is not None}
    children = [_child(each, wanted, config, texts, options, secure=secure) for each in wanted]
    _run(config, children, broker, _port_noted(texts) if secure else None)


def _port_noted(texts: Mapping[str, str]) -> Callable[[str], None] | None:
    """Return what writes the port of a secure broker into the files of its clients; None where they know it."""
    from .secure_start import folder_of, note_port

    return partial(note_port, folder_of(texts)) if texts["listeners"].endswith(":0") else None


def _check_ephemeral(texts: Mapping[str, str], *, secure: bool) -> None:
    """UsageError for what a broker that keeps nothing cannot have."""
    named = next((name for name in ("log.dirs", "log.dir") if name in texts), None)
    if named is not None:
        raise click.UsageError(f"--ephemeral keeps nothing: leave {named} ({texts[named]}) out, or --ephemeral")
    if secure:
        raise click.UsageError("--secure keeps certificates and a user: leave it or --ephemeral out")


def _ephemeral(texts: Mapping[str, str], *, strict: bool) -> Broker:
    from ..broker.server import Broker

    return Broker.ephemeral(texts, strict=strict)


def _child(
    command: str,
    wanted: Mapping[str, str],
    config: BrokerConfig,
    texts: Mapping[str, str],
    options: Sequence[str],
    *,
    secure: bool,
) -> Child:
    from .child import Child, registry_options, secure_options
    from .secure_start import folder_of

    places = {name: listen if ":" in listen else f"127.0.0.1:{listen}" for name, listen in wanted.items()}
    check_listen(where := places[command])
    if not secure and not config.listeners[0].startswith("PLAINTEXT://"):
        raise click.UsageError(
            f"--{command} needs --secure, or a first listener that is PLAINTEXT: otherwise start `odradek {command}`, "
            "and say by -X how it logs in"
        )
    folder = folder_of(texts) if secure else None
    if command == "console" and "registry" in places:
        options = [*options, *registry_options(places["registry"], folder)]
    if folder is None:
        return Child(command, where, options)
    more, configs = secure_options(folder)
    return Child(command, where, [*options, *more], configs)


def texts_of(
    listen: str | None, data_dir: str | None, config_file: str | None, assignments: tuple[str, ...]
) -> dict[str, str]:
    """Return the texts of all configs by name. Options replace --set, and --set replaces the file.

    CliError for a file that cannot be read.
    """
    texts = properties_of(config_file) if config_file else {}
    for assignment in assignments:
        name, given = parse_pair(assignment, "--set")
        value = parse_value(name, given)
        texts[name] = value
    if listen is not None:
        check_listen(listen)
        if _is_secure(texts):
            # Otherwise a listener would be open that was to ask who comes.
            given = texts["listeners"]
            raise click.UsageError(f"--listen would replace listeners={given} by PLAINTEXT: leave one of the two out")
        texts["listeners"] = f"PLAINTEXT://{listen}"
    if data_dir is not None:
        # log.dirs is a list: a comma in the name would make two directories of it.
        if "," in data_dir:
            raise click.UsageError("--data-dir cannot have a comma")
        texts["log.dirs"] = data_dir
    return texts


def _is_secure(texts: Mapping[str, str]) -> bool:
    """Return whether one of the listeners in these configs has TLS or logins, by its name or the protocol map."""
    pairs = texts.get("listener.security.protocol.map", "").split(",")
    protocols = {name.strip().upper(): protocol for name, _, protocol in (pair.partition(":") for pair in pairs)}
    names = [each.partition("://")[0].strip().upper() for each in texts.get("listeners", "").split(",")]
    return any(protocols.get(name, name).strip().upper().startswith(("SSL", "SASL_")) for name in names)


def check_listen(listen: str, usual_port: int = DEFAULT_PORT) -> None:
    """UsageError unless an option --listen is one HOST:PORT."""
    if "://" in listen or "," in listen:
        raise click.UsageError(f"--listen needs one HOST:PORT, got {listen!r}; for more use --set listeners=...")
    _, colon, port = listen.rpartition("]")[2].rpartition(":")
    if not colon:
        what = f"the usual port is {usual_port}: {listen}:{usual_port}"
        if listen.isascii() and listen.isdigit():
            what = f"for this machine alone: 127.0.0.1:{listen}"
        raise click.UsageError(f"--listen needs HOST:PORT, got {listen!r}; {what}")
    if not (port.isascii() and port.isdigit() and int(port) <= _MAX_PORT):
        raise click.UsageError(f"--listen needs HOST:PORT with a port from 0 to {_MAX_PORT}, got {listen!r}")


def _raise_file_limit() -> None:
    """Raise the limit of open files as far as the system allows: each connection and each segment needs one."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError) as error:
        log.warning("cannot raise the limit of open files from %d to %d: %s", soft, hard, error)


def _run(
    config: BrokerConfig,
    children: Sequence[Child],
    broker: Broker | None = None,
    note_address: Callable[[str], None] | None = None,
) -> None:
    from ..broker.log_dirs.data_dir import StartError
    from ..broker.server import serve

    def announce(address: str) -> None:
        if note_address is not None:
            note_address(address)
        notify(READY)
        say_ready(address)
        for child in children:
            child.start(address)

    def announce_stop() -> None:
        notify(STOPPING)
        for child in children:
            child.begin_stop()

    try:
        run_loop = _loop_runner()
        with as_cli_error(StartError):
            run_loop(serve(config, announce, announce_stop, broker))
    finally:
        for child in children:
            child.stop()


def _loop_runner() -> Callable[[Coroutine[Any, Any, None]], None]:
    try:
        from uvloop import run
    except ImportError:  # not on every platform; asyncio's own loop is slower
        from asyncio import run
    return run


def say_ready(address: str) -> None:
    """Print the line for scripts. A service whose caller reads nothing serves all the same."""
    try:
        click.echo(f"ready {address}")
    except OSError as error:
        discard_output()
        log.warning("cannot print the line `ready` to standard output: %s; ready on %s", error.strerror, address)
