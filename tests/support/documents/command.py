"""Commands of the command line, run in the test's own process against a broker in a thread."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory

from click.testing import CliRunner, Result
from odradek.__main__ import run as run_as_process
from odradek.broker import Broker, BrokerConfig
from odradek.cli import COMMANDS, main
from odradek.cli.command_line import _SHARED
from odradek.tests.support.brokers.process import FEW_PARTITIONS

COMMAND_ENDS_WITHIN_S = 60.0
_NEW_FILE = os.O_WRONLY | os.O_CREAT
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([__name__, *(f"odradek.cli.{name}" for name in COMMANDS.keys() - _SHARED)])


def run(*args: str | Path, stdin: bytes | None = None) -> Result:
    """Run a command; its exceptions are the test's, except those that end a command."""
    result = CliRunner().invoke(main, [str(arg) for arg in args], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def rows(*args: str | Path) -> list[list[str]]:
    """Run a command that must succeed; return its output as cells."""
    result = run(*args)
    assert result.exit_code == 0, result.output
    return [line.split("\t") for line in result.stdout.splitlines()]


def completed(*args: str | Path, stdin: bytes = b"") -> CompletedProcess[str]:
    """Run a command as a process; return its status and what it printed.

    The process is forked from one that has imported the command line, so it costs a tenth of one that imports.
    """
    with TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("stdin", "stdout", "stderr")]
        files[0].write_bytes(stdin)
        status = ended(start(args, files), files[2])
        return CompletedProcess(args, status, files[1].read_text("utf-8"), files[2].read_text("utf-8"))


def odradek(address: str, *args: str) -> CompletedProcess[str]:
    """Run a command as a process against the broker at `address`."""
    return completed(*args, "--bootstrap-server", address)


def command_line(address: str, *args: str) -> list[str]:
    """Return what starts a command as a process of its own, against the broker at `address`."""
    return [sys.executable, "-m", "odradek.broker", *args, "--bootstrap-server", address]


def printed(address: str, *args: str) -> list[str]:
    """Run a command that must succeed and say nothing on standard error; return the lines that it printed."""
    done = odradek(address, *args)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()


def rejected(address: str, *args: str) -> str:
    """Run a command that must fail and print nothing; return its one line on standard error."""
    done = odradek(address, *args)
    assert (done.returncode, done.stdout) == (1, ""), done.stdout
    assert done.stderr.startswith("odradek: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def start(args: Sequence[str | Path], files: list[Path]) -> BaseProcess:
    """Start a command as a process with these files as standard input, output and error."""
    task = [str(arg) for arg in args], files, dict(os.environ), Path.cwd()
    process = _FORKS.Process(target=_command, args=task)
    process.start()
    return process


def ended(process: BaseProcess, stderr: Path) -> int:
    """Wait for the end of a command that `start` started; return its status."""
    process.join(COMMAND_ENDS_WITHIN_S)
    if process.exitcode is None:
        process.kill()
    assert process.exitcode is not None, f"the command did not end; it printed {stderr.read_text()!r}"
    return process.exitcode


def _command(args: list[str], files: list[Path], environment: dict[str, str], folder: Path) -> None:
    """In the forked process: be the command."""
    for number, (file, flags) in enumerate(zip(files, (os.O_RDONLY, _NEW_FILE, _NEW_FILE), strict=True)):
        os.dup2(os.open(file, flags), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 -- it lives as long as the process
    # As users have it, also where PYTHONUNBUFFERED is set for the tests.
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 -- it lives as long as the process
    sys.argv = ["odradek", *args]
    run_as_process()


@contextmanager
def threaded_broker(folder: Path, **configs: object) -> Iterator[Broker]:
    """A broker in a thread of its own, on a free port."""
    places = {"listeners": ("PLAINTEXT://127.0.0.1:0",), "log_dirs": (str(folder),)}
    with Broker(BrokerConfig(**FEW_PARTITIONS | places | configs)) as broker:  # type: ignore[arg-type]
        yield broker
