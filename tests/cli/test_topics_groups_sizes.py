"""Sizes, counts, wildcards and lag: `odradek topics` and `odradek groups` against a broker in a thread."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from odradek.tests.support.documents.command import rows, run, threaded_broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with threaded_broker(tmp_path_factory.mktemp("data"), group_initial_rebalance_delay_ms=0) as running:
        yield running.address


@pytest.fixture(scope="module")
def topics(broker: str) -> tuple[str, str]:
    for name in ("flights-a", "flights-b"):
        assert run("topics", "create", name, "--partitions", "2", "-b", broker).exit_code == 0
    producer = Producer({"bootstrap.servers": broker})
    for number in range(100):
        producer.produce("flights-a", b"%d" % number, partition=1)
    assert producer.flush(10) == 0
    return "flights-a", "flights-b"


def test_topics_are_listed_by_pattern_with_counts_and_sizes(broker: str, topics: tuple[str, str]) -> None:
    assert rows("topics", "list", "flights-?", "-b", broker) == [["flights-a", "2"], ["flights-b", "2"]]
    listed = rows("topics", "list", "*-a", "--sizes", "--header", "-b", broker)
    assert listed[0] == ["topic", "partitions", "replicas", "records", "size_bytes"]
    assert listed[1][:4] == ["flights-a", "2", "1", "100"] and int(listed[1][4]) > 500
    missing = run("topics", "list", "x*", "-b", broker)
    assert missing.exit_code == 1 and "no topic matches 'x*'" in missing.stderr
    assert run("topics", "list", "absent", "-b", broker).exit_code == 1


def test_topics_are_described_by_pattern_with_records_and_sizes(broker: str, topics: tuple[str, str]) -> None:
    described = rows("topics", "describe", "flights-*", "-b", broker)
    assert [row[:2] for row in described] == [[name, number] for name in topics for number in ("0", "1")]
    assert described[1][5:8] == ["0", "100", "100"] and int(described[1][8]) > 500
    assert described[0][7:] == ["0", "0"]


def test_config_values_take_units_and_are_printed_in_both_forms(broker: str) -> None:
    configs = ("--config", "retention.ms=1h", "--config", "segment.bytes=2MiB")
    made = run("topics", "create", "units", *configs, "-b", broker)
    assert made.exit_code == 0 and "retention.ms=3600000 (1 h)\n" in made.stderr
    shown = {row[1]: row for row in rows("topics", "describe", "units", "--configs", "-b", broker)}
    assert shown["retention.ms"] == ["units", "retention.ms", "3600000", "yes", "1 h"]
    assert shown["segment.bytes"][2:] == ["2097152", "yes", "2 MiB"]
    assert run("config", "set", "retention.ms=2d", "--topic", "units", "-b", broker).exit_code == 0
    described = rows("config", "describe", "retention.ms", "--topic", "units", "-b", broker)
    assert described == [["retention.ms", "172800000", "topic", "yes", "2 d"]]
    assert run("topics", "alter", "units", "--config", "retention.ms=2GiB", "-b", broker).exit_code == 2


def test_wildcards_delete_what_they_match_and_nothing_else(broker: str) -> None:
    assert run("topics", "create", "gone-1", "gone-2", "kept", "-b", broker).exit_code == 0
    assert run("topics", "delete", "gone-*", "--yes", "-b", broker).exit_code == 0
    names = [row[0] for row in rows("topics", "list", "-b", broker)]
    assert "kept" in names and not {"gone-1", "gone-2"} & set(names)


def test_lag_is_counted_and_timed(broker: str, topics: tuple[str, str]) -> None:
    began = time.time()
    reset = ("groups", "reset-offsets", "slow", "--topic", "flights-a", "--execute", "-b", broker)
    assert run(*reset, "--to-offset", "40").exit_code == 0
    (listed,) = [row for row in rows("groups", "list", "--lag", "-b", broker) if row[0] == "slow"]
    assert (listed[1], listed[4:]) == ("Empty", ["0", "60"])
    found = run("groups", "describe", "slow", "--lag-time", "--json", "-b", broker)
    of = {row["partition"]: row for row in map(json.loads, found.stdout.splitlines())}
    assert (of[0]["lag"], of[0]["lag_ms"], of[1]["lag"]) == (0, 0, 60)
    assert 0 < of[1]["lag_ms"] < (time.time() - began + 600) * 1000
    assert run(*reset, "--to-latest").exit_code == 0
    (state,) = rows("groups", "describe", "slow", "--state", "--lag-time", "-b", broker)
    assert state[-2:] == ["0", "0"]
    assert run("groups", "describe", "slow", "--members", "--lag-time", "-b", broker).exit_code == 2


def test_watch_prints_again_until_it_is_stopped(
    broker: str, topics: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("odradek.cli.output.time.sleep", sleep)
    ended = run("topics", "list", "flights-a", "--watch", "0.5", "-b", broker)
    assert (ended.exit_code, ended.stdout, pauses) == (130, "flights-a\t2\n" * 3, [0.5] * 3)
