"""Random histories of a consumer group: a partition never has two owners, and everybody converges."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from odradek.broker.coordination.consumer import reconciliation
from odradek.broker.coordination.consumer.state import GroupState
from odradek.broker.coordination.interfaces import at_once
from odradek.broker.coordination.modern import target
from odradek.broker.coordination.modern.state import Place
from odradek.tests.broker.coordination.classic.world import World
from odradek.tests.broker.coordination.consumer.crowd import Crowd
from odradek.tests.support.seeds import seeds


async def run(seed: int) -> Crowd:
    crowd = Crowd(seed, World())
    for _ in range(150):
        crowd.step()
    return crowd


@pytest.mark.parametrize("seed", seeds(range(16), range(60, 1_000)))
async def test_a_partition_never_has_two_owners(seed: int) -> None:
    crowd = await run(seed)
    crowd.join()
    crowd.converge()
    body = crowd.body
    assert body is not None and body.state is GroupState.STABLE
    assert owned_by_all(crowd) == subscribed_by_all(crowd) == body.owners.keys()


def owned_by_all(crowd: Crowd) -> set[Place]:
    return {place for client in (*crowd.clients, *crowd.classic) for place in client.has}


def subscribed_by_all(crowd: Crowd) -> set[Place]:
    names = {name for client in (*crowd.clients, *crowd.classic) for name in client.topics}
    topics = [topic for topic in crowd.world.topics.topics if topic.name in names]
    return {(topic.id, index) for topic in topics for index in range(topic.partitions)}


@pytest.mark.parametrize("seed", seeds(range(8), range(60, 1_000)))
async def test_nor_where_each_target_is_computed_in_a_thread(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "MAX_AT_ONCE", 0)
    crowd = Crowd(seed, World(), is_mixed=True)
    put_off: list[tuple[Callable[[], None], Callable[[], None]]] = []
    for _ in range(400):
        crowd.world.aside = lambda work, done: put_off.append((work, done))
        crowd.step()
        while put_off and crowd.random.random() < 0.3:
            work, done = put_off.pop(0)
            work()
            done()
            crowd.check()
    for work, done in put_off:
        work()
        done()
    crowd.world.aside = at_once
    crowd.join()
    crowd.converge()
    body = crowd.body
    assert body is not None and body.state is GroupState.STABLE
    assert owned_by_all(crowd) == subscribed_by_all(crowd) == body.owners.keys()


async def test_the_model_finds_a_coordinator_that_gives_away_what_is_still_owned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reconciliation, "_owners", lambda _: {})
    found = 0
    for seed in range(8):
        try:
            await run(seed)
        except AssertionError:
            found += 1
    assert found >= 4
