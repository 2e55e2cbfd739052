"""Requests to leaders of which one is gone: the client learns who leads now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from odradek.client import LATEST, Admin, TopicPartition
from odradek.protocol.apis import ApiKey
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clusters.hand_cluster import HandCluster
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.wire import Call, Silence, Step


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


def hang(fake: FakeCluster, node: int) -> None:
    """Let a broker take requests and answer none."""

    def hanging(step: Step) -> Step:
        async def one(call: Call) -> Any:
            return Silence() if call.node.node_id == node else await step(call)

        return one

    fake.defaults = {key: hanging(step) for key, step in fake.defaults.items()}


async def test_a_leader_that_hangs_hides_nothing_of_the_others() -> None:
    places = [TopicPartition("t", number) for number in range(4)]
    async with FakeCluster({"t": 4}, nodes=4) as fake:
        async with Admin(fake.address) as admin:
            await admin.list_offsets(dict.fromkeys(places, LATEST))
            hang(fake, 2)
            asked = len(fake.calls(ApiKey.METADATA))
            # The leaders in any order.
            found = await admin.list_offsets(dict.fromkeys([places[1], places[0], *places[2:]], LATEST), partial=True)
            assert sorted(found) == [places[0], *places[2:]]
            for _ in range(8):
                await admin.describe_topics("t")
            assert len(fake.calls(ApiKey.METADATA)) >= asked + 8
