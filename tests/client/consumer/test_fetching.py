"""How a consumer fetches: in sessions (KIP-227), from followers in its rack (KIP-392), and from where a reset says."""

from __future__ import annotations

import time

import pytest
from odradek.client import Consumer, TopicPartition
from odradek.client.errors import InvalidOption
from odradek.protocol import frame
from odradek.protocol.apis import ApiKey
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.fake_log import write
from odradek.tests.support.fakes.wire import Call, drop

from . import test_consumer
from .test_consumer import consumer_for

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def read(consumer: Consumer, count: int) -> list[int]:
    return test_consumer.numbers(await test_consumer.read(consumer, count))


def size_of(call: Call) -> int:
    """The bytes of a request on the wire."""
    return sum(len(piece) for piece in frame.encode_request(1, call.version, 1, "odradek-consumer", call.request))


# -- Sessions


async def test_a_fetch_over_a_thousand_idle_partitions_costs_less_than_a_hundred_bytes() -> None:
    async with FakeCluster({"t": 1000}) as cluster, consumer_for(cluster, "t", fetch_max_wait_ms=5) as consumer:
        write(cluster.log("t", 77), [1])
        assert await read(consumer, 1) == [1]
        asked = len(cluster.calls(ApiKey.FETCH))
        while len(cluster.calls(ApiKey.FETCH)) < asked + 3:
            await consumer.getmany(timeout_ms=5)
        sizes = [size_of(call) for call in cluster.calls(ApiKey.FETCH)]
        assert sizes[0] > 10_000 and sizes[-1] < 100
        assert cluster.calls(ApiKey.FETCH)[-1].request.topics == []
        write(cluster.log("t", 78), [2])
        assert await read(consumer, 1) == [2], "a partition that was not named again is still read"


async def test_paused_partitions_leave_the_session_and_come_back() -> None:
    async with FakeCluster({"t": 2}) as cluster, consumer_for(cluster, "t", fetch_max_wait_ms=5) as consumer:
        write(cluster.log("t", 0), [0])
        write(cluster.log("t", 1), [1])
        assert sorted(await read(consumer, 2)) == [0, 1]
        consumer.pause(T1)
        write(cluster.log("t", 1), [11])
        write(cluster.log("t", 0), [10])
        assert await read(consumer, 1) == [10]
        assert any(call.request.forgotten_topics_data for call in cluster.calls(ApiKey.FETCH))
        consumer.resume(T1)
        assert await read(consumer, 1) == [11]


@pytest.mark.parametrize("newest", [6, 7, 12, 18])
async def test_every_version_of_fetch_reads_on(newest: int) -> None:
    async with FakeCluster({"t": 2}) as cluster:
        cluster.versions[ApiKey.FETCH] = (4, newest)
        async with consumer_for(cluster, "t") as consumer:
            for value in range(5):
                write(cluster.log("t", value % 2), [value])
                assert await read(consumer, 1) == [value]


async def test_a_broker_without_room_for_a_session_is_asked_in_full(cluster: FakeCluster) -> None:
    cluster.reads.offers_sessions = False
    async with consumer_for(cluster, "t") as consumer:
        for value in range(3):
            write(cluster.log("t"), [value])
            assert await read(consumer, 1) == [value]
    assert {call.request.session_epoch for call in cluster.calls(ApiKey.FETCH)} == {0}


async def test_a_broker_that_forgot_the_session_is_asked_in_full_at_once() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t") as consumer:
        write(cluster.log("t"), [0])
        assert await read(consumer, 1) == [0]
        asked = len(cluster.calls(ApiKey.METADATA))
        cluster.reads.sessions.clear()
        write(cluster.log("t"), [1])
        assert await read(consumer, 1) == [1]
        assert len(cluster.calls(ApiKey.METADATA)) == asked, "no leader has moved"


async def test_after_a_lost_response_the_session_begins_anew() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t") as consumer:
        write(cluster.log("t"), [0])
        assert await read(consumer, 1) == [0]
        cluster.on(ApiKey.FETCH, drop)
        write(cluster.log("t"), range(1, 20), 1)
        assert await read(consumer, 19) == list(range(1, 20))


# -- Racks


async def test_records_come_from_the_follower_in_the_rack_and_from_the_leader_when_it_is_gone() -> None:
    async with FakeCluster({"t": 1}, nodes=2) as cluster:
        cluster.log("t").followers["b"] = 2
        async with consumer_for(cluster, "t", client_rack="b") as consumer:
            write(cluster.log("t"), range(10), 1)
            assert await read(consumer, 10) == list(range(10))
            at_follower = [call for call in cluster.nodes[2].calls if call.key is ApiKey.FETCH]
            assert at_follower and {call.request.rack_id for call in at_follower} == {"b"}
            cluster.log("t").followers.clear()  # the follower has lost the partition
            write(cluster.log("t"), range(10, 20), 1)
            assert await read(consumer, 10) == list(range(10, 20))


async def test_a_client_without_a_rack_reads_from_the_leader() -> None:
    async with FakeCluster({"t": 1}, nodes=2) as cluster:
        cluster.log("t").followers["b"] = 2
        async with consumer_for(cluster, "t") as consumer:
            write(cluster.log("t"), [1])
            assert await read(consumer, 1) == [1]
        assert not [call for call in cluster.nodes[2].calls if call.key is ApiKey.FETCH]


# -- Resets by duration


async def test_a_reset_by_duration_begins_with_the_records_of_that_time() -> None:
    now_ms = time.time_ns() // 1_000_000
    async with FakeCluster({"t": 2}) as cluster:
        write(cluster.log("t", 0), [1, 2], 1, now_ms - 7_200_000)
        write(cluster.log("t", 0), [3, 4], 1, now_ms - 1_800_000)
        write(cluster.log("t", 1), [5], 1, now_ms - 7_200_000)
        async with consumer_for(cluster, "t", auto_offset_reset="by_duration:PT1H") as consumer:
            assert await read(consumer, 2) == [3, 4]
            assert await consumer.position(T1) == 1, "no record is as young: from now on"


@pytest.mark.parametrize("text", ["by_duration:", "by_duration:1h", "by_duration:PT", "by_duration:-PT1H", "soonest"])
def test_an_invalid_reset_is_rejected(text: str) -> None:
    with pytest.raises(InvalidOption):
        Consumer("t", auto_offset_reset=text)
