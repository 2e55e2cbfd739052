"""Completion: the scripts, and the names of topics and groups; silent without a broker. The manual page."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from odradek.cli import COMMANDS, main
from odradek.client import Consumer, OffsetAndMetadata, TopicPartition
from odradek.tests.support.documents.command import run, threaded_broker


def completed(*words: str) -> list[str]:
    """What the shell is offered for the last word."""
    *before, incomplete = words
    return [each.value for each in BashComplete(main, {}, "odradek", "_X").get_completions(before, incomplete)]


def commit(address: str, group: str) -> None:
    async def work() -> None:
        async with Consumer(bootstrap_servers=address, group_id=group) as consumer:
            await consumer.commit({TopicPartition("flights", 0): OffsetAndMetadata(0)})

    asyncio.run(work())


def test_topics_and_groups_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with threaded_broker(tmp_path) as broker:
        assert run("topics", "create", "flights", "delays", "-b", broker.address).exit_code == 0
        commit(broker.address, "readers")
        run("profile", "set", "here", f"bootstrap.servers={broker.address}")
        assert completed("consume", "--profile", "here", "f") == ["flights"]
        assert completed("consume", "-b", broker.address, "") == ["delays", "flights"]
        monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", broker.address)
        assert completed("topics", "describe", "d") == ["delays"]
        assert completed("topics", "delete", "delays", "fl") == ["flights"]
        assert completed("produce", "") == ["delays", "flights"]
        assert completed("groups", "describe", "") == ["readers"]
        assert completed("groups", "reset-offsets", "r") == ["readers"]
        assert completed("consume", "t", "--group", "") == ["readers"]
        assert completed("config", "describe", "--topic", "fli") == ["flights"]
        assert completed("topics", "create", "fli") == [], "a new topic has a new name"


def test_commands_and_options_are_completed() -> None:
    assert completed("to") == ["topics"]
    assert set(completed("")) == set(COMMANDS)
    assert "--partitions" in completed("topics", "create", "--p")
    assert completed("completion", "z") == ["zsh"]


def test_without_a_broker_or_with_a_bad_profile_it_is_silent(own_settings: Path) -> None:
    assert completed("consume", "-b", "127.0.0.1:1", "") == []
    own_settings.write_text("= =")
    assert completed("consume", "") == []
    words = {"COMP_WORDS": "odradek consume ", "COMP_CWORD": "2", "_ODRADEK_COMPLETE": "bash_complete"}
    ended = subprocess.run(
        [sys.executable, "-m", "odradek"], env=os.environ | words, capture_output=True, text=True, check=False
    )
    assert (ended.stdout.strip(), ended.stderr) == ("", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_the_shell_reads(shell: str) -> None:
    script = run("completion", shell).stdout
    assert "_ODRADEK_COMPLETE" in script
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    checked = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_an_unknown_shell_is_wrong_usage() -> None:
    assert run("completion", "tcsh").exit_code == 2


def test_the_manual_page_has_every_command_and_what_scripts_rely_on() -> None:
    page = run("man").stdout
    assert page.startswith(".TH ODRADEK 1 ")
    assert all(f".SS odradek {name}" in page for name in COMMANDS)
    for words in (".SS odradek groups reset\\-offsets", ".SH EXIT STATUS", "ODRADEK_PROFILE", "\\-\\-isolation"):
        assert words in page
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    made = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], input=page, capture_output=True, text=True, check=False)
    assert made.returncode == 0 and "warning" not in made.stderr
