"""`odradek cluster start`: several brokers and a ZooKeeper on this machine, to try a cluster.

Each broker is a process of its own, so that each has a core. The contract is that of `serve`: the first line on
standard output is `ready` and the addresses, and SIGTERM or Ctrl-C ends everything with status 0.
"""

from __future__ import annotations

import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType
from typing import cast

import click

from .errors import CliError
from .values import WholeNumber

ZOOKEEPER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
DEBIAN_JARS = Path("/usr/share/java")
STARTS_WITHIN_S = 60.0
# A broker stops within 10 s; a controlled shutdown comes before.
STOPS_WITHIN_S = 30.0


@click.command(short_help="Run several brokers and a ZooKeeper on this machine.")
@click.option("--nodes", metavar="N", type=WholeNumber(1, 9), default=3, show_default=True, help="Brokers to run.")
@click.option("--port", metavar="PORT", type=WholeNumber(1, 65535), default=9092, show_default=True,
              help="The first broker's port.")  # fmt: skip
@click.option("--data-dir", type=click.Path(path_type=Path), default="odradek-cluster", show_default=True,
              help="Everything that the cluster keeps.")  # fmt: skip
@click.option("--zookeeper", metavar="HOST:PORT", help="A ZooKeeper that runs already. Otherwise one is started.")
@click.option("--zookeeper-jars", type=click.Path(exists=True, path_type=Path), metavar="DIR",
              help="A folder with ZooKeeper's jars, such as libs of Kafka 3.  [default: Debian's package]")  # fmt: skip
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A config for every broker; repeatable.")
def start(
    nodes: int, port: int, data_dir: Path, zookeeper: str | None, zookeeper_jars: Path | None, settings: tuple[str, ...]
) -> None:
    """Run brokers on consecutive ports, with a ZooKeeper on the port below the first, until SIGTERM or Ctrl-C.

    Standard error says which process is which broker: kill one to see the others go on.

    \b
    Examples:
      odradek cluster start
      odradek cluster start --nodes 5 --zookeeper 127.0.0.1:2181
      odradek cluster start --set zookeeper.session.timeout.ms=4000
    """
    signal.signal(signal.SIGTERM, _interrupt)
    with ExitStack() as running:
        try:
            if zookeeper is None:
                zookeeper = _start_zookeeper(running, data_dir / "zookeeper", port - 1, zookeeper_jars)
            # The last one that was started is stopped first, and the ZooKeeper after all of them.
            brokers = [
                _start_broker(running, data_dir, number, port + number - 1, zookeeper, nodes, settings)
                for number in range(1, nodes + 1)
            ]
            addresses = [_ready(each, _log_of(data_dir, number)) for number, each in enumerate(brokers, 1)]
            for number, (each, address) in enumerate(zip(brokers, addresses, strict=True), 1):
                click.echo(f"broker {number} is process {each.pid} at {address}", err=True)
            click.echo(f"ready {','.join(addresses)}")
            _watch(brokers, data_dir)
        except KeyboardInterrupt:
            return
    raise CliError(f"every broker has ended: see {data_dir}/broker-N.log")


def _watch(brokers: list[subprocess.Popen[str]], data_dir: Path) -> None:
    """Wait until every broker has ended. The others go on without one that was killed."""
    alive = dict(enumerate(brokers, 1))
    while alive:
        time.sleep(0.2)
        for number in [number for number, each in alive.items() if each.poll() is not None]:
            ended = alive.pop(number)
            click.echo(f"broker {number} has ended: see {_log_of(data_dir, number)}", err=True)
            if alive:
                command = shlex.join(cast("list[str]", ended.args))
                click.echo(f"the others go on; start it again with: {command}", err=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _start_broker(
    running: ExitStack, data_dir: Path, number: int, port: int, zookeeper: str, nodes: int, settings: tuple[str, ...]
) -> subprocess.Popen[str]:
    copies = min(nodes, 3)
    configs = {
        "zookeeper.connect": f"{zookeeper}/odradek",
        "broker.id": number,
        "default.replication.factor": copies,
        "min.insync.replicas": max(copies - 1, 1),
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": max(copies - 1, 1),
    }
    command = [sys.executable, "-P", "-m", "odradek", "serve", "--listen", f"127.0.0.1:{port}"]
    command += ["--data-dir", str(data_dir / f"broker-{number}")]
    for name, value in configs.items():
        command += ["--set", f"{name}={value}"]
    # The last one of a name counts.
    for each in settings:
        command += ["--set", each]
    data_dir.mkdir(parents=True, exist_ok=True)
    log = running.enter_context(_log_of(data_dir, number).open("a"))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
    running.callback(_stop, process)
    return process


def _log_of(data_dir: Path, number: int) -> Path:
    return data_dir / f"broker-{number}.log"


def _ready(broker: subprocess.Popen[str], log: Path) -> str:
    """Return the address of a broker once clients can connect. Raises CliError with the last line of its log."""
    assert broker.stdout is not None
    word, _, address = broker.stdout.readline().strip().partition(" ")
    if word != "ready":
        lines = log.read_text(errors="replace").splitlines()
        why = lines[-1].removeprefix("odradek: ") if lines else "it has ended"
        raise CliError(f"a broker did not start: {why} (see {log})")
    return address


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOPS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


# -- ZooKeeper


def _start_zookeeper(running: ExitStack, directory: Path, port: int, jars: Path | None) -> str:
    if _listens(port):
        raise CliError(f"port {port}, the one below --port, is taken, and ZooKeeper needs it: choose another --port")
    if shutil.which("java") is None:
        raise CliError("ZooKeeper needs Java, and there is none: install it, or give --zookeeper HOST:PORT")
    jars = jars or (DEBIAN_JARS if (DEBIAN_JARS / "zookeeper.jar").exists() else None)
    if jars is None:
        raise CliError("no ZooKeeper is installed: apt install zookeeper, or give --zookeeper-jars or --zookeeper")
    directory.mkdir(parents=True, exist_ok=True)
    settings = directory / "zoo.cfg"
    lines = ["tickTime=2000", f"dataDir={directory.absolute()}", f"clientPort={port}", "clientPortAddress=127.0.0.1"]
    settings.write_text("\n".join([*lines, "admin.enableServer=false", ""]))
    log = running.enter_context((directory / "zookeeper.log").open("a"))
    command = ["java", "-Xmx256m", "-cp", f"{jars}/*", ZOOKEEPER, str(settings)]
    process = subprocess.Popen(command, stdout=log, stderr=log, text=True, start_new_session=True)
    running.callback(_stop, process)
    deadline = time.monotonic() + STARTS_WITHIN_S
    while not _listens(port):
        if process.poll() is not None or time.monotonic() > deadline:
            raise CliError(f"ZooKeeper did not start: see {directory}/zookeeper.log")
        time.sleep(0.1)
    return f"127.0.0.1:{port}"


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
