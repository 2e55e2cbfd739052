"""What commands do with output that fails, closed streams and Ctrl-C: one line or none, never a traceback."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ODRADEK = f"{sys.executable} -m odradek"
# A table with a character that Latin-1 lacks.
TABLE = f'{ODRADEK} sql "select chr(337)"'


def shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=30, check=False)


# What every command writes: tests/cli/test_every_command.py.
@pytest.mark.parametrize("command", ["config list --json", "serve --help", "--help", "--version"])
def test_a_full_disk_is_one_line(command: str) -> None:
    ended = shell(f"{ODRADEK} {command} > /dev/full")
    assert ended.returncode == 1
    assert ended.stderr == "odradek: cannot write to standard output: No space left on device\n"


@pytest.mark.parametrize("command", ["config list", "--version"])
def test_a_closed_output_is_one_line(command: str) -> None:
    ended = shell(f"{ODRADEK} {command} >&-")
    assert (ended.returncode, ended.stderr) == (1, "odradek: cannot write to standard output: Bad file descriptor\n")


def test_a_reader_that_goes_away_is_no_message() -> None:
    ended = shell(f"{ODRADEK} config list | head -1; echo ${{PIPESTATUS[0]}}")
    assert ended.stderr == ""
    assert ended.stdout.splitlines()[-1] in ("141", "0"), "0 if the pipe took everything before its reader went"


def test_a_closed_input_is_one_line() -> None:
    ended = shell(f"{ODRADEK} --version <&- && {ODRADEK} --version 2>&-")
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("command", "module"),
    [
        *(("serve", each) for each in ("click", "odradek.cli", "odradek.cli.serve", "odradek.broker.server", "uvloop")),
        *(("topics list", each) for each in ("odradek.client.errors", "odradek.client.core.connection")),
    ],
)
def test_ctrl_c_while_modules_are_imported_is_status_130(command: str, module: str, tmp_path: Path) -> None:
    code = f"""
import os, signal, sys
class Interrupt:
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(Interrupt)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt)
from odradek.__main__ import run
run()
"""
    options = ["--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data")] if command == "serve" else []
    line = [sys.executable, "-c", code, *command.split(), *options]
    ended = subprocess.run(line, capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stderr) == (130, "")


@pytest.mark.skipif(not shutil.which("unshare") or os.geteuid() != 0, reason="needs unshare and root")
def test_process_1_handles_sigterm_before_it_serves() -> None:
    code = "import os, signal, odradek.__main__ as m, odradek.cli; "
    code += "odradek.cli.main = lambda **_: os.kill(1, signal.SIGTERM); m.run(); print('ignored')"
    probe = subprocess.run(["unshare", "-pf", "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("no new process namespace is allowed here")
    ended = subprocess.run(
        ["unshare", "-pf", sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=False
    )
    assert (ended.returncode, ended.stdout) == (128 + signal.SIGTERM, "")


def test_characters_that_the_output_lacks_are_escaped() -> None:
    ended = shell(f"PYTHONIOENCODING=latin-1 {TABLE}")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.endswith("\\u0151\n")
