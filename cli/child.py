"""`odradek serve --registry` and `--console`: a process over this broker, which lives as long as the broker.

The child reads the configs of its clients, which may hold a password, from its standard input, and ends when that
ends: so it never outlives the broker, also one that was killed. If it dies first, a line in the log says so, and the
broker serves on.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .errors import CliError
from .private_file import write_private
from .profile_file import FILE_VARIABLE

log = logging.getLogger("odradek.broker")

# What a command runs.
NAMES = {"registry": "schema registry", "console": "console"}

# A change that is under way gets its answer before: as the registry's own bound, and some more.
STOPS_WITHIN_S = 25.0
# How often a process that may not outlive its parent looks for it.
_LOOK_AGAIN_S = 0.1
# Where one on this machine reaches what listens everywhere; `[::]` is everywhere by IPv6 alone.
_REACHED_AT = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
_LOGIN_FILE = "registry.login"
_LOGIN = re.compile(r'username="([^"]*)" password="([^"]*)"')


class Child:
    """The process of a schema registry or a console. `start` when the broker is ready, `stop` when it stops."""

    def __init__(
        self, command: str, listen: str, options: Sequence[str] = (), configs: Mapping[str, str] | None = None
    ) -> None:
        """`configs` are those of Kafka's clients by Kafka's names, `options` those of `odradek COMMAND`."""
        self._name = NAMES[command]
        self._command = [sys.executable, "-P", "-m", "odradek", command, "--as-child", "--listen", listen, *options]
        self._configs = dict(configs or {})
        self._process: subprocess.Popen[str] | None = None
        self._watcher: threading.Thread | None = None
        self._is_stopping = False

    def start(self, address: str) -> None:
        """Start it over the broker at an address."""
        # The profiles of the user are about other brokers.
        environment = os.environ | {FILE_VARIABLE: os.devnull}
        command = [*self._command, "-b", address]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
        )
        self._process = process
        self._watcher = threading.Thread(target=self._watch, args=(process,), name=self._name, daemon=True)
        self._watcher.start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(self._configs) + "\n")
            process.stdin.flush()
        except OSError:
            log.debug("the %s ended at once", self._name)  # its watcher says so

    def _watch(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            log.info("the %s is %s", self._name, line.strip())
        status = process.wait()
        if not self._is_stopping:
            log.error("the %s has ended with status %d; the broker goes on without it", self._name, status)

    def begin_stop(self) -> None:
        """Have it end, without waiting."""
        self._is_stopping = True
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """Have it end, and wait. Idempotent."""
        self.begin_stop()
        process, self._process = self._process, None
        if process is None or self._watcher is None:
            return
        self._watcher.join(STOPS_WITHIN_S)
        if self._watcher.is_alive():
            process.kill()
            self._watcher.join()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def secure_options(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return the options and client configs of a child of a broker of `--secure`: its certificate and its user."""
    from ..broker.configs.properties import load

    configs = {name: value for name, value in load(folder / "client.properties").items() if name != "bootstrap.servers"}
    found = _LOGIN.search(configs.get("sasl.jaas.config", ""))
    if found is None:
        raise CliError(f"{folder / 'client.properties'} has no user and password for what runs beside the broker")
    login = folder / _LOGIN_FILE
    write_private(login, f"{found[1]}:{found[2]}\n")
    return ["--tls-cert", str(folder / "broker.pem"), "--login-file", str(login)], configs


def registry_options(listen: str, folder: Path | None) -> list[str]:
    """Return the options of a console beside a registry that listens there; with `folder` its broker is secure.

    There are none where the system chooses the port: it is not known yet.
    """
    host, _, port = listen.rpartition(":")
    address = f"{_REACHED_AT.get(host, host)}:{port}"
    if port == "0":
        return []
    if folder is None:
        return ["--registry", f"http://{address}"]
    login, ca = str(folder / _LOGIN_FILE), str(folder / "ca.pem")
    return ["--registry", f"https://{address}", "--registry-login-file", login, "--registry-ca", ca]


def read_configs() -> dict[str, str]:
    """Return the configs that the parent writes, in the child."""
    return json.loads(sys.stdin.readline() or "{}")


def end_with_parent(end: Callable[[], None]) -> None:
    """Call `end` when the parent has ended, in the child: then standard input ends."""

    def wait() -> None:
        sys.stdin.read()
        end()

    threading.Thread(target=wait, name="parent", daemon=True).start()


def end_without_parent(end: Callable[[], None]) -> None:
    """Call `end` when the process has ended that started this one, also where standard input is not its.

    It may have ended before this is called. Then this process has another parent, one that takes in orphans, such as
    init. That one is of another session, as the real parent is only where this process leads a session of its own.
    """
    parent, session = os.getppid(), os.getsid(0)
    try:
        is_orphan = session != os.getpid() and os.getsid(parent) != session
    except ProcessLookupError:
        # It has ended just now.
        is_orphan = True

    def wait() -> None:
        while os.getppid() == parent and not is_orphan:
            time.sleep(_LOOK_AGAIN_S)
        end()

    threading.Thread(target=wait, name="parent", daemon=True).start()
