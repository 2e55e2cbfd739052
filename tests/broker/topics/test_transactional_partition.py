"""Transactions in a partition, over the wire: who may write, what readers see, what markers do."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.coordination.transactions.verification import produce_error
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from odradek.protocol.records import batch
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.histories.transactional import Transactional
from odradek.tests.support.waiting import until

READ_COMMITTED = 1


@pytest.fixture(autouse=True)
async def topic(raw: Raw) -> None:
    assert (await raw.create_topic("t", 2)).error_code == 0


async def latest(raw: Raw, isolation_level: int) -> int:
    request = ListOffsetsRequest(-1, isolation_level, [ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=-1)])])
    return (await raw.ask(ApiKey.LIST_OFFSETS, 6, request)).topics[0].partitions[0].offset


def values(records: Any) -> list[bytes | None]:
    data = bytes(records or b"")
    return [
        record.value
        for position, header in batch.iter_headers(data)
        if not header.is_control
        for record in batch.decode_batch(data, position)
    ]


# What readers see.


async def test_read_committed_ends_where_the_first_open_transaction_begins(
    raw: Raw, producer: Transactional, other: Transactional
) -> None:
    await raw.produce("t", batch_of(b"plain"))
    await producer.send("t", b"a")
    await other.send("t", b"b")
    await raw.produce("t", batch_of(b"behind"))
    for isolation_level, seen in ((0, [b"plain", b"a", b"b", b"behind"]), (1, [b"plain"])):
        answer = await raw.fetch("t", 0, isolation_level=isolation_level)
        assert values(answer.records) == seen
        assert (answer.high_watermark, answer.last_stable_offset) == (4, 1)
        assert answer.aborted_transactions == ([] if isolation_level else None)
    assert (await latest(raw, 0), await latest(raw, 1)) == (4, 1)
    assert await producer.end(commit=True) == 0
    assert await latest(raw, 1) == 2
    assert values((await raw.fetch("t", 0, isolation_level=READ_COMMITTED)).records) == [b"plain", b"a"]
    assert await other.end(commit=False) == 0
    assert await latest(raw, 1) == await latest(raw, 0) == 6


async def test_aborted_transactions_are_returned_by_first_offset_and_only_to_read_committed(
    raw: Raw, producer: Transactional, other: Transactional
) -> None:
    ids = other.producer_id, producer.producer_id
    await other.send("t", b"a")
    await producer.send("t", b"b")
    await producer.end(commit=False)
    await other.end(commit=False)
    answer = await raw.fetch("t", 0, isolation_level=READ_COMMITTED)
    assert [(each.producer_id, each.first_offset) for each in answer.aborted_transactions] == [(ids[0], 0), (ids[1], 1)]
    assert (await raw.fetch("t", 3, isolation_level=READ_COMMITTED)).aborted_transactions[0].producer_id == ids[0]
    assert (await raw.fetch("t", 0)).aborted_transactions is None


async def test_a_parked_read_committed_fetch_is_woken_by_the_marker(
    broker: Broker, raw: Raw, producer: Transactional
) -> None:
    await producer.send("t", b"a")
    async with await Raw.connect(broker.address) as reader:
        waiting = asyncio.ensure_future(reader.fetch("t", 0, isolation_level=READ_COMMITTED, max_wait_ms=600_000))
        await until(lambda: len(broker.services.purgatory))
        await raw.produce("t", batch_of(b"plain"))
        assert not waiting.done()
        await producer.end(commit=True)
        assert values((await waiting).records) == [b"a", b"plain"]


async def test_what_is_open_stays_open_over_a_stop(broker: Broker, producer: Transactional) -> None:
    await producer.send("t", b"a")
    await producer.commit_offset("g", "t", 1)
    await broker.stop()
    await broker.start()
    async with await Raw.connect(broker.address) as raw:
        assert (await raw.fetch("t", 0)).last_stable_offset == 0
        assert await fetched_offset(raw, "g", require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        producer.raw = raw
        assert await producer.end(commit=True) == 0
        assert values((await raw.fetch("t", 0, isolation_level=READ_COMMITTED)).records) == [b"a"]
        assert await fetched_offset(raw, "g", require_stable=True) == (1, 0)


# Who may write.


async def test_an_older_client_must_have_named_the_partition(producer: Transactional) -> None:
    for version, error in ((9, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)):
        assert (await producer.send("t", b"a", version=version)).error_code == error


async def test_without_a_transactional_id_in_the_request_no_transactional_batch(
    raw: Raw, producer: Transactional
) -> None:
    records = batch_of(
        b"a", producer_id=producer.producer_id, producer_epoch=producer.epoch, base_sequence=0, transactional=True
    )
    answer = await raw.produce("t", records)
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def test_a_transactional_id_that_nobody_initialised_is_no_transaction(raw: Raw) -> None:
    stranger = Transactional(raw, "nobody")
    stranger.producer_id, stranger.epoch = 4711, 0
    assert (await stranger.send("t", b"a")).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


async def test_a_fenced_producer_never_writes(producer: Transactional) -> None:
    await producer.send("t", b"a")
    old = producer.epoch
    await producer.begin()
    answer = await producer.send("t", b"b", producer_epoch=old, base_sequence=1)
    assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert (await producer.send("t", b"c")).error_code == 0


async def test_a_plain_batch_in_an_open_transaction_is_refused(producer: Transactional) -> None:
    await producer.send("t", b"a")
    answer = await producer.send("t", b"b", transactional=False)
    assert answer.error_code == ErrorCode.INVALID_TXN_STATE


async def test_the_first_batch_of_a_producer_that_is_not_known_has_sequence_0(producer: Transactional) -> None:
    for sequence, code in ((5, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), (-1, ErrorCode.INVALID_RECORD)):
        answer = await producer.send("t", b"a", base_sequence=sequence)
        assert (answer.error_code, answer.log_start_offset) == (code, 0)
    assert (await producer.send("t", b"a")).error_code == 0


async def test_a_batch_sent_again_gets_the_offset_that_it_has(raw: Raw, producer: Transactional) -> None:
    await raw.produce("t", batch_of(b"plain"))
    for _ in range(2):
        answer = await producer.send("t", b"a", base_sequence=0)
        assert (answer.error_code, answer.base_offset) == (0, 1)


async def test_clients_write_no_control_batches(producer: Transactional) -> None:
    assert (await producer.send("t", b"a", control=True)).error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("said", "version", "told"),
    [
        (ErrorCode.PRODUCER_FENCED, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 12, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.NOT_COORDINATOR, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 9, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_errors_of_a_producer_follow_its_version(said: ErrorCode, version: int, told: ErrorCode) -> None:
    assert produce_error(said, version) is told


# Markers.


async def test_markers_are_judged_by_the_epochs_of_coordinator_and_producer(producer: Transactional) -> None:
    await producer.send("t", b"a")
    epoch = producer.epoch
    assert await producer.mark("t", commit=True, epoch=epoch - 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    # Transactions version 2: the marker's epoch is the next one.
    assert await producer.mark("t", commit=True, epoch=epoch, of_version=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await producer.mark("t", commit=True, epoch=epoch + 1, of_version=2, coordinator_epoch=5) == 0
    # Sent again.
    assert await producer.mark("t", commit=True, epoch=epoch + 1, of_version=2, coordinator_epoch=5) == 0
    fenced = await producer.mark("t", commit=True, epoch=epoch + 1, coordinator_epoch=4)
    assert fenced == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert await producer.mark("gone", commit=True, epoch=9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_marker_of_no_producer_is_not_written(producer: Transactional, raw: Raw) -> None:
    producer.producer_id = batch.NO_PRODUCER_ID
    assert await producer.mark("t", commit=True, epoch=0) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (await raw.fetch("t", 0)).high_watermark == 0


async def test_a_marker_waits_for_the_fsync_that_its_topic_asks_for(raw: Raw, producer: Transactional) -> None:
    await raw.create_topic("safe", flush_messages="1")
    assert (await producer.send("safe", b"a")).error_code == 0
    assert await producer.mark("safe", commit=False, epoch=producer.epoch) == 0
    answer = await raw.fetch("safe", 0, isolation_level=READ_COMMITTED)
    assert [each.first_offset for each in answer.aborted_transactions] == [0]


async def test_describe_producers_shows_the_open_transaction(raw: Raw, producer: Transactional) -> None:
    await raw.produce("t", batch_of(b"plain"))
    await producer.send("t", b"a", b"b")
    request = DescribeProducersRequest([TopicRequest("t", [0, 9]), TopicRequest("none", [0]), TopicRequest("", [0])])
    response = await raw.ask(ApiKey.DESCRIBE_PRODUCERS, 0, request)
    found, missing = response.topics[0].partitions
    (state,) = found.active_producers
    assert (state.producer_id, state.producer_epoch) == (producer.producer_id, producer.epoch)
    assert (state.last_sequence, state.coordinator_epoch, state.current_txn_start_offset) == (1, -1, 1)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert missing.error_code == response.topics[1].partitions[0].error_code == unknown
    assert response.topics[2].partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


# Offsets in transactions.


async def fetched_offset(raw: Raw, group: str, *, require_stable: bool = False) -> tuple[int, int]:
    asked = OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics("t", partition_indexes=[0])])
    request = OffsetFetchRequest(groups=[asked], require_stable=require_stable)
    answer = (await raw.ask(ApiKey.OFFSET_FETCH, 8, request)).groups[0].topics[0].partitions[0]
    return answer.committed_offset, answer.error_code


async def test_offsets_count_once_their_transaction_commits(raw: Raw, producer: Transactional) -> None:
    assert await producer.commit_offset("g", "t", 5) == 0
    assert await fetched_offset(raw, "g") == (-1, 0)
    assert await fetched_offset(raw, "g", require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert await producer.end(commit=True) == 0
    assert await fetched_offset(raw, "g", require_stable=True) == (5, 0)
    assert await producer.commit_offset("g", "t", 9) == 0
    assert await producer.end(commit=False) == 0
    assert await fetched_offset(raw, "g", require_stable=True) == (5, 0)


async def test_offsets_need_a_transaction_and_a_group(producer: Transactional) -> None:
    assert await producer.commit_offset("g", "t", 5, version=3) == ErrorCode.INVALID_TXN_STATE
    assert await producer.commit_offset("g", "t", 5, version=4) == ErrorCode.TRANSACTION_ABORTABLE
    assert await producer.commit_offset("", "t", 5) == ErrorCode.INVALID_GROUP_ID
    assert await producer.commit_offset("g", "none", 5) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (
        await producer.commit_offset("g", "t", 5, generation_id_or_member_epoch=3, member_id="m")
        == ErrorCode.ILLEGAL_GENERATION
    )


async def test_since_version_6_topics_have_ids_and_each_group_has_its_errors(
    broker: Broker, raw: Raw, producer: Transactional
) -> None:
    topic = broker.topics.get("t")
    assert topic is not None
    by_id: dict[str, Any] = {"version": 6, "topic_id": topic.id}
    assert await producer.commit_offset("g", "ignored", 5, **by_id) == 0
    assert await producer.end(commit=True) == 0
    assert await fetched_offset(raw, "g") == (5, 0)
    assert await producer.commit_offset("g", "t", 5, version=6, topic_id=bytes(15) + b"x") == ErrorCode.UNKNOWN_TOPIC_ID
    member = {"generation_id_or_member_epoch": 3, "member_id": "m"}
    assert await producer.commit_offset("none", "", 5, **by_id, **member) == ErrorCode.GROUP_ID_NOT_FOUND
    join = ConsumerGroupHeartbeatRequest("c", "m", 0, rebalance_timeout_ms=1_000, subscribed_topic_names=["t"])
    join.topic_partitions = []
    assert (await raw.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, join)).error_code == 0
    assert await producer.commit_offset("c", "", 5, **by_id, **member) == ErrorCode.STALE_MEMBER_EPOCH
    assert await producer.commit_offset("c", "t", 5, **member) == ErrorCode.ILLEGAL_GENERATION


async def test_a_fenced_producer_commits_no_offsets(raw: Raw, producer: Transactional) -> None:
    await producer.commit_offset("g", "t", 5)
    old = producer.epoch
    await producer.begin()
    producer.epoch, new = old, producer.epoch
    assert await producer.commit_offset("g", "t", 6) == ErrorCode.INVALID_PRODUCER_EPOCH
    producer.epoch = new
    assert await fetched_offset(raw, "g", require_stable=True) == (-1, 0)


async def test_a_batch_waits_until_its_partition_is_in_the_transaction_on_disk(
    config: BrokerConfig, tmp_path: Path
) -> None:
    """However soon it comes: the coordinator's log is forced to disk with each record."""
    config = replace(config, log_dirs=(str(tmp_path / "forced"),), log_flush_interval_messages=1)
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("forced")
        producer = Transactional(raw, "forced")
        await producer.begin()
        for _ in range(3):
            assert (await producer.send("forced", b"a")).error_code == 0
            assert await producer.commit_offset("g", "forced", 1) == 0
            assert await producer.end(commit=True) == 0
