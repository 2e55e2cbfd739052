"""The steps of a creation, and who waits for them."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from odradek.broker import Broker
from odradek.broker.topics.creation import Creation, Steps
from odradek.broker.turns import keeper
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.tests.support.brokers.slices import end_slices_after

WAIT_S = 20


def failing() -> Steps:
    yield
    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no data directory is online")


@pytest.mark.parametrize("failed_before", [True, False])
async def test_everyone_who_waits_for_a_creation_that_fails_learns_why(failed_before: bool) -> None:
    creation = Creation([], failing())
    if failed_before:
        with pytest.raises(KafkaError):
            creation.finish()
    for _ in range(2):
        with pytest.raises(KafkaError, match="no data directory"):
            await asyncio.wait_for(creation.wait(), WAIT_S)


async def test_the_directories_of_many_deleted_topics_are_renamed_a_few_a_turn(broker: Broker) -> None:
    topics = [broker.topics.create(name, 4, {}) for name in ("a", "b", "c")]
    logs = [each.log for topic in topics for each in topic.partitions]

    def left() -> int:
        return sum(not log.directory.name.endswith("-delete") for log in logs)

    # Something else may have begun a slice in this turn.
    keeper().begin()
    end_slices_after(2)
    wakes = broker.services.purgatory.wakes
    for topic in topics:
        broker.services.delete_topic(topic)
    # Requests that wait for the partitions are woken with these steps, too.
    assert broker.services.purgatory.wakes - wakes <= 4
    # Two of the first topic, and one step of each other.
    seen = [len(logs), left()]
    while seen[-1]:
        await asyncio.sleep(0)
        seen.append(left())
    assert all(before - after <= 4 for before, after in itertools.pairwise(seen))
