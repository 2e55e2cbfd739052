"""A scrape of very many partitions and groups is made in turns, between which the broker serves its clients."""

from __future__ import annotations

import pytest
from odradek.broker import Broker
from odradek.broker.http import group_lag
from odradek.broker.http.topic_sums import BrokerSums, sum_topics
from odradek.broker.metrics import table
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.tests.support.brokers.http import get
from odradek.tests.support.clients.raw import Raw


async def test_sums_look_at_a_partition_a_step(broker: Broker, raw: Raw) -> None:
    for name in ("a", "b"):
        await raw.create_topic(name, 10)
    sums = BrokerSums()
    assert len(list(sum_topics(broker.services, sums))) == 20
    assert (sums.held, sums.led, [row.partitions for row in sums.topics]) == (20, 20, [10, 10])


async def test_lags_look_at_a_partition_a_step(broker: Broker, raw: Raw) -> None:
    await raw.create_topic("t", 10)
    partitions = [OffsetCommitRequestPartition(index, committed_offset=0) for index in range(10)]
    request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=partitions)])
    await raw.ask(ApiKey.OFFSET_COMMIT, 8, request)
    rows: list[group_lag.GroupLag] = []
    # The group itself counts as one more.
    assert len(list(group_lag.lags(broker.services, rows))) == 11
    assert [(row.group, row.lag) for row in rows] == [("g", 0)]


def test_a_family_is_cut_into_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "SAMPLES_PER_PIECE", 3)
    samples = [((str(number),), number) for number in range(7)]
    pieces = list(table.family("odradek_log_bytes", samples))
    assert [text.count("\n") for text in pieces] == [5, 4, 0]


async def test_a_topic_that_is_deleted_during_a_scrape_does_not_break_it(broker: Broker, raw: Raw) -> None:
    for name in ("a", "b"):
        await raw.create_topic(name, 3)
    sums = BrokerSums()
    steps = sum_topics(broker.services, sums)
    next(steps)
    for name in ("a", "b"):
        await raw.delete_topic(name)
    list(steps)
    assert [row.name for row in sums.topics] == ["a", "b"]
    assert broker.http_address is not None
    assert (await get(broker.http_address, "/metrics")).status == 200
