"""Requests to leaders of which one is gone: the client learns who leads now."""

from __future__ import annotations

from pathlib import Path

from odradek.client import LATEST, Admin, TopicPartition
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clusters.hand_cluster import HandCluster


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
