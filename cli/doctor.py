"""`odradek doctor`: what is wrong with this machine, a broker's config or a running broker, and what to do about it.

Each check yields findings and changes nothing. A finding that is not ok has a remedy: what to do.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from .. import how_to_install
from ..broker.configs.broker_config import BrokerConfig
from ..broker.configs.definition import ConfigError
from ..broker.log_dirs.data_dir import StartError, refuse_others, refuse_strangers
from ..broker.log_dirs.log_dirs import check_whose
from ..client.admin.findings import OK, PROBLEM, WARNING, Finding
from ..client.core.options import in_words_of_kafka
from ..client.errors import KafkaError, NoBrokerReachable
from ..kernel import door
from ..storage import checkpoints
from ..storage.errors import StorageError
from .broker_address import DEFAULT_ADDRESS
from .output import chosen, local_text, print_rows, row_options
from .serve import texts_of
from .session import bootstrap_option, chosen_address, client_options, open_admin

if TYPE_CHECKING:
    from ..client import Admin
    from ..client.core.descriptions import ClusterDescription
    from ..client.core.metadata import Node

T = TypeVar("T")

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
def command(config_file: str | None, assignments: tuple[str, ...], listen: str | None, data_dir: str | None) -> None:
    """Check Python and its libraries, the limit of open files, the clock, a broker's config and data directory, and
    whether the broker at -b can be reached at the address that it tells clients, and what `odradek cluster health`
    says. It changes nothing.

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
        found += check_cluster_security(config)
    found += _check_broker(chosen_address())
    _show(found)
    if any(each.result == PROBLEM for each in found):
        raise click.exceptions.Exit(1)


def _show(found: list[Finding]) -> None:
    """Print the findings: on a terminal as sentences, because a table would cut a remedy."""
    if sys.stdout.isatty() and not chosen("json"):
        for each in found:
            colour = {WARNING: "yellow", PROBLEM: "red"}.get(each.result)
            click.echo(f"{click.style(each.result.ljust(_RESULT_WIDTH), fg=colour)} ", nl=False)
            click.echo(f"{each.check}: {each.finding}")
            if each.remedy:
                click.echo(f"{' ' * _RESULT_WIDTH} -> {each.remedy}")
        return
    print_rows(_COLUMNS, map(astuple, found))


def _check_broker(bootstrap_server: str) -> Iterator[Finding]:
    """Yield whether the broker answers, and whether clients reach every broker where they are told to."""

    try:
        cluster = _describe(bootstrap_server)
    except NoBrokerReachable as error:
        # Before the first start nobody misses it.
        result = WARNING if bootstrap_server == DEFAULT_ADDRESS else PROBLEM
        if error.listens:
            remedy = "set what the reason names (-X NAME=VALUE), or pass the address of another listener with -b"
            yield Finding("broker", PROBLEM, in_words_of_kafka(f"cannot use {error.tried}"), remedy)
        else:
            what = f"cannot reach {error.tried}"
            yield Finding("broker", result, what, 'start one with "odradek serve", or pass -b')
        return
    except KafkaError as error:
        yield Finding("broker", PROBLEM, f"{bootstrap_server}: {error}", "look into the broker's log")
        return
    yield Finding("broker", OK, f"{bootstrap_server} is of cluster {cluster.cluster_id}")
    advertised = [_check_advertised(bootstrap_server, cluster, node) for node in cluster.nodes]
    yield from advertised
    if not all(each.healthy for each in advertised):
        return  # what is asked next needs them all
    try:
        yield from _ask(bootstrap_server, lambda admin: admin.check_health())
    except KafkaError as error:
        yield Finding("health", WARNING, f"not looked at: {error}", None)


def _check_advertised(bootstrap_server: str, cluster: ClusterDescription, node: Node) -> Finding:
    from .health_check import NoAnswer, ask

    address = f"[{node.host}]:{node.port}" if ":" in node.host else f"{node.host}:{node.port}"
    how = f"start broker {node.node_id} with --set advertised.listeners=LISTENER://HOST:PORT, an address that its "
    how += f"clients can reach (by a name in its certificate, with TLS), for example {bootstrap_server.split(',')[0]}"
    told = f"clients are told to reach broker {node.node_id} at {address}"
    try:
        if client_options("admin").get("security_protocol", "PLAINTEXT") == "PLAINTEXT":
            ask(address, node.host, node.port, _ANSWER_WITHIN_S)
        # With TLS this also checks that the certificate has the name.
        there = _describe(address)
    except (NoAnswer, KafkaError) as error:
        return Finding(_ADVERTISED, PROBLEM, f"{told}, but from here: {error}", how)
    if there.cluster_id != cluster.cluster_id:
        other = f"there is a broker of another cluster ({there.cluster_id})"
        return Finding(_ADVERTISED, PROBLEM, f"{told}, but {other}", how)
    return Finding(_ADVERTISED, OK, told)


def _describe(bootstrap_server: str) -> ClusterDescription:
    return _ask(bootstrap_server, lambda admin: admin.describe_cluster())


def _ask(bootstrap_server: str, work: Callable[[Admin], Awaitable[T]]) -> T:
    async def main() -> T:
        async with open_admin(bootstrap_server) as admin:
            return await work(admin)

    return asyncio.run(main())


_DATA_DIRECTORY = "data directory"
_CLUSTER = "cluster"

# Library -> what it is missed for. Without the others an installation is not whole.
_OPTIONAL = {
    "uvloop": "the event loop is slower",
    "crc32c": "CRCs are computed in Python, far slower",
    "google-re2": "patterns of clients are refused",
}
# As pyproject.toml has them: one of the two checksums, and zstd where Python does not bring it.
_CHECKSUM = "crc32c" if platform.machine() in ("x86_64", "AMD64", "aarch64", "arm64") else "crcmod"
_ZSTD = ("zstandard",) if sys.version_info < (3, 14) else ()
_LIBRARIES = ("click", "msgpack", _CHECKSUM, "uvloop", *_ZSTD, "cramjam", "google-re2")
# A broker refuses writes on a full disk. With less than this that is near.
_LOW_SPACE_BYTES = 1 << 30
_LOW_SPACE_SHARE = 0.05
# Each connection and each segment needs a file.
_FEW_FILES = 10_000
# No clock that was ever set shows an earlier time. File systems round times.
_EARLIEST_S = 1_735_689_600
_CLOCK_SLACK_S = 5
# So many files are looked at for times in the future.
_MAX_FILES = 1_000


def check_machine() -> Iterator[Finding]:
    """Yield what is to say of Python, the libraries, the limit of open files and the clock."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", OK, f"Python {version} in {sys.prefix}")
    yield from _libraries()
    yield from _open_files()
    if time.time() < _EARLIEST_S:
        now = time.strftime("%Y-%m-%d", time.gmtime())
        yield Finding("clock", PROBLEM, f"the clock shows {now}", "set the clock, for example by an NTP client")
    else:
        yield Finding("clock", OK, str(local_text(time.time_ns() // 1_000_000)))


def _libraries() -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, version

    found: list[str] = []
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missed = _OPTIONAL.get(name)
            if missed:
                yield Finding("libraries", WARNING, f"{name} is not installed: {missed}", f"pip install {name}")
            else:
                how = "install Odradek again with pip, which installs what it needs"
                yield Finding("libraries", PROBLEM, f"{name} is not installed", how)
    yield Finding("libraries", OK, ", ".join(found))
    used = f"decoded and encoded by {door.record_code()}"
    if door.compiled is None and door.is_built():
        yield Finding("records", WARNING, used, "install Odradek again with pip, which builds it")
    else:
        yield Finding("records", OK, used)


def _open_files() -> Iterator[Finding]:
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < _FEW_FILES:
        found = f"at most {hard} files may be open: every connection and every segment needs one"
        how = "raise the limit: LimitNOFILE= of systemd, ulimits of a container, /etc/security/limits.conf"
        yield Finding("open files", WARNING, found, how)
    else:
        yield Finding("open files", OK, "no limit" if hard == resource.RLIM_INFINITY else f"up to {hard}")


def check_config(texts: Mapping[str, str]) -> tuple[BrokerConfig | None, list[Finding]]:
    """Return the config that `texts` describe, None if it cannot be used, and what is to say of it."""
    try:
        config, warnings = BrokerConfig.parse(texts)
    except ConfigError as error:
        how = "correct it; `odradek config list` prints every config with its range"
        return None, [Finding("config", PROBLEM, str(error), how)]
    found = [Finding("config", WARNING, text, "remove it, or correct its name") for text in warnings]
    return config, found or [Finding("config", OK, f"configs given: {len(texts)}" if texts else "the defaults")]


def check_data_dirs(config: BrokerConfig) -> Iterator[Finding]:
    """Yield what is to say of the data directories: what `odradek serve` refuses is a problem here."""
    try:
        check_whose(config.data_dir, config.data_dirs)
    except StartError as error:
        yield _refused(error)
        return
    for path in dict.fromkeys((config.data_dir, *config.data_dirs)):
        yield from _check_data_dir(path, config)


def check_cluster_security(config: BrokerConfig) -> Iterator[Finding]:
    """Yield what keeps a broker of a cluster from reaching others and ZooKeeper, as `odradek serve` would say it."""
    if config.zookeeper_connect is None:
        return
    try:
        from ..broker.cluster.zookeeper_login import zookeeper_security
    except ModuleNotFoundError as error:
        how = how_to_install("cluster")
        yield Finding(_CLUSTER, PROBLEM, f"zookeeper.connect needs {error.name}", how)
        return
    from ..broker.replication.inter_broker import InterBroker
    from ..broker.security.outgoing import check_is_super_user, own_principal
    from ..broker.security.pem import StoreError

    checks: tuple[Callable[[], object], ...] = (
        lambda: InterBroker(config),
        lambda: check_is_super_user(config),
        lambda: zookeeper_security(config),
    )
    errors: list[StoreError] = []
    for check in checks:
        try:
            check()
        except StoreError as error:
            errors.append(error)
            yield Finding(_CLUSTER, PROBLEM, str(error), "correct the config that it names (docs/security.md)")
    if not errors:
        listener = config.inter_broker_listener
        said = f"brokers reach each other at {listener} ({config.of_listener(listener).protocol}) as"
        yield Finding(_CLUSTER, OK, f"{said} {own_principal(config)}")


def _refused(error: StartError) -> Finding:
    text, _, remedy = str(error).rpartition(": ")
    return Finding(_DATA_DIRECTORY, PROBLEM, text or remedy, remedy if text else None)


def _check_data_dir(path: Path, config: BrokerConfig) -> Iterator[Finding]:
    """Yield whether a directory can be written, who uses it, room, the age of its files."""
    if not path.exists() and not path.is_symlink():
        yield from _new_data_dir(path)
        return
    if not path.is_dir():
        yield Finding(_DATA_DIRECTORY, PROBLEM, f"{path} is no directory", "name another one with --data-dir")
        return
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        how = f"run the broker as the owner of {path}, or change the owner: chown -R USER {path}"
        yield Finding(_DATA_DIRECTORY, PROBLEM, f"{path} cannot be written by user {os.geteuid()}", how)
        return
    yield from _state_of(path, config)
    yield from _space(path)
    yield from _future_files(path)


def _new_data_dir(path: Path) -> Iterator[Finding]:
    parent = next(each for each in path.absolute().parents if each.exists())
    if not parent.is_dir():
        how = "name another one with --data-dir"
        yield Finding(_DATA_DIRECTORY, PROBLEM, f"{parent} is no directory, so {path} cannot be made", how)
    elif os.access(parent, os.W_OK | os.X_OK):
        yield Finding(_DATA_DIRECTORY, OK, f"{path} does not exist; the first start makes it")
        yield from _space(parent)
    else:
        how = f"make it yourself, owned by the user of the broker, or name another one with --data-dir ({path})"
        yield Finding(_DATA_DIRECTORY, PROBLEM, f"{parent} cannot be written, so {path} cannot be made", how)


def _state_of(path: Path, config: BrokerConfig) -> Iterator[Finding]:
    try:
        refuse_strangers(path)
        meta = checkpoints.read_meta_properties(path)
        if meta is not None:
            refuse_others(path, meta, config.node_id, is_clustered=config.zookeeper_connect is not None)
    except StartError as error:
        yield _refused(error)
        return
    except StorageError as error:
        how = "restore meta.properties from a backup, or name another directory with --data-dir"
        yield Finding(_DATA_DIRECTORY, PROBLEM, f"{path} cannot be used: {error.message}", how)
        return
    if meta is None:
        yield Finding(_DATA_DIRECTORY, OK, f"{path} has no data yet")
    elif _is_in_use(path):
        yield Finding(_DATA_DIRECTORY, OK, f"{path} of cluster {meta.cluster_id} is in use by a broker")
    else:
        clean = (path / checkpoints.CLEAN_SHUTDOWN).exists()
        said = "the last stop was clean" if clean else "the last stop was not clean: the next start checks the logs"
        yield Finding(_DATA_DIRECTORY, OK, f"{path} of cluster {meta.cluster_id}: {said}")


def _is_in_use(path: Path) -> bool:
    """Return whether a broker holds the lock of a data directory."""
    import fcntl

    try:
        with open(path / ".lock", "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _space(path: Path) -> Iterator[Finding]:
    usage = shutil.disk_usage(path)
    room = f"{usage.free / 1e9:.1f} GB of {usage.total / 1e9:.1f} GB are free on the disk of {path}"
    if usage.free < max(_LOW_SPACE_BYTES, _LOW_SPACE_SHARE * usage.total):
        how = "free some space, or shorten retention: odradek config set log.retention.ms=... --all-brokers"
        yield Finding("disk space", WARNING, room, how)
    else:
        yield Finding("disk space", OK, room)


def _future_files(path: Path) -> Iterator[Finding]:
    """Yield a problem where a segment is younger than now: the clock was set back, and retention goes by time."""
    limit_s = time.time() + _CLOCK_SLACK_S
    for number, segment in enumerate(path.glob("*/*.log")):
        if number == _MAX_FILES:
            break
        with suppress(FileNotFoundError):  # a broker that runs removes segments meanwhile
            if segment.stat().st_mtime > limit_s:
                how = "set the clock; if it is right, records keep times in the future, and retention waits for them"
                yield Finding("clock", PROBLEM, f"{segment} is from the future: the clock was set back", how)
                return
