"""`odradek perf` counts what it says it counts, and its percentiles are those of the values."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.cli.perf import LatencyHistogram
from odradek.tests.support.documents.command import rows, run, threaded_broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with threaded_broker(tmp_path_factory.mktemp("data")) as running:
        assert run("topics", "create", "speed", "--partitions", "2", "-b", running.address).exit_code == 0
        yield running.address


def test_what_is_produced_is_consumed_and_counted(broker: str) -> None:
    sent = run("perf", "produce", "speed", "--records", "5000", "--size", "20", "--json", "-b", broker)
    row = json.loads(sent.stdout)
    assert (sent.exit_code, row["records"], sent.stderr) == (0, 5000, "")
    assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["p99_9_ms"] <= row["max_ms"]
    assert row["records_per_s"] > 0 and row["cpu_us_per_record"] > 0
    read = json.loads(run("perf", "consume", "speed", "--json", "-b", broker).stdout)
    assert read["records"] == 5000 and "p50_ms" not in read
    assert [row[3] for row in rows("topics", "list", "speed", "--sizes", "-b", broker)] == ["5000"]


def test_a_rate_is_kept(broker: str) -> None:
    args = ("perf", "produce", "speed", "--records", "100", "--rate", "200", "--json", "-b", broker)
    row = json.loads(run(*args).stdout)
    assert row["records"] == 100 and row["seconds"] >= 0.45


def test_latency_is_from_end_to_end(broker: str) -> None:
    row = json.loads(run("perf", "latency", "speed", "--records", "20", "--json", "-b", broker).stdout)
    assert row["records"] == 20 and 0 < row["p50_ms"] <= row["max_ms"] and row["ack_p50_ms"] > 0


def test_the_header_names_the_figures(broker: str) -> None:
    header, _ = rows("perf", "consume", "speed", "--records", "1", "--header", "-b", broker)
    assert header == ["records", "seconds", "records_per_s", "mb_per_s", "cpu_us_per_record"]


def test_a_missing_topic_is_an_error(broker: str) -> None:
    assert "topic 'absent'" in run("perf", "consume", "absent", "-b", broker).stderr


def test_records_that_the_broker_rejects_are_an_error(broker: str) -> None:
    create = ("topics", "create", "narrow", "--config", "max.message.bytes=100", "-b", broker)
    assert run(*create).exit_code == 0
    ended = run("perf", "produce", "narrow", "--records", "3", "--size", "1000", "-b", broker)
    assert ended.exit_code == 1 and "MESSAGE_TOO_LARGE" in ended.stderr and ended.stderr.count("\n") == 1


@given(st.lists(st.integers(0, 2**45), min_size=1, max_size=200), st.sampled_from([50.0, 99.0, 99.9, 100.0]))
def test_percentiles_are_at_most_3_percent_too_high_and_never_too_low(values: list[int], percent: float) -> None:
    histogram = LatencyHistogram()
    for value in values:
        histogram.add(value)
    at = max(-(-len(values) * percent // 100), 1)
    exact = sorted(values)[int(at) - 1]
    found = histogram.percentile_ms(percent)
    assert found is not None and exact <= found * 1e6 + 1e-3 and found * 1e6 <= exact * 1.0325 + 1


def test_memory_is_bounded_whatever_the_values_are() -> None:
    histogram = LatencyHistogram()
    for shift in range(63):
        for part in range(100):
            histogram.add((1 << shift) + part * max(1 << shift, 100) // 100)
    assert len(histogram._buckets) < 2200 and LatencyHistogram().percentile_ms(50) is None
