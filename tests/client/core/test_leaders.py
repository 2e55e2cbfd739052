"""Requests to leaders of which one is gone: the client learns who leads now."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from odradek.client import LATEST, Admin, Consumer, TopicPartition
from odradek.client.errors import ConnectionLost, ItemsFailed
from odradek.protocol.apis import ApiKey
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clusters.hand_cluster import HandCluster
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.wire import Call, HangUp, Silence, Step


async def test_a_dead_leader_is_not_asked_again_and_again(tmp_path: Path) -> None:
    place = TopicPartition("t", 0)
    async with HandCluster(tmp_path, 2) as cluster:
        await cluster.assign("t", leader=1)
        async with await cluster.connect(1) as raw:
            await raw.produce("t", batch_of(b"x"))
        bootstrap = [cluster.brokers[node].address for node in (1, 2)]
        async with Admin(bootstrap, default_api_timeout_ms=10_000) as admin:
            assert (await admin.list_offsets({place: LATEST}))[place].offset == 1
            await cluster.stop(1)
            await cluster.assign("t", leader=2, isr=(2,))
            assert (await admin.list_offsets({place: LATEST}))[place].offset == 1


def spoil(fake: FakeCluster, node: int, behaviour: object) -> None:
    """Let a broker answer no request."""

    def spoilt(step: Step) -> Step:
        async def one(call: Call) -> Any:
            return behaviour if call.node.node_id == node else await step(call)

        return one

    fake.defaults = {key: spoilt(step) for key, step in fake.defaults.items()}


@pytest.mark.parametrize("lost", [0, 1])
async def test_what_the_other_leaders_say_is_told_where_one_hangs_up(lost: int) -> None:
    places = [TopicPartition("t", number) for number in range(2)]
    quick = {"default_api_timeout_ms": 2_000, "retry_backoff_ms": 10}
    async with FakeCluster({"t": 2}, nodes=2) as fake, Admin(fake.address, **quick) as admin:
        await admin.list_offsets(dict.fromkeys(places, LATEST))
        spoil(fake, lost + 1, HangUp())
        with pytest.raises(ItemsFailed) as caught:
            await admin.list_offsets(dict.fromkeys(places, LATEST))
        assert caught.value.results[places[1 - lost]].offset == 0
        assert isinstance(caught.value.results[places[lost]], ConnectionLost)


@pytest.mark.parametrize("what", ["no leader", "one that hangs"])
async def test_a_partition_whose_leader_is_away_keeps_no_other_from_its_first_position(what: str) -> None:
    async with FakeCluster({"t": 2}, nodes=2) as fake, asyncio.timeout(20):
        for number in (0, 1):
            fake.log("t", number).write(batch_of(b"%d" % number))
        options = {"auto_offset_reset": "earliest", "retry_backoff_ms": 5, "retry_backoff_max_ms": 5}
        async with Consumer("t", bootstrap_servers=fake.address, **options) as consumer:
            defaults = dict(fake.defaults)
            if what == "no leader":
                fake.log("t").leader = 7
                await consumer._running().cluster.refresh()
            else:
                spoil(fake, 1, Silence())
            assert [*await consumer.getmany(timeout_ms=5_000)] == [TopicPartition("t", 1)]
            consumer.seek_to_beginning(TopicPartition("t", 1))
            assert [*await consumer.getmany(timeout_ms=5_000)] == [TopicPartition("t", 1)]
            if what == "no leader":
                fake.log("t").leader = 1
                assert [*await consumer.getmany(timeout_ms=5_000)] == [TopicPartition("t", 0)]
            fake.defaults = defaults


async def test_a_leader_that_hangs_hides_nothing_of_the_others() -> None:
    places = [TopicPartition("t", number) for number in range(4)]
    async with FakeCluster({"t": 4}, nodes=4) as fake:
        async with Admin(fake.address) as admin:
            await admin.list_offsets(dict.fromkeys(places, LATEST))
            spoil(fake, 2, Silence())
            asked = len(fake.calls(ApiKey.METADATA))
            # The leaders in any order.
            found = await admin.list_offsets(dict.fromkeys([places[1], places[0], *places[2:]], LATEST), partial=True)
            assert sorted(found) == [places[0], *places[2:]]
            for _ in range(8):
                await admin.describe_topics("t")
            assert len(fake.calls(ApiKey.METADATA)) >= asked + 8
