"""The persister of a broker that is alone: each call returns, also those that have nothing to tell."""

from __future__ import annotations

import pytest
from odradek.broker import Broker
from odradek.broker.coordination.share_states import events
from odradek.broker.coordination.share_states.routed_persister import RoutedPersister
from odradek.broker.coordination.share_states.share_state import Progress, ShareKey, StateBatch
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.tests.support.clients.raw import Raw


async def test_each_call_returns(broker: Broker, raw: Raw) -> None:
    await raw.create_topic("t")
    topic = broker.topics.get("t")
    assert topic is not None
    persister, key = broker.services.coordinators.persister, ShareKey("g", topic.id, 0)
    await persister.initialize(key, 1, 0)
    await persister.write(key, 1, 0, lambda: Progress(5, 1), [StateBatch(6, 6, 2, 1)])
    state = await persister.read(key, 0)
    assert (state.start_offset, list(state.batches)) == (5, [StateBatch(6, 6, 2, 1)])
    assert (await persister.read_summary(key)).delivery_complete_count == 1
    await persister.delete(key)
    with pytest.raises(KafkaError) as rejected:
        await persister.read(key, 0)
    assert rejected.value.code is ErrorCode.INVALID_REQUEST


async def test_a_write_that_is_tried_again_does_not_set_back_what_was_written_meanwhile(broker: Broker) -> None:
    steps = iter([Progress(0, 5), Progress(10, 0)])
    asked: list[Progress] = []

    async def ask(key: ShareKey, event: events.Request) -> events.Answer:
        assert isinstance(event, events.Write)
        asked.append(Progress(event.start_offset, event.delivery_complete_count))
        return KafkaError(ErrorCode.NOT_COORDINATOR) if len(asked) == 1 else None

    persister = RoutedPersister(broker.services.share_states, ask)
    await persister.write(ShareKey("g", bytes(16), 0), 1, 0, lambda: next(steps), ())
    assert asked == [Progress(0, 5), Progress(10, 0)]
