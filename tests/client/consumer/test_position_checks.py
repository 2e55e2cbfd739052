"""Positions when the log behind them is another one: topics made again (by id), and truncated logs (KIP-320)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from odradek.client import Consumer, TopicPartition
from odradek.client.errors import LogTruncated, TopicRecreated, UnknownTopic
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.fake_log import write
from odradek.tests.support.fakes.wire import Step, answer, drop
from odradek.tests.support.waiting import until

from . import test_consumer
from .test_consumer import consumer_for

T0 = TopicPartition("t", 0)


async def read(consumer: Consumer, count: int, **options: Any) -> list[int]:
    return test_consumer.numbers(await test_consumer.read(consumer, count, **options))


# -- Topics that are deleted and made again


@pytest.mark.parametrize("group_id", [None, "g"])
async def test_a_paused_partition_of_a_topic_made_again_is_read_from_where_the_reset_says(
    group_id: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="odradek")
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t", group_id=group_id) as consumer:
        write(cluster.log("t"), range(10), 1)
        assert await read(consumer, 10) == list(range(10))
        consumer.pause(T0)
        await consumer.getmany()
        cluster.make_again("t")
        write(cluster.log("t"), range(100, 125), 1)
        consumer.resume(T0)
        assert await read(consumer, 25) == list(range(100, 125)), "not from offset 10 of another topic"
    assert "t-0: reset from offset 10 to offset 0: t-0: the topic was deleted and made again" in caplog.text


async def test_a_topic_that_was_made_again_with_fewer_partitions_is_read_on() -> None:
    async with FakeCluster({"t": 2}) as cluster, consumer_for(cluster, metadata_max_age_ms=5) as consumer:
        for number in (0, 1):
            write(cluster.log("t", number), range(5), 1)
        consumer.assign([T0, TopicPartition("t", 1)])
        await read(consumer, 10)
        cluster.make_again("t")
        write(cluster.log("t"), range(100, 105), 1)
        assert await read(consumer, 5) == list(range(100, 105))
        assert await consumer.getmany(timeout_ms=50) == {}
        cluster.make_again("t", 2)
        for number in (0, 1):
            write(cluster.log("t", number), range(5), 1)
        assert sorted(await read(consumer, 10)) == sorted([*range(5), *range(5)])


async def test_a_partition_that_is_not_there_keeps_no_other_from_its_records() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster) as consumer:
        write(cluster.log("t"), range(5), 1)
        consumer.assign([T0, TopicPartition("t", 7)])
        errors, values = [], list[int]()
        async with asyncio.timeout(10):
            while not errors or len(values) < 5:
                try:
                    values += await read(consumer, 1)
                except UnknownTopic as error:
                    errors.append(str(error))
        assert "no partition 7" in errors[0] and values[:5] == list(range(5))


async def test_what_was_fetched_of_the_old_topic_is_not_returned() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t", metadata_max_age_ms=5) as consumer:
        write(cluster.log("t"), range(10), 1)
        assert await read(consumer, 1, max_records=1) == [0]
        cluster.make_again("t")
        write(cluster.log("t"), range(100, 105), 1)
        asked = len(cluster.calls(ApiKey.LIST_OFFSETS))
        await until(lambda: len(cluster.calls(ApiKey.LIST_OFFSETS)) != asked)
        assert await read(consumer, 5) == list(range(100, 105))


async def test_without_a_reset_each_poll_says_that_the_topic_was_made_again_until_a_seek() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, auto_offset_reset="none") as consumer:
        write(cluster.log("t"), range(10), 1)
        consumer.assign([T0])
        consumer.seek(T0, 0)
        assert await read(consumer, 10) == list(range(10))
        cluster.make_again("t")
        write(cluster.log("t"), range(100, 125), 1)
        for _ in range(2):
            with pytest.raises(TopicRecreated, match="made again after offset 10") as raised:
                await read(consumer, 1)
            assert raised.value.position == 10 and not raised.value.retriable
        consumer.seek(T0, 0)
        assert await read(consumer, 25) == list(range(100, 125))


async def test_a_commit_is_not_made_for_a_topic_that_took_the_name(cluster: FakeCluster) -> None:
    consumer = consumer_for(cluster, "t", group_id="g", enable_auto_commit=False)
    async with consumer:
        write(cluster.log("t"), range(10), 1)
        assert len(await read(consumer, 10)) == 10
        consumer.pause(T0)
        cluster.make_again("t")
        with pytest.raises(Exception, match="deleted and made again"):
            await consumer.commit({T0: 10})
    assert cluster.group.committed == {}


# -- Truncation


@pytest.mark.parametrize("nodes", [1, 2])
async def test_reading_goes_on_where_the_new_leader_diverges(nodes: int, caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster({"t": 1}, nodes=nodes) as cluster, consumer_for(cluster, "t") as consumer:
        write(cluster.log("t"), range(10), 1)
        assert await read(consumer, 10) == list(range(10))
        cluster.log("t").truncate(6, leader=nodes)
        write(cluster.log("t"), range(100, 110), 1)
        assert await read(consumer, 10) == list(range(100, 110)), "from offset 6, not from 10"
    assert "t-0: reset from offset 10 to offset 6: t-0: the leader has lost records from offset 6 on" in caplog.text


async def test_what_was_fetched_ahead_of_a_truncation_is_fetched_again() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t", metadata_max_age_ms=5) as consumer:
        write(cluster.log("t"), range(10), 1)
        assert await read(consumer, 2, max_records=1) == [0, 1]
        cluster.log("t").truncate(4)
        write(cluster.log("t"), [100, 101], 1)
        asked = len(cluster.calls(ApiKey.OFFSET_FOR_LEADER_EPOCH))
        await until(lambda: len(cluster.calls(ApiKey.OFFSET_FOR_LEADER_EPOCH)) != asked)
        assert await read(consumer, 4) == [2, 3, 100, 101]


async def test_without_a_reset_a_truncation_is_raised_with_its_offsets() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, auto_offset_reset="none") as consumer:
        write(cluster.log("t"), range(10), 1)
        consumer.assign([T0])
        consumer.seek(T0, 0)
        assert len(await read(consumer, 10)) == 10
        cluster.log("t").truncate(6)
        write(cluster.log("t"), range(100, 110), 1)
        for _ in range(2):
            with pytest.raises(LogTruncated, match="lost records from offset 6 on that were read up to offset 10") as e:
                await read(consumer, 1)
            assert (e.value.partition, e.value.position, e.value.diverged_at) == (T0, 10, 6)
        consumer.seek(T0, 6)
        assert await read(consumer, 10) == list(range(100, 110))


async def test_a_committed_offset_is_checked_before_it_is_read_on(cluster: FakeCluster) -> None:
    write(cluster.log("t"), range(10), 1)
    async with consumer_for(cluster, "t", group_id="g") as consumer:
        assert len(await read(consumer, 10)) == 10
    cluster.log("t").truncate(6)
    write(cluster.log("t"), range(100, 110), 1)
    async with consumer_for(cluster, "t", group_id="g") as consumer:
        assert await read(consumer, 10) == list(range(100, 110))


async def test_an_election_without_a_loss_goes_unnoticed() -> None:
    async with FakeCluster({"t": 1}, nodes=2) as cluster, consumer_for(cluster, "t") as consumer:
        write(cluster.log("t"), range(10), 1)
        assert len(await read(consumer, 10)) == 10
        cluster.log("t").truncate(10, leader=2)
        write(cluster.log("t"), range(10, 20), 1)
        assert await read(consumer, 10) == list(range(10, 20))


def _refuse(code: ErrorCode) -> Step:
    answers = OffsetForLeaderTopicResult("t", [EpochEndOffset(code, 0)])
    return answer(OffsetForLeaderEpochResponse(topics=[answers]))


@pytest.mark.parametrize(
    "step",
    [
        drop,
        _refuse(ErrorCode.FENCED_LEADER_EPOCH),
        _refuse(ErrorCode.UNKNOWN_LEADER_EPOCH),
        _refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        _refuse(ErrorCode.OFFSET_NOT_AVAILABLE),
    ],
)
async def test_a_check_that_fails_is_made_again(step: Step) -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t") as consumer:
        write(cluster.log("t"), range(10), 1)
        assert len(await read(consumer, 10)) == 10
        cluster.on(ApiKey.OFFSET_FOR_LEADER_EPOCH, step, step)
        cluster.log("t").truncate(6)
        write(cluster.log("t"), range(100, 110), 1)
        assert await read(consumer, 10) == list(range(100, 110))


async def test_a_broker_that_cannot_tell_is_read_on(cluster: FakeCluster) -> None:
    del cluster.versions[ApiKey.OFFSET_FOR_LEADER_EPOCH]
    async with consumer_for(cluster, "t") as consumer:
        write(cluster.log("t"), range(10), 1)
        assert len(await read(consumer, 10)) == 10
        cluster.log("t").truncate(10)
        write(cluster.log("t"), range(10, 12), 1)
        assert await read(consumer, 2) == [10, 11]
