"""The samples of the last hour: their bounds, their file, and what a group's lag is."""

from __future__ import annotations

import asyncio
import os
import tracemalloc
from pathlib import Path
from threading import Event

import pytest
from odradek.broker import Broker
from odradek.client import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from odradek.client.core.clock import wall_clock_ms
from odradek.console.cluster import Cluster, ClusterOptions
from odradek.console.history import history as history_module
from odradek.console.history import series as module
from odradek.console.history.history import LAG, LAG_S, RATE, SIZE, History, HistoryFileError, read
from odradek.console.history.sampler import GroupSample, Sample
from odradek.console.history.series import SAMPLES, Series

NOW_MS = 1_700_000_000_000.0


def test_the_oldest_sample_goes_and_series_without_numbers_are_forgotten() -> None:
    series = Series()
    series.add(0, {("lag", "gone"): 1})
    for at in range(1, SAMPLES + 5):
        series.add(at, {("lag", "g"): at})
    assert len(series.times_ms) == SAMPLES == len(series.values(("lag", "g")))
    assert series.values(("lag", "g"))[-1] == SAMPLES + 4 == series.last(("lag", "g"))
    assert series.values(("lag", "gone")) == [None] * SAMPLES
    assert [name for _, name in series._values] == ["g"]  # pyright: ignore[reportPrivateUsage]


def test_a_new_series_has_no_numbers_before_its_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SERIES", 2)
    series = Series()
    series.add(1, {("lag", "a"): 1})
    series.add(2, {("lag", "b"): 2, ("lag", "c"): 3})
    assert series.values(("lag", "b")) == [None, 2] and series.values(("lag", "a")) == [1, None]
    assert series.values(("lag", "c")) == [None, None] and series.left_out == 1


async def test_the_file_brings_the_last_hour_back_and_nothing_older(tmp_path: Path) -> None:
    path = tmp_path / "history"
    cluster = Cluster(ClusterOptions("127.0.0.1:1", admin={"default_api_timeout_ms": 50}))
    history = History(cluster, path, interval_s=1_000)
    await history.start()
    now_ms = wall_clock_ms()
    for ago_min in (90, 30, 10):
        history.series.add(now_ms - ago_min * 60_000, {(LAG, "g"): ago_min})
    await history.stop()
    assert read(path, now_ms - 3_600_000).values((LAG, "g")) == [30, 10]
    path.write_bytes(b"\x81\xa1x")
    with pytest.raises(HistoryFileError, match="no history"):
        await History(cluster, path).start()


@pytest.mark.parametrize("kind", ["large", "pipe", "endless"])
async def test_no_other_file_is_read_as_a_history(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    if kind == "large":
        with path.open("wb") as file:
            file.truncate(32 << 20)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path = Path("/dev/zero")
        monkeypatch.setattr(history_module, "MAX_FILE_BYTES", 1 << 20)
    tracemalloc.start()
    try:
        async with asyncio.timeout(10):
            with pytest.raises(HistoryFileError, match="is no history of a console"):
                await asyncio.to_thread(read, path, 0)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


async def test_the_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = tmp_path / "h", list[bool]()
    monkeypatch.setattr(history_module.os, "fsync", lambda _: seen.append(path.exists()))
    history = History(Cluster(ClusterOptions("127.0.0.1:1")), path)
    await history._write()  # pyright: ignore[reportPrivateUsage]
    assert seen == [False] and read(path, 0).as_value() == history.series.as_value()


async def test_a_stop_waits_for_the_file_that_is_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, may_end, replace = list[str](), Event(), history_module._replace  # pyright: ignore[reportPrivateUsage]

    def slow(path: Path, value: dict[str, object]) -> None:
        steps.append("begin")
        may_end.wait(20)
        replace(path, value)
        steps.append("end")

    monkeypatch.setattr(history_module, "_replace", slow)
    monkeypatch.setattr(history_module, "_FILE_EVERY", 1)
    cluster = Cluster(ClusterOptions("127.0.0.1:1", admin={"default_api_timeout_ms": 50}))
    history = History(cluster, tmp_path / "history", interval_s=1_000)
    await history.start()
    async with asyncio.timeout(20):
        while not steps:
            await asyncio.sleep(0.01)
    stopping = asyncio.create_task(history.stop())
    await asyncio.sleep(0.05)
    may_end.set()
    await stopping
    assert steps == ["begin", "end"] * 2


async def test_a_sample_without_a_reader_lacks_the_lag_in_seconds_alone(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Producer(broker.address) as producer, Admin(broker.address) as admin:
        await producer.send_and_wait("t", b"x")
        await admin.alter_group_offsets("g", {TopicPartition("t", 0): OffsetAndMetadata(0)})
    monkeypatch.setattr("odradek.console.cluster.MAX_READERS", 0)
    monkeypatch.setattr("odradek.console.cluster._WAIT_S", 0.01)
    cluster = Cluster(ClusterOptions(broker.address))
    history = History(cluster)
    await history.sample()
    await cluster.stop()
    assert (history.error, history.latest.groups["g"].lag, history.latest.groups["g"].lag_s) == ("", 1, None)
    assert history.latest.problems == [
        "lag in seconds is not known: 0 pages read records already: close one, and try again"
    ]


async def test_a_fault_in_a_sample_is_told_and_the_next_one_is_taken(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    samples = [ZeroDivisionError(), Sample(NOW_MS)]

    async def take(*_: object) -> Sample:
        found = samples.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(history_module, "take", take)
    history = History(Cluster(ClusterOptions()))
    await history.sample()
    assert history.error == "Something is wrong with this console: its log says more." and "ZeroDivision" in caplog.text
    await history.sample()
    assert history.error == "" and history.latest.at_ms == NOW_MS


def test_states_are_noted_when_they_change() -> None:
    history = History(Cluster(ClusterOptions()))
    for at, state in enumerate(("Stable", "Stable", "PreparingRebalance", "Stable")):
        history.add(Sample(NOW_MS + at, groups={"g": GroupSample(state, "classic", 5, 1.5)}))
    assert [each.state for each in history.states("g")] == ["Stable", "PreparingRebalance", "Stable"]
    history.add(Sample(NOW_MS + 9))
    assert history.states("g") == []


def test_a_rate_is_the_growth_of_a_topic_in_a_second() -> None:
    history = History(Cluster(ClusterOptions()))
    history.add(Sample(NOW_MS, {"t": 100}, {"t": 10}))
    assert history.series.last((RATE, "")) is None  # after a start, too: nobody knows yet
    history.add(Sample(NOW_MS + 10_000, {"t": 150, "new": 7}, {"t": 20}))
    assert (history.series.last((RATE, "t")), history.series.last((RATE, ""))) == (5, 5)
    assert history.series.last((SIZE, "t")) == 20 and history.series.last((RATE, "new")) is None


async def test_a_sample_has_the_lag_in_records_and_in_seconds(broker: Broker) -> None:
    written_ms = wall_clock_ms() - 60_000
    async with Producer(broker.address) as producer:
        for number in range(10):
            await producer.send("t", b"x", timestamp_ms=written_ms + number)
    async with Consumer("t", bootstrap_servers=broker.address, group_id="g", auto_offset_reset="earliest") as consumer:
        async with asyncio.timeout(30):
            read = sum([len(records) for records in (await consumer.getmany(timeout_ms=9_000, max_records=4)).values()])
        await consumer.commit()
    cluster = Cluster(ClusterOptions(broker.address))
    history = History(cluster)
    await history.sample()
    seen = history.latest.groups["g"]
    assert read == 4 and history.error == "" and history.latest.problems == []
    assert seen.lag == 6 and seen.lag_s is not None and 59 < seen.lag_s < 600
    assert history.series.last((LAG, "g")) == 6 and history.series.last((LAG_S, "g")) == seen.lag_s
    assert history.latest.readers == {"t": {"g": 6}} and history.latest.sizes["t"] > 0
    async with Admin(broker.address) as admin:
        assert set(await admin.list_topics()) == {"t"}
    await cluster.stop()
