"""Commands on a terminal: tables that fit, completion by a real shell, questions, and Ctrl-C at several moments."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.cli import COMMANDS
from odradek.tests.support.documents.command import run, threaded_broker

pexpect = pytest.importorskip("pexpect", reason="a terminal is driven by pexpect")

# A test says what must come; a busy machine says when.
_WITHIN_S = 30
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
MODULE = ("-m", "odradek")
# The same command, which says when it handles signals: before that, while Python itself starts, nobody can.
ANNOUNCED = (
    "-c",
    """
import signal
from odradek.__main__ import run

def handled(*args):
    signal.signal = real
    before = real(*args)
    print("handled", flush=True)
    return before

real, signal.signal = signal.signal, handled
run()
""",
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with threaded_broker(tmp_path_factory.mktemp("terminal") / "data") as broker:
        assert run("topics", "create", "flights", "delays", "-b", broker.address).exit_code == 0
        offsets = ("--topic", "flights", "--to-earliest", "--execute")
        assert run("groups", "reset-offsets", "readers", *offsets, "-b", broker.address).exit_code == 0
        yield broker.address


@pytest.fixture
def terminals() -> Iterator[list[Any]]:
    """The terminals of a test, closed at its end."""
    opened: list[Any] = []
    yield opened
    for each in opened:
        each.close(force=True)


def spawn(
    terminals: list[Any],
    address: str,
    *args: str,
    program: str = sys.executable,
    begin: tuple[str, ...] = MODULE,
    **more: Any,
) -> Any:
    environment = {**os.environ, "ODRADEK_BOOTSTRAP_SERVER": address, "TERM": "xterm", **more.pop("env", {})}
    words = list(args) if program != sys.executable else [*begin, *args]
    child = pexpect.spawn(program, words, env=environment, encoding="utf-8", timeout=_WITHIN_S, **more)
    terminals.append(child)
    return child


def rest_of(child: Any) -> tuple[int | None, str]:
    """The status, and what was printed until the end, without colours."""
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus, _COLOURS.sub("", child.before).replace("\r\n", "\n")


def test_a_terminal_gets_a_table_with_titles(address: str, terminals: list[Any]) -> None:
    status, text = rest_of(spawn(terminals, address, "topics", "list"))
    assert (status, [line.split() for line in text.splitlines()]) == (
        0,
        [["TOPIC", "PARTITIONS"], ["delays", "1"], ["flights", "1"]],
    )


@pytest.mark.parametrize("choice", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_without_colours_gets_none(address: str, terminals: list[Any], choice: dict[str, str]) -> None:
    child = spawn(terminals, address, "topics", "list", env=choice)
    child.expect(pexpect.EOF)
    assert "TOPIC" in child.before and "\x1b" not in child.before


def test_the_doctor_cuts_no_remedy(address: str, terminals: list[Any], tmp_path: Path) -> None:
    status, text = rest_of(spawn(terminals, address, "doctor", "--set", "num.partition=1", cwd=str(tmp_path)))
    assert status == 0
    assert "warning config: config num.partition: unknown (did you mean num.partitions?)" in text
    assert "        -> remove it, or correct its name\n" in text
    assert "ok      advertised address: clients are told" in text


def test_the_end_of_input_deletes_nothing(address: str, terminals: list[Any]) -> None:
    child = spawn(terminals, address, "topics", "delete", "flights")
    child.expect(r"\[y/N\]: ")
    child.sendeof()
    status, text = rest_of(child)
    assert status == 1 and text.strip("\n^D\b") == "odradek: nothing was deleted"


def test_a_question_is_asked_and_no_deletes_nothing(address: str, terminals: list[Any]) -> None:
    child = spawn(terminals, address, "topics", "delete", "flights")
    child.expect_exact("Delete topic flights and all its records? [y/N]: ")
    child.sendline("n")
    status, text = rest_of(child)
    assert status == 1 and text.strip().endswith("odradek: nothing was deleted")


@pytest.mark.parametrize(
    ("args", "after"),
    [
        (("serve", "--listen", "127.0.0.1:0"), "ready "),
        (("consume", "flights"), None),
        (("consume", "flights", "--group", "stopped"), None),
        (("produce", "flights"), None),
        (("topics", "delete", "flights"), r"\[y/N\]"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_ctrl_c_is_no_traceback(
    args: tuple[str, ...], after: str | None, at_once: bool, address: str, terminals: list[Any], tmp_path: Path
) -> None:
    """At once: somewhere in the imports. Otherwise while the command waits: for its prompt, or for records."""
    child = spawn(terminals, address, *args, begin=ANNOUNCED if at_once else MODULE, cwd=str(tmp_path))
    if at_once:
        child.expect("handled")
    else:
        wait_until_it_waits(child, after)
    child.kill(signal.SIGINT) if at_once else child.sendintr()
    status, text = rest_of(child)
    assert "Traceback" not in text, text
    ended_well = {0, 130} if args[0] in ("serve", "consume") else {130}
    assert status in ended_well, (status, text)


def wait_until_it_waits(child: Any, after: str | None) -> None:
    """For a prompt; or until the process is connected and sleeps."""
    sockets = Path(f"/proc/{child.pid}/fd")
    if not sockets.exists():
        pytest.skip("this system does not show what a process waits for")
    if after is not None:
        child.expect(after)
        # A signal just before the read of an answer only interrupts the next read: Python's readline misses it.
        while child.isalive() and " S " not in (sockets.parent / "stat").read_text():
            pass
        return
    while child.isalive():
        try:
            if any(os.readlink(each).startswith("socket:") for each in sockets.iterdir()):
                return
        except OSError:
            continue  # it was closed meanwhile


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A folder with the command `odradek`."""
    (tmp_path / "odradek").write_text(f'#!/bin/sh\nexec {sys.executable} -m odradek "$@"\n')
    (tmp_path / "odradek").chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("shell", "options", "prepare"),
    [
        ("bash", ("--norc", "--noprofile", "-i"), 'bind "set enable-bracketed-paste off"'),
        ("zsh", ("-f", "-i"), "autoload -U compinit; compinit -u -D"),
    ],
)
def test_a_shell_completes_commands_topics_and_groups(
    shell: str, options: tuple[str, ...], prepare: str, address: str, terminals: list[Any], program: Path
) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    path = f"{program}:{os.environ['PATH']}"
    # An activated environment may export a prompt without a sign at its end.
    env = {"PATH": path, "HOME": str(program), "PS1": "$ "}
    child = spawn(terminals, address, *options, program=shell, env=env, echo=True)
    child.expect("[>#%$] ")
    child.sendline(f"""{prepare}; eval "$(odradek completion {shell})"; echo re""ady""")
    child.expect_exact("ready\r\n")
    press_tab(child, "odradek topics desc", "ribe")
    press_tab(child, "fli", "ghts")
    child.sendline("")
    child.expect("flights +0 +1")
    press_tab(child, "odradek groups describe rea", "ders")
    child.sendline("")
    child.expect("readers +flights +0")
    child.sendline("exit")
    assert "Traceback" not in rest_of(child)[1]


def press_tab(child: Any, typed: str, completed: str) -> None:
    """Type and press Tab, again as a person would: where the broker needs more than a second, nothing is completed."""
    child.send(typed)
    for _ in range(3):
        child.send("\t")
        if child.expect_exact([completed, pexpect.TIMEOUT], timeout=_WITHIN_S / 3) == 0:
            return
    raise AssertionError(f"Tab behind {typed!r} did not give {completed!r}: {child.before!r}")


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish_completes_commands_topics_and_groups_with_whole_descriptions(address: str, program: Path) -> None:
    path = f"{program}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(program), "ODRADEK_BOOTSTRAP_SERVER": address}

    def completed(line: str) -> list[str]:
        script = f"odradek completion fish | source; complete -C {line!r}"
        command = ["fish", "--no-config", "-c", script]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
        assert ended.stderr == ""
        return ended.stdout.splitlines()

    assert completed("odradek topi") == [f"topics\t{COMMANDS['topics']}"], "it has commas"
    assert completed("odradek topics describe fl") == ["flights"]
    assert completed("odradek topics describe ") == ["delays", "flights"]
    assert completed("odradek consume flights --group r") == ["readers"]
