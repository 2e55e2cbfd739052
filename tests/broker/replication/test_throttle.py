"""Throttled replication: the rate, which replicas it holds back, and both sides of it between brokers."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.broker.configs.cluster_table import NO_LIMIT
from odradek.broker.replication.throttle import Rate, Throttle
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clusters.hand_cluster import HandCluster
from odradek.tests.support.fakes.clock import FakeClock
from odradek.tests.support.waiting import until

SET, DELETE = 0, 1
TOPIC, BROKER = 2, 4


# -- The rate


def test_a_burst_is_spread_over_one_sample() -> None:
    rate = Rate(11, 1000)
    rate.record(500, 10_000)
    assert [rate.per_second(at) for at in (10_000, 10_999, 12_000)] == [500, 500, 250]


def test_a_rate_is_that_of_the_last_samples() -> None:
    rate = Rate(3, 1000)
    for second in range(10):
        rate.record(100, second * 1000)
        rate.record(100, second * 1000 + 500)
    # Three samples of 200 bytes, of which the first began at 7 s.
    assert rate.per_second(9500) == 600 / 2.5
    assert rate.per_second(10_500) == 400 / 2.5
    assert rate.per_second(12_000) == 0


def test_what_a_rate_keeps_is_bounded() -> None:
    rate = Rate(11, 1000)
    for at in range(0, 1_000_000, 7):
        rate.record(1, at)
    assert len(rate._samples) <= 11  # pyright: ignore[reportPrivateUsage]
    assert rate.per_second(1_000_000) == pytest.approx(1000 / 7, rel=0.01)


# -- Which replicas wait


class World:
    """A throttle of broker 2, its limit and its list."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.limit = 100
        self.listed: tuple[str, ...] = ("0:2", "1:3")
        self.throttle = Throttle(Rate(11, 1000), self.clock, lambda: self.limit, lambda _: self.listed, 2)


def test_a_listed_replica_waits_until_the_rate_is_within_the_limit() -> None:
    world = World()
    assert not world.throttle.holds_back("t", 0)
    world.throttle.note("t", 0, 500)
    assert world.throttle.holds_back("t", 0)
    world.clock.advance(4000)
    assert world.throttle.holds_back("t", 0)
    world.clock.advance(1000)
    assert not world.throttle.holds_back("t", 0)


def test_other_replicas_neither_wait_nor_count() -> None:
    world = World()
    for partition in (1, 2):
        world.throttle.note("t", partition, 5000)
    assert not world.throttle.holds_back("t", 0)
    world.throttle.note("t", 0, 5000)
    assert [world.throttle.holds_back("t", each) for each in range(3)] == [True, False, False]
    world.listed = ("*",)
    assert [world.throttle.holds_back("t", each) for each in range(3)] == [True, True, True]


def test_no_rate_is_no_limit() -> None:
    world = World()
    world.limit = NO_LIMIT
    world.throttle.note("t", 0, 1 << 40)
    assert not world.throttle.holds_back("t", 0)
    # What was sent without a limit does not count against one that is set later.
    world.limit = 1
    assert not world.throttle.holds_back("t", 0)


# -- Between brokers


async def alter(cluster: HandCluster, node: int, kind: int, name: str, config: str, value: str | None) -> None:
    """Set a config at one broker, or remove it."""
    change = AlterableConfig(config, SET if value is not None else DELETE, value)
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, [change])])
    async with await cluster.connect(node) as raw:
        answer = (await raw.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)).responses[0]
    assert answer.error_code == 0, answer.error_message


@pytest.mark.parametrize(("side", "node"), [("leader", 1), ("follower", 2)])
async def test_a_follower_that_is_behind_waits_and_others_do_not(tmp_path: Path, side: str, node: int) -> None:
    rate, listed = f"{side}.replication.throttled.rate", f"{side}.replication.throttled.replicas"
    async with HandCluster(tmp_path, 2, replica_fetch_max_bytes=1, replica_fetch_wait_max_ms=20) as cluster:
        for topic in ("slow", "free"):
            await cluster.assign(topic, leader=1, isr=(1,), to=(1,))
            async with await cluster.connect(1) as raw:
                for _ in range(5):
                    await raw.produce(topic, batch_of(b"x" * 100), acks=1)
        # The follower learns of the topic's config with the topic.
        await cluster.assign("free", leader=1)
        await until(lambda: cluster.partition(2, "free").log.log_end_offset == 5)
        await cluster.update_metadata()
        await alter(cluster, node, BROKER, str(node), rate, "1")
        await alter(cluster, node, TOPIC, "slow", listed, f"0:{node}")
        await cluster.assign("slow", leader=1)
        # One batch of one record: the first is always sent, then the rate is above one byte a second.
        await until(lambda: cluster.partition(2, "slow").log.log_end_offset == 1)
        async with await cluster.connect(1) as raw:
            await raw.produce("free", batch_of(b"x"), acks=-1)
        assert cluster.partition(2, "free").log.log_end_offset == 6
        assert cluster.partition(2, "slow").log.log_end_offset == 1
        await alter(cluster, node, BROKER, str(node), rate, None)
        await until(lambda: cluster.partition(2, "slow").log.log_end_offset == 5)


async def test_a_follower_in_sync_never_waits_at_the_leader(tmp_path: Path) -> None:
    async with HandCluster(tmp_path, 2) as cluster:
        await cluster.assign("t", leader=1)
        await alter(cluster, 1, TOPIC, "t", "leader.replication.throttled.replicas", "*")
        await alter(cluster, 1, BROKER, "1", "leader.replication.throttled.rate", "0")
        async with await cluster.connect(1) as raw:
            for _ in range(3):
                assert (await raw.produce("t", batch_of(b"x"), acks=-1)).error_code == 0
