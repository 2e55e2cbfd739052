"""Transactions of many partitions: their markers are written in slices of the loop's turns."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.broker import Broker
from odradek.broker.coordination.transactions.markers import MarkerWriter
from odradek.broker.turns import keeper
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.tests.support.brokers.slices import end_slices_after
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.waiting import accepted

PARTITIONS = 12


async def test_each_slice_writes_the_markers_that_it_has_time_for(
    broker: Broker, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, slices = MarkerWriter.write, list[int]()

    def noted(*arguments: Any) -> Any:
        slices.append(keeper().begin())
        return write(*arguments)

    monkeypatch.setattr(MarkerWriter, "write", noted)
    await raw.create_topic("t", partitions=PARTITIONS)
    producer = await accepted(lambda: raw.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest("tx", 60_000)))
    who = "tx", producer.producer_id, producer.producer_epoch
    topics = [AddPartitionsToTxnTopic("t", list(range(PARTITIONS)))]
    await raw.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, AddPartitionsToTxnRequest([], *who, topics))
    end_slices_after(steps=1)
    assert (await raw.ask(ApiKey.END_TXN, 3, EndTxnRequest(*who, True))).error_code == 0
    while len(slices) < PARTITIONS:
        await raw.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None))
    assert len(set(slices)) == len(slices) == PARTITIONS
