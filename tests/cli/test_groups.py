"""`odradek groups` against a broker process: lag, resets, deletion, and why a group rebalanced."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka import Producer
from odradek.tests.support.brokers.lines import first_line
from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.documents.command import odradek, printed, rejected


def command(address: str, *args: str) -> list[str]:
    return [sys.executable, "-m", "odradek.broker", *args, "--bootstrap-server", address]


def reset(address: str, group: str, *args: str) -> dict[str, list[int]]:
    """Partition -> committed before, and after."""
    done = odradek(address, "groups", "reset-offsets", group, *args, "--json")
    assert done.returncode == 0, done.stderr
    assert ("a dry run" in done.stderr) == ("--execute" not in args), done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {f"{row['topic']}-{row['partition']}": [row["committed"], row["new_offset"]] for row in lines}


def lags(address: str, group: str) -> list[int]:
    return [json.loads(line)["lag"] for line in printed(address, "groups", "describe", group, "--offsets", "--json")]


def test_a_reset_is_shown_first_and_done_when_it_is_meant(broker: str, numbers: str) -> None:
    printed(broker, "consume", numbers, "--group", "moved", "--until-end")
    assert lags(broker, "moved") == [0, 0]
    ended = odradek(broker, "groups", "reset-offsets", "moved", "--to-earliest")
    assert ended.stdout.splitlines() == [
        "moved\tnumbers\t0\t100\t0\t0\t100\t100",
        "moved\tnumbers\t1\t100\t0\t0\t100\t100",
    ]
    assert ended.stderr == "odradek: a dry run, nothing has changed; --execute does it\n"
    assert lags(broker, "moved") == [0, 0]
    assert odradek(broker, "groups", "reset-offsets", "moved", "--to-earliest", "--execute").stderr == ""
    assert lags(broker, "moved") == [100, 100]
    assert len(printed(broker, "consume", numbers, "--group", "moved", "--until-end")) == 200


def test_every_way_to_say_where_to(broker: str, numbers: str) -> None:
    assert reset(broker, "fresh", "--topic", numbers, "--to-offset", "40", "--execute") == {
        "numbers-0": [None, 40],
        "numbers-1": [None, 40],
    }
    assert reset(broker, "fresh", "--shift-by", "-15", "--execute") == {"numbers-0": [40, 25], "numbers-1": [40, 25]}
    assert reset(broker, "fresh", "--shift-by", "5000") == {"numbers-0": [25, 100], "numbers-1": [25, 100]}
    assert reset(broker, "fresh", "--topic", "numbers:1", "--to-latest", "--execute") == {"numbers-1": [25, 100]}
    assert reset(broker, "fresh", "--topic", "numbers:0", "--to-datetime", "2026-01-01T00:00:30Z") == {
        "numbers-0": [25, 30]
    }
    assert reset(broker, "fresh", "--topic", "numbers:0", "--to-datetime", "2031-01-01T01:00+01:00") == {
        "numbers-0": [25, 100]
    }
    assert reset(broker, "fresh", "--topic", "numbers:0", "--to-datetime", "1969-12-31T23:59:59.999Z") == {
        "numbers-0": [25, 0]
    }
    assert reset(broker, "fresh", "--topic", "numbers:0", "--to-datetime", "253402300800000") == {
        "numbers-0": [25, 100]
    }
    assert lags(broker, "fresh") == [75, 0]


def test_what_cannot_be_reset_is_said(broker: str, numbers: str) -> None:
    assert "name topics with --topic" in rejected(broker, "groups", "reset-offsets", "nobody", "--to-earliest")
    assert "to shift" in rejected(broker, "groups", "reset-offsets", "nobody", "--topic", numbers, "--shift-by", "1")
    assert "no partition 7" in rejected(broker, "groups", "reset-offsets", "g", "--topic", "numbers:7", "--to-latest")
    assert "'missing'" in rejected(broker, "groups", "reset-offsets", "g", "--topic", "missing", "--to-latest")


@pytest.mark.parametrize(
    "args",
    [
        ("reset-offsets", "g"),
        ("reset-offsets", "g", "--to-earliest", "--to-latest"),
        ("reset-offsets", "g", "--to-datetime", "yesterday"),
        ("reset-offsets", "g", "--to-offset", "-1"),
        ("reset-offsets", "g", "--to-latest", "--topic", "t:x"),
        ("delete-offsets", "g"),
        ("delete",),
        ("explain",),
    ],
)
def test_wrong_usage_has_status_2(broker: str, args: tuple[str, ...]) -> None:
    assert odradek(broker, "groups", *args).returncode == 2


def test_a_live_group_is_refused_what_would_pull_the_rug_and_explains_itself(broker: str, numbers: str) -> None:
    consume = command(broker, "consume", numbers, "--group", "live", "-X", "group.protocol=classic")
    with subprocess.Popen(consume, stdout=subprocess.PIPE) as run:
        try:
            first_line(run)
            state = printed(broker, "groups", "describe", "live", "--state")[0].split("\t")
            assert state[:3] == ["live", f"broker 1 at {broker}", "Stable"]
            assert "NON_EMPTY_GROUP" in rejected(broker, "groups", "delete", "live", "--yes")
            assert "stop its consumers" in rejected(
                broker, "groups", "reset-offsets", "live", "--topic", numbers, "--to-latest", "--execute"
            )
            assert "GROUP_SUBSCRIBED_TO_TOPIC" in rejected(
                broker, "groups", "delete-offsets", "live", "--topic", numbers
            )
        finally:
            run.terminate()
            run.wait(15)
    told = [json.loads(line) for line in printed(broker, "groups", "explain", "live", "--json")]
    assert [(each["ending"], each["generation"], each["causes"][0]["kind"]) for each in told] == [
        ("stable", 1, "joined"),
        ("empty", 2, "left"),
    ]
    assert told[0]["causes"][0]["client_id"] == "odradek-cli"
    lines = [line.split("\t") for line in printed(broker, "groups", "explain", "live")]
    assert [line[4] for line in lines] == ["stable", "empty"]
    assert " joined" in lines[0][-1] and " left" in lines[1][-1]


def test_deleted_offsets_and_deleted_groups_are_gone(broker: str, numbers: str) -> None:
    reset(broker, "gone", "--topic", numbers, "--to-latest", "--execute")
    assert printed(broker, "groups", "delete-offsets", "gone", "--topic", "numbers:1") == []
    assert lags(broker, "gone") == [0]
    assert printed(broker, "groups", "delete", "gone", "--yes") == []
    assert not any(line.startswith("gone\t") for line in printed(broker, "groups", "list"))
    for words in (("delete", "gone", "--yes"), ("explain", "gone"), ("describe", "gone")):
        assert "group 'gone' does not exist" in rejected(broker, "groups", *words)


def rows_of(address: str, *args: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed(address, *args, "--json")]


def test_a_deleted_topic_takes_the_offsets_of_every_group_with_it_also_after_a_crash(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    process = BrokerProcess(tmp_path_factory.mktemp("broker"), group_initial_rebalance_delay_ms=0).start()
    try:
        for topic in ("a", "b"):
            printed(process.address, "topics", "create", topic)
        producer = Producer({"bootstrap.servers": process.address})
        for topic in ("a", "b"):
            producer.produce(topic, b"x")
        assert producer.flush(10) == 0
        for group in ("one", "two"):
            reset(process.address, group, "--topic", "a", "--topic", "b", "--to-latest", "--execute")
        printed(process.address, "topics", "delete", "a", "--yes")
        printed(process.address, "topics", "create", "a")
        for _ in range(2):
            for group in ("one", "two"):
                rows = rows_of(process.address, "groups", "describe", group)
                assert [(row["topic"], row["committed"]) for row in rows] == [("b", 1)]
            process.kill()
            process.start()
    finally:
        process.close()
