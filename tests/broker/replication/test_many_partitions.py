"""A follower of more partitions than a Fetch may name: more fetchers share them."""

from __future__ import annotations

from typing import Any, cast

import pytest
from odradek.broker import BrokerConfig
from odradek.broker.replication import fetcher
from odradek.broker.replication.fetcher import Fetcher, Fetchers, Following
from odradek.broker.replication.inter_broker import InterBroker
from odradek.broker.replication.peer import Peer
from odradek.broker.topics.partition import Partition


class Idle:
    """A fetcher that fetches nothing."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.following: dict[Any, Following] = {}

    def add(self, following: Following) -> None:
        self.following[following.key] = following

    def remove(self, key: Any) -> None:
        self.following.pop(key, None)

    async def close(self) -> None:
        self.peer.close()


class FakePartition:
    """A partition, of which only the name matters."""

    def __init__(self, index: int) -> None:
        self.topic, self.index = "t", index


@pytest.mark.parametrize("count", [1, 4])
async def test_no_fetcher_has_more_than_a_leader_takes(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(fetcher, "MAX_FOLLOWED", 40)
    made: list[Idle] = []

    def new(peer: Peer) -> Fetcher:
        made.append(Idle(peer))
        return cast(Fetcher, made[-1])

    config = BrokerConfig(num_replica_fetchers=count)
    fetchers = Fetchers(config, InterBroker(config), new)
    every = [Following(cast(Partition, FakePartition(index)), bytes(16), 0) for index in range(1_000)]
    for each in every:
        fetchers.follow(each, 2, ("h", 1))
    assert max(len(each.following) for each in made) <= 40
    assert sum(len(each.following) for each in made) == 1_000
    assert len(made) <= 1_000 // 40 + count
    # The leader has moved: nothing is fetched from its old address.
    for each in every:
        fetchers.follow(each, 2, ("h", 2))
    assert sum(len(each.following) for each in made if each.peer.port == 2) == 1_000
    assert all(not each.following for each in made if each.peer.port == 1)
    for each in every:
        fetchers.stop(each.key)
    assert not any(each.following for each in made)
    await fetchers.close()
