"""Counts of requests: every request and every rejection, and the time of one in 32."""

from __future__ import annotations

from time import perf_counter_ns

import pytest
from odradek.broker import Broker
from odradek.broker.metrics.request_counts import BUCKETS, TIMED_ONE_IN, RequestCounts
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.records.batch import assign, read_header
from odradek.protocol.records.control import ControlType, Marker
from odradek.tests.support.clients.raw import Raw, batch_of


async def test_each_request_is_counted_and_one_in_32_is_timed(broker: Broker, raw: Raw) -> None:
    for _ in range(2 * TIMED_ONE_IN):
        await raw.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
    counts = broker.services.requests.of(ApiKey.METADATA)
    assert (counts.name, counts.requests, sum(counts.buckets)) == ("Metadata", 2 * TIMED_ONE_IN, 2)
    assert counts.timed_ns > 0


async def test_bytes_and_records_are_counted_where_they_go_in_and_out(broker: Broker, raw: Raw) -> None:
    await raw.create_topic("t")
    batch = batch_of(b"a", b"b")
    await raw.produce("t", batch)
    partition = broker.topics.get("t").partitions[0]  # type: ignore[union-attr]
    assert (*partition.received, partition.bytes_out) == (2, len(batch), 0)
    await raw.fetch("t", 0)
    assert partition.bytes_out == len(batch)


async def test_records_of_coordinators_do_not_count_as_those_of_clients(broker: Broker, raw: Raw) -> None:
    await raw.create_topic("t")
    await raw.produce("t", batch_of(b"a", b"b"))
    partition = broker.topics.get("t").partitions[0]  # type: ignore[union-attr]
    partition.append_marker(7, 0, Marker(ControlType.ABORT, 0), 1)
    partition.append_internal(bytearray(batch_of(b"c", b"d", b"e")))
    await raw.produce("t", batch_of(b"f"))
    assert partition.log.log_end_offset == 7 and partition.received.records == 3
    assert partition.received.size == len(batch_of(b"a", b"b")) + len(batch_of(b"f"))


async def test_a_partition_counts_the_records_that_came_while_it_led(broker: Broker, raw: Raw) -> None:
    await raw.create_topic("t")
    await raw.produce("t", batch_of(b"a", b"b"))
    partition = broker.topics.get("t").partitions[0]  # type: ignore[union-attr]
    replicated = memoryview(bytearray(batch_of(b"c", b"d")))
    partition.stop_leading(5)
    partition.append_replicated(replicated, assign(replicated, 0, read_header(replicated), 2, 5), None)
    assert partition.log.log_end_offset == 4 and partition.received.records == 2
    assert partition.received.size == len(batch_of(b"a", b"b"))
    for epoch in (6, 7):
        partition.begin_leading(epoch, None)  # type: ignore[arg-type]  # as a broker that is alone: without followers
    await raw.produce("t", batch_of(b"e"))
    assert partition.received.records == 3
    assert partition.received.size == len(batch_of(b"a", b"b")) + len(batch_of(b"e"))


async def test_a_rejected_batch_is_counted_by_its_error(broker: Broker, raw: Raw) -> None:
    await raw.produce("missing", batch_of(b"a"))
    assert broker.services.requests.of(ApiKey.PRODUCE).errors == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 1}


@pytest.mark.parametrize(("took_ns", "bucket"), [(0, 0), (1 << 15, 0), (1 << 16, 1), (1 << 60, BUCKETS - 1)])
def test_a_time_falls_into_the_bucket_whose_end_is_the_next_power_of_two(
    monkeypatch: pytest.MonkeyPatch, took_ns: int, bucket: int
) -> None:
    module = "odradek.broker.metrics.request_counts.perf_counter_ns"
    began_ns = perf_counter_ns()
    monkeypatch.setattr(module, lambda: began_ns + took_ns)
    counts = RequestCounts(ApiKey.FETCH)
    counts.observe_since(began_ns)
    assert counts.buckets.index(1) == bucket
