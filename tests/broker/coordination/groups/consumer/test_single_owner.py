"""Random histories of a consumer group: a partition never has two owners, and everybody converges."""

from __future__ import annotations

import pytest
from odradek.broker.coordination.groups.consumer import reconciliation
from odradek.broker.coordination.groups.consumer.state import GroupState
from odradek.tests.broker.coordination.groups.consumer.crowd import Crowd
from odradek.tests.broker.coordination.groups.world import World


async def run(seed: int, steps: int = 150) -> Crowd:
    crowd = Crowd(seed, World())
    for _ in range(steps):
        crowd.step()
    return crowd


@pytest.mark.parametrize("seed", range(60))
async def test_a_partition_never_has_two_owners(seed: int) -> None:
    crowd = await run(seed)
    crowd.join()
    crowd.converge()
    body = crowd.body
    assert body is not None and body.state is GroupState.STABLE
    topics = {topic.name: topic for topic in crowd.world.topics.topics}
    subscribed = {name for client in crowd.clients for name in client.topics} & topics.keys()
    everything = {(topics[name].id, index) for name in subscribed for index in range(topics[name].partitions)}
    assert {place for client in crowd.clients for place in client.has} == everything
    assert body.owners.keys() == everything


async def test_the_model_finds_a_coordinator_that_gives_away_what_is_still_owned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Careless(dict[object, str]):
        """Owners that nobody asks for."""

    def careless(self: reconciliation.Reconciliation) -> object:
        object.__setattr__(self, "owners", Careless())
        return step(self)

    step = reconciliation.Reconciliation.step
    monkeypatch.setattr(reconciliation.Reconciliation, "step", careless)
    found = 0
    for seed in range(20):
        try:
            await run(seed)
        except AssertionError:
            found += 1
    assert found >= 10
