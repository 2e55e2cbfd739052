"""The persister of a broker that is alone: each call returns, also those that have nothing to tell."""

from __future__ import annotations

import pytest
from odradek.broker import Broker
from odradek.broker.coordination.share.persister import ShareKey, StateBatch
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.tests.support.raw import Raw


async def test_each_call_returns(broker: Broker, raw: Raw) -> None:
    await raw.create_topic("t")
    topic = broker.topics.get("t")
    assert topic is not None
    persister, key = broker.services.persister, ShareKey("g", topic.id, 0)
    await persister.initialize(key, 1, 0)
    await persister.write(key, 1, 0, 5, 1, [StateBatch(6, 6, 2, 1)])
    state = await persister.read(key, 0)
    assert (state.start_offset, list(state.batches)) == (5, [StateBatch(6, 6, 2, 1)])
    assert (await persister.read_summary(key)).delivery_complete_count == 1
    await persister.delete(key)
    with pytest.raises(KafkaError) as rejected:
        await persister.read(key, 0)
    assert rejected.value.code is ErrorCode.INVALID_REQUEST
