"""What a driver asks a cluster: how few requests a trigger costs, and what becomes of connections that are kept."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from dataclasses import replace

import pytest
from odradek.client.arrow.brokers import Brokers
from odradek.client.arrow.fetch import OffsetRange
from odradek.client.errors import NoBrokerReachable
from odradek.client.record import EARLIEST, LATEST, TopicPartition
from odradek.client.spark import progress
from odradek.client.spark.columns import Column
from odradek.client.spark.options import SourceOptions, parse_options
from odradek.client.spark.plan import plan
from odradek.client.spark.progress import start_committed
from odradek.client.spark.stream import MicroBatches
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from odradek.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.wire import Call, Step, drop, keep_silent

WAIT_S = 20
PLACES = [TopicPartition("t", number) for number in range(4)]


def two_nodes(topics: dict[str, int] | None = None) -> FakeCluster:
    cluster = FakeCluster(topics or {"t": 4}, nodes=2)
    for number in range(4):
        cluster.log("t", number).write(encode_batch([Record(value=b"v")] * 3))
    return cluster


def options(cluster: FakeCluster, *, streaming: bool = True, **texts: str) -> SourceOptions:
    return parse_options({"kafka.bootstrap.servers": cluster.address, "subscribe": "t"} | texts, streaming=streaming)


def never(seconds: float) -> None:
    raise AssertionError(f"a pause of {seconds} s")


def asked(cluster: FakeCluster) -> Counter[str]:
    """The requests since the last time, by API."""
    found = Counter(call.key.name for node in cluster.nodes.values() for call in node.calls)
    for node in cluster.nodes.values():
        node.calls.clear()
    return found


async def test_a_trigger_without_news_costs_a_look_at_the_metadata_and_one_at_each_leader() -> None:
    async with two_nodes() as cluster:
        wanted = options(cluster, startingOffsets="earliest")
        with Brokers(wanted.client, sleep=never, keeps_connections=True) as brokers:
            stream = MicroBatches(wanted, brokers)
            end = await asyncio.to_thread(lambda: stream.next_end({}, limited=False))
            assert len(await asyncio.to_thread(stream.ranges, {}, end)) == 4
            asked(cluster)
            for _ in range(5):
                assert await asyncio.to_thread(lambda: stream.next_end(end, limited=False)) == end
                assert await asyncio.to_thread(stream.log_ends) == end
            assert asked(cluster) == {"METADATA": 5, "LIST_OFFSETS": 5 * 2}


def progress_of(place: OffsetRange, wanted: SourceOptions) -> None:
    """Run a task that has no rows."""
    with start_committed(place, wanted):
        pass


async def committing_ended() -> None:
    for each in threading.enumerate():
        if each.name == "progress of g":
            await asyncio.to_thread(each.join, WAIT_S)
            assert not each.is_alive()


async def test_a_task_commits_where_its_stream_is_over_one_connection_where_one_broker_does_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("pyspark", reason="the name of the query comes from pyspark (extra `spark`)")
    monkeypatch.setattr(progress, "AT_END_MS", WAIT_S * 1000)
    async with FakeCluster({"t": 1}) as cluster:
        wanted = options(cluster, **{"kafka.group.id": "g"})
        place = OffsetRange("t", cluster.topic_id("t"), 0, 3, 5)
        await asyncio.to_thread(progress_of, place, wanted)
        assert asked(cluster) == {"API_VERSIONS": 1, "FIND_COORDINATOR": 1, "OFFSET_COMMIT": 1}
        await asyncio.to_thread(progress_of, replace(place, is_first=False), wanted)
        assert asked(cluster) == {}


async def test_a_commit_ends_after_some_seconds_where_a_group_has_no_coordinator(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("pyspark", reason="the name of the query comes from pyspark (extra `spark`)")
    monkeypatch.setattr(progress, "WITHIN_MS", 200)
    monkeypatch.setattr(progress, "AT_END_MS", WAIT_S * 1000)

    async def none(call: Call) -> object:
        return FindCoordinatorResponse(coordinators=[Coordinator("g", error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)])

    for step in (none, keep_silent):
        async with FakeCluster({"t": 1}) as cluster:
            cluster.defaults[ApiKey.FIND_COORDINATOR] = step
            place = OffsetRange("t", cluster.topic_id("t"), 0, 3, 5)
            wanted = options(cluster, **{"kafka.group.id": "g"})
            await asyncio.wait_for(asyncio.to_thread(progress_of, place, wanted), WAIT_S / 2)
            assert "was not committed to group g: " in caplog.text
        caplog.clear()


async def test_a_task_has_its_rows_and_its_end_while_a_group_has_no_coordinator(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("pyspark", reason="the name of the query comes from pyspark (extra `spark`)")
    from odradek.client.spark.source import read_range

    monkeypatch.setattr(progress, "AT_END_MS", 0)
    monkeypatch.setattr(progress, "WITHIN_MS", 600_000)
    from pyspark.sql.types import LongType

    has_ended = asyncio.Event()

    async def late(call: Call) -> object:
        await has_ended.wait()
        return await found(call)

    async with two_nodes() as cluster:
        found, cluster.defaults[ApiKey.FIND_COORDINATOR] = cluster.defaults[ApiKey.FIND_COORDINATOR], late
        wanted = options(cluster, **{"kafka.group.id": "g"})
        place = OffsetRange("t", cluster.topic_id("t"), 0, 0, 3)
        columns = [Column("offset", LongType())]
        read = read_range(place, wanted, columns, start_committed(place, wanted))
        batches = await asyncio.wait_for(asyncio.to_thread(list, read), WAIT_S / 2)
        assert sum(each.num_rows for each in batches) == 3
        assert "was not committed to group g while its task ran" in caplog.text
        # A commit that came now would take the place of the next batch's.
        has_ended.set()
        await committing_ended()
        assert "OFFSET_COMMIT" not in asked(cluster)


async def test_planning_connects_once_to_each_broker() -> None:
    async with two_nodes() as cluster:
        wanted = options(cluster, streaming=False)
        with Brokers(wanted.client, sleep=never, keeps_connections=True) as brokers:
            assert len(await asyncio.to_thread(plan, wanted, brokers)) == 4
        assert asked(cluster) == {"API_VERSIONS": 2, "METADATA": 1, "LIST_OFFSETS": 2 * 2}


async def test_tasks_get_as_many_bytes_each_where_brokers_tell_sizes() -> None:
    sizes = {0: 100, 1: 100, 2: 100, 3: 900}

    async def tell(call: Call) -> object:
        wanted = [number for topic in call.request.topics for number in topic.partitions]
        logs = [DescribeLogDirsPartition(number, sizes[number], 0, False) for number in wanted]
        return DescribeLogDirsResponse(results=[DescribeLogDirsResult(0, "/data", [DescribeLogDirsTopic("t", logs)])])

    async def reject(call: Call) -> object:
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    for step, pieces in ((tell, [1, 1, 1, 3]), (reject, [2, 2, 1, 1])):
        async with two_nodes() as cluster:
            cluster.defaults[ApiKey.DESCRIBE_LOG_DIRS] = step
            for streaming in (False, True):
                wanted = options(cluster, streaming=streaming, minPartitions="6", startingOffsets="earliest")
                with Brokers(wanted.client, sleep=never, keeps_connections=True) as brokers:
                    found = await asyncio.to_thread(ranges_of, wanted, brokers, streaming)
                assert [sum(each.partition == number for each in found) for number in range(4)] == pieces


def ranges_of(wanted: SourceOptions, brokers: Brokers, streaming: bool) -> list[OffsetRange]:
    if not streaming:
        return plan(wanted, brokers)
    stream = MicroBatches(wanted, brokers)
    return stream.ranges({}, stream.next_end({}, limited=False))


async def test_connections_that_brokers_closed_meanwhile_are_made_again_without_a_failure() -> None:
    async with two_nodes() as cluster:
        wanted = options(cluster)
        with Brokers(wanted.client, sleep=never, keeps_connections=True) as brokers:
            before = await asyncio.to_thread(brokers.offsets, PLACES, LATEST)
            for node in cluster.nodes.values():
                await node.stop()
                await node.start()
            assert await asyncio.to_thread(brokers.offsets, PLACES, LATEST) == before
        assert asked(cluster)["API_VERSIONS"] == 4
        # The brokers' sides end, because the client closed all connections.
        await asyncio.wait_for(asyncio.gather(*cluster.tasks), WAIT_S)


@pytest.mark.parametrize(("idle_s", "connections"), [(539, 1), (541, 2)])
async def test_a_connection_that_was_idle_for_long_is_not_trusted(idle_s: float, connections: int) -> None:
    now = [0.0]
    async with FakeCluster({"t": 1}) as cluster:
        with Brokers(options(cluster).client, lambda: now[0], never, keeps_connections=True) as brokers:
            for _ in range(2):
                await asyncio.to_thread(brokers.offsets, [PLACES[0]], LATEST)
                now[0] += idle_s
        assert asked(cluster)["API_VERSIONS"] == connections


async def test_leaders_that_moved_since_the_view_are_asked_for_again() -> None:
    pauses: list[float] = []
    async with two_nodes() as cluster:
        wanted = options(cluster, streaming=False)

        async def move(call: Call) -> object:
            for number in range(4):
                cluster.log("t", number).leader = 2
            return await call.default()

        cluster.on(ApiKey.LIST_OFFSETS, move)
        with Brokers(wanted.client, sleep=pauses.append, keeps_connections=True) as brokers:
            found = await asyncio.to_thread(plan, wanted, brokers)
        assert [(each.start, each.end) for each in found] == [(0, 3)] * 4
        assert len(pauses) == 2  # for the first offsets, and for the last ones with the old view


@pytest.mark.parametrize("trouble", [drop, keep_silent])
async def test_a_server_that_hangs_up_or_never_answers_is_asked_last_from_then_on(trouble: Step) -> None:
    async with FakeCluster({"t": 1}) as bad, FakeCluster({"t": 1}) as good:
        texts = {"kafka.bootstrap.servers": f"{bad.address},{good.address}", "kafka.request.timeout.ms": "200"}
        wanted = parse_options(texts | {"subscribe": "t"})
        bad.on(ApiKey.API_VERSIONS, trouble)
        brokers = Brokers(wanted.client, sleep=never)
        for _ in range(3):
            assert await asyncio.to_thread(brokers.offsets, [PLACES[0]], EARLIEST) == {PLACES[0]: 0}
        assert asked(bad) == {"API_VERSIONS": 1}
        good.on(ApiKey.METADATA, trouble)
        pauses: list[float] = []
        brokers = Brokers(wanted.client, sleep=pauses.append, first=1)
        await asyncio.to_thread(brokers.retry, lambda: brokers.offsets([PLACES[0]], EARLIEST))
        assert asked(bad)["METADATA"] == len(pauses) == 1


async def test_no_server_at_all_is_said_with_each_reason() -> None:
    async with FakeCluster({"t": 1}) as cluster:
        wanted = options(cluster)
    with pytest.raises(NoBrokerReachable, match=cluster.address):
        await asyncio.to_thread(Brokers(wanted.client).view, ["t"])


async def test_an_address_where_nobody_ever_answered_is_an_error_at_once() -> None:
    """It may be misspelt. A cluster that was there before may only be starting again."""
    async with FakeCluster({"t": 1}) as cluster:
        wanted = options(cluster)
        seen = Brokers(wanted.client, sleep=lambda _: None)
        await asyncio.to_thread(seen.view, ["t"])
    with pytest.raises(NoBrokerReachable):
        await asyncio.to_thread(lambda: (new := Brokers(wanted.client, sleep=never)).retry(lambda: new.view(["t"])))
    pauses: list[float] = []
    for each in (seen, Brokers(wanted.client, was_reached=True)):
        each._sleep = lambda s, note=pauses: note.append(s)  # pyright: ignore[reportPrivateUsage]
        ends = iter(range(100, 10_000_000, 20_000))
        each.clock = lambda times=ends: float(next(times)) / 1000
        with pytest.raises(NoBrokerReachable):
            await asyncio.to_thread(each.retry, lambda each=each: each.view(["t"]))
        assert pauses
        pauses.clear()
