"""The commands that ask a broker, as scripts use them: what they print, and their status."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess

import pytest
from click.testing import CliRunner
from odradek.cli import main
from odradek.client import Admin, Consumer
from odradek.tests.support.brokers.lines import Lines
from odradek.tests.support.documents.command import command_line, odradek, printed, rejected


def test_a_topic_from_birth_to_death(broker: str) -> None:
    assert printed(broker, "topics", "create", "life", "--partitions", "3", "--config", "segment.bytes=2000000") == []
    assert "life\t3" in printed(broker, "topics", "list")
    assert printed(broker, "topics", "describe", "life")[2] == "life\t2\t1\t1\t1\t0\t0\t0\t0"
    configs = printed(broker, "topics", "describe", "life", "--configs")
    assert "life\tsegment.bytes\t2000000\tyes\t2 MB" in configs
    assert "life\tsegment.ms\t604800000\tno\t7 d" in configs
    assert "already exists" in rejected(broker, "topics", "create", "life")
    assert printed(broker, "topics", "create", "life", "--if-not-exists") == []
    assert "nothing was deleted" in rejected(broker, "topics", "delete", "life")
    assert printed(broker, "topics", "delete", "life", "--yes") == []
    assert "does not exist" in rejected(broker, "topics", "delete", "life", "--yes")
    assert printed(broker, "topics", "delete", "life", "--if-exists", "--yes") == []
    assert not any(line.startswith("life\t") for line in printed(broker, "topics", "list"))


def test_every_item_of_a_list_is_tried_and_the_status_counts_failures(broker: str) -> None:
    assert printed(broker, "topics", "create", "one", "two") == []
    ended = odradek(broker, "topics", "delete", "missing", "one", "absent", "two", "--yes")
    assert ended.returncode == 12, "10 and the number of failures: 2 is wrong usage"
    assert [line.split("'")[1] for line in ended.stderr.splitlines()[:2]] == ["missing", "absent"]
    assert ended.stderr.splitlines()[2] == "odradek: 2 of 4 failed"
    assert not {"one\t1", "two\t1"} & set(printed(broker, "topics", "list"))
    assert "nothing was deleted" in rejected(broker, "groups", "delete", "nobody")
    assert odradek(broker, "groups", "delete", "nobody", "noone", "--yes").returncode == 12


def test_configs_of_a_missing_topic_are_an_error_at_once(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait of a day would end the test by its time-out."""
    monkeypatch.setattr("odradek.cli.session.PATIENCE_MS", 86_400_000)
    for args in (["describe"], ["set", "retention.ms=1000"]):
        result = CliRunner().invoke(main, ["config", *args, "--topic", "nope", "-b", broker])
        assert result.exit_code == 1 and "'nope' does not exist" in result.stderr, result.stderr


def test_what_the_broker_refuses_is_said_in_its_words(broker: str) -> None:
    assert "preallocate=true" in rejected(broker, "topics", "create", "x", "--config", "preallocate=true")
    assert "INVALID_TOPIC" in rejected(broker, "topics", "create", "a/b")
    assert "INVALID_REPLICATION_FACTOR" in rejected(broker, "topics", "create", "x", "--replication-factor", "3")
    assert "'nothing'" in rejected(broker, "topics", "describe", "nothing")
    assert "'nothing'" in rejected(broker, "consume", "nothing")
    assert "'nothing'" in rejected(broker, "groups", "describe", "nothing")


def test_consume_prints_what_is_there(broker: str, numbers: str) -> None:
    lines = printed(broker, "consume", numbers, "--until-end")
    assert sorted(lines) == sorted([str(number) for number in range(100)] * 2)
    assert printed(broker, "consume", numbers, "--partition", "1", "--from", "97", "--until-end") == ["97", "98", "99"]
    assert len(printed(broker, "consume", numbers, "--max", "7")) == 7
    assert printed(broker, "consume", numbers, "--max", "0") == []
    assert printed(broker, "consume", numbers, "--from", "latest", "--until-end") == []
    assert printed(broker, "consume", numbers, "--max", "1", "--key-separator", "=") == ["k=0"]


def test_consume_as_json(broker: str, numbers: str) -> None:
    (line,) = printed(broker, "consume", numbers, "--partition", "1", "--from", "5", "--max", "1", "--json")
    row = json.loads(line)
    assert row.pop("timestamp").endswith("Z")
    wanted = {"topic": numbers, "partition": 1, "offset": 5, "key": "k", "value": "5", "headers": [["h", "x"]]}
    assert row == wanted


def test_a_group_goes_on_where_it_left_off_and_shows_its_lag(broker: str, numbers: str) -> None:
    assert len(printed(broker, "consume", numbers, "--group", "readers", "--max", "150")) == 150
    rows = [line.split("\t") for line in printed(broker, "groups", "describe", "readers")]
    assert [row[:3] for row in rows] == [["readers", numbers, "0"], ["readers", numbers, "1"]]
    assert sum(int(row[3]) for row in rows) == 150 and sum(int(row[5]) for row in rows) == 50
    assert len(printed(broker, "consume", numbers, "--group", "readers", "--until-end")) == 50
    assert "readers\tEmpty\tconsumer\tconsumer" in printed(broker, "groups", "list")


async def test_reading_along_in_a_classic_group_leaves_it_classic(broker: str, numbers: str) -> None:
    async with Consumer(numbers, bootstrap_servers=broker, group_id="old", group_protocol="classic") as member:
        await member.getmany(timeout_ms=5000)
        command = command_line(broker, "consume", numbers, "--group", "old")
        along = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        try:
            async with asyncio.timeout(30), Admin(bootstrap_servers=broker) as admin:
                while len((described := (await admin.describe_groups("old"))["old"]).members) < 2:
                    await member.getmany(timeout_ms=100)
            assert described.type == "classic"
        finally:
            along.kill()
            await along.wait()


def test_ctrl_c_commits_what_was_printed_and_leaves_the_group(broker: str, numbers: str) -> None:
    shown = command_line(broker, "consume", numbers, "--group", "stopped")
    with subprocess.Popen(shown, stdout=subprocess.PIPE, text=True) as run:
        try:
            said = Lines(run)
            lines = [said.next(60) for _ in range(200)]
            members = [line.split("\t") for line in printed(broker, "groups", "describe", "stopped", "--members")]
            assert [row[1] for row in members] == ["Stable"] and members[0][-1] == "numbers-0,numbers-1"
            run.send_signal(signal.SIGINT)
            assert run.wait(15) == 0
        finally:
            run.kill()
            said.rest()
    assert len(set(lines)) == 100
    assert [line.split("\t")[5] for line in printed(broker, "groups", "describe", "stopped")] == ["0", "0"]
    assert printed(broker, "groups", "describe", "stopped", "--members")[0].split("\t")[1] == "Empty"


@pytest.mark.parametrize(
    "args",
    [
        ("consume", "t", "--from", "yesterday"),
        ("consume", "t", "--group", "g", "--from", "5"),
        ("consume", "t", "--group", "g", "--partition", "0"),
        ("topics", "create", "t", "--config", "segment.bytes"),
        ("topics", "create", "t", "--partitions", "0"),
        ("topics", "create"),
    ],
)
def test_wrong_usage_has_status_2(broker: str, args: tuple[str, ...]) -> None:
    assert odradek(broker, *args).returncode == 2
