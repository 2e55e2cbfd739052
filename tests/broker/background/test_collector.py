"""Python's collector beside many partitions: it leaves out what stays, and what is deleted is freed all the same."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from dataclasses import replace

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.background import collector
from odradek.broker.background.collector import Collector
from odradek.broker.topics.partition import Partition

WAIT_S = 20
AT_ONCE = 20


@pytest.fixture(autouse=True)
def unfrozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(collector, "PARTITIONS_AT_ONCE", AT_ONCE)
    gc.disable()
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.enable()


def looked_at() -> int:
    """Return how many partitions a full collection would look at."""
    return sum(isinstance(each, Partition) for each in gc.get_objects())


async def test_a_collection_looks_at_the_newest_partitions_alone(broker: Broker) -> None:
    broker.topics.create("before", 30, {})
    Collector().start(broker.topics)
    assert looked_at() == 0
    counts: list[int] = []
    for number in range(5):
        broker.topics.create(f"t{number}", 7, {})
        counts.append(looked_at())
    assert counts == [7, 14, 1, 8, 15]


async def test_partitions_that_are_deleted_are_freed_without_the_collector(config: BrokerConfig) -> None:
    async with Broker(replace(config, log_segment_delete_delay_ms=0)) as broker:
        Collector().start(broker.topics)
        topic = broker.topics.create("t", 2 * AT_ONCE, {})
        left = [weakref.ref(each) for each in topic.partitions]
        broker.services.delete_topic(topic)
        del topic
        async with asyncio.timeout(WAIT_S):
            while any(each() is not None for each in left):
                await asyncio.sleep(0.01)
