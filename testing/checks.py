"""The checks of `odradek conformance`, each by its name. A check's first line says what Kafka promises."""

from __future__ import annotations

import asyncio
from typing import Any

from ..client import EARLIEST, LATEST, ConfigResource, NewTopic, TopicPartition
from ..protocol.errors import ErrorCode
from ..protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ..protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ..protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ..protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ..protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ..protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ..protocol.records.batch import Record, encode_batch
from .conformance import Check, Target, expect, expect_error, expect_raised, until

# What every client needs.
_NEEDED = {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 18}
# Topics have names before these versions, and ids since.
_PRODUCE_BY_NAME, _FETCH_BY_NAME, _COMMIT_BY_NAME = 12, 12, 9
_CODECS = ("gzip", "snappy", "lz4", "zstd")
_TIMESTAMP_MS = 1_700_000_000_000


# -- The protocol


async def api_versions_lists_what_clients_need(target: Target) -> None:
    """ApiVersions names each API with a range of versions, and those that every client needs are among them."""
    connection = await target.any_broker()
    answer = await target.ask(connection, ApiVersionsRequest("odradek", "1"), ApiVersionsResponse)
    expect_error("the error", answer.error_code, ErrorCode.NONE)
    missing = _NEEDED - {each.api_key for each in answer.api_keys}
    expect("the list of missing APIs", missing, set[int]())
    expect("an empty range", [each for each in answer.api_keys if each.min_version > each.max_version], [])


async def requests_are_answered_in_order(target: Target) -> None:
    """A connection answers requests in the order in which they came."""
    connection = await target.any_broker()
    done: list[int] = []
    futures = [connection.send(MetadataRequest(topics=[]), MetadataResponse) for _ in range(20)]
    for number, future in enumerate(futures):
        future.add_done_callback(lambda _, number=number: done.append(number))
    await asyncio.gather(*futures)
    await asyncio.sleep(0)
    expect("the order", done, list(range(20)))


async def metadata_of_an_unknown_topic_is_an_error(target: Target) -> None:
    """Metadata of a topic that there is not, and that may not be created, is UNKNOWN_TOPIC_OR_PARTITION."""
    request = MetadataRequest([MetadataRequestTopic(name=target.name())], allow_auto_topic_creation=False)
    answer = await target.ask(await target.any_broker(), request, MetadataResponse)
    expect_error("the topic's error", answer.topics[0].error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


# -- Topics and configs


async def topics_are_created_with_their_partitions(target: Target) -> None:
    """A topic has the partitions that were asked for, and appears in the list."""
    name = await target.topic(partitions=3)
    found = (await target.admin.describe_topics(name))[name]
    expect("the number of partitions", len(found.partitions), 3)
    expect("the topic's presence in the list", name in await target.admin.list_topics(), True)


async def a_topic_cannot_be_created_twice(target: Target) -> None:
    """The second creation is TOPIC_ALREADY_EXISTS."""
    name = await target.topic()
    again = target.admin.create_topics([NewTopic(name, 1)])
    await expect_raised("the second creation", again, ErrorCode.TOPIC_ALREADY_EXISTS)


async def bad_names_of_topics_are_refused(target: Target) -> None:
    """A name with other characters than letters, digits, `.`, `_` and `-` is INVALID_TOPIC_EXCEPTION."""
    made = target.admin.create_topics([NewTopic("odradek conformance/#", 1)])
    await expect_raised("a topic with a space in its name", made, ErrorCode.INVALID_TOPIC_EXCEPTION)


async def deleted_topics_are_gone(target: Target) -> None:
    """A deleted topic is not in the list any more, and its name is free again."""
    name = await target.topic()
    await target.admin.delete_topics(name)
    await until(lambda: _is_gone(target, name))
    again = target.admin.delete_topics(name)
    await expect_raised("its second deletion", again, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def configs_of_topics_can_be_changed(target: Target) -> None:
    """A changed config of a topic is described, and an unknown one is INVALID_CONFIG."""
    name = await target.topic(retention_ms="1000")
    resource = ConfigResource.topic(name)
    await target.admin.alter_configs({resource: {"retention.ms": "2000"}})
    found = (await target.admin.describe_configs([resource]))[resource]
    expect("retention.ms", found["retention.ms"].value, "2000")
    unknown = target.admin.alter_configs({resource: {"no.such.config": "1"}})
    await expect_raised("an unknown config", unknown, ErrorCode.INVALID_CONFIG)


# -- Produce and fetch


async def records_come_back_as_they_were_sent(target: Target) -> None:
    """Key, value, timestamp and headers of a record are those that were sent; a tombstone has no value."""
    name, headers = await target.topic(), [("h", b"1"), ("h", None)]
    async with target.producer() as producer:
        await (await producer.send(name, b"v", b"k", timestamp_ms=_TIMESTAMP_MS, headers=headers))
        await (await producer.send(name, None, b"k"))
    async with target.consumer(name) as consumer:
        first, second = await consumer.getone(), await consumer.getone()
    expect("the record", (first.key, first.value, first.timestamp_ms), (b"k", b"v", _TIMESTAMP_MS))
    expect("its headers", list(first.headers), headers)
    expect("the tombstone", (second.offset, second.value), (1, None))


async def every_compression_is_read_back(target: Target) -> None:
    """Batches of gzip, snappy, lz4 and zstd are stored and read back."""
    name = await target.topic()
    for codec in _CODECS:
        async with target.producer(compression_type=codec) as producer:
            await (await producer.send(name, codec.encode() * 100))
    wanted = [each.encode() * 100 for each in _CODECS]
    expect("the values", await target.read(name, len(_CODECS)), wanted)


async def offsets_count_from_zero_without_gaps(target: Target) -> None:
    """The records of a partition get the offsets 0, 1, 2 and so on."""
    name = await target.topic()
    offsets = [(await _produce(target, name, _batch(b"a", b"b"))).base_offset for _ in range(3)]
    expect("the offsets of three batches of two", offsets, [0, 2, 4])


async def a_damaged_batch_is_refused(target: Target) -> None:
    """A batch whose CRC is wrong is CORRUPT_MESSAGE, and none of it is stored."""
    name, damaged = await target.topic(), bytearray(_batch(b"value"))
    damaged[-1] ^= 1
    answer = await _produce(target, name, bytes(damaged))
    expect_error("the answer to a damaged batch", answer.error_code, ErrorCode.CORRUPT_MESSAGE)
    expect("the offset of the next batch", (await _produce(target, name, _batch(b"v"))).base_offset, 0)


async def a_batch_that_is_too_large_is_refused(target: Target) -> None:
    """A batch larger than max.message.bytes is MESSAGE_TOO_LARGE."""
    name = await target.topic(max_message_bytes="1000")
    answer = await _produce(target, name, _batch(bytes(2000)))
    expect_error("the answer", answer.error_code, ErrorCode.MESSAGE_TOO_LARGE)


async def a_fetch_behind_the_end_is_out_of_range(target: Target) -> None:
    """A fetch at the end returns nothing, and one behind it OFFSET_OUT_OF_RANGE."""
    name = await target.topic()
    await _produce(target, name, _batch(b"v"))
    expect_error("a fetch at the end", (await _fetch(target, name, 1)).error_code, ErrorCode.NONE)
    expect_error("a fetch behind it", (await _fetch(target, name, 2)).error_code, ErrorCode.OFFSET_OUT_OF_RANGE)


async def offsets_are_found_by_time(target: Target) -> None:
    """ListOffsets finds the first offset, the end, and the first record that is not older than a time."""
    name = await target.topic()
    await _produce(target, name, _batch(b"a", b"b", b"c"))
    place = TopicPartition(name, 0)
    for what, time, wanted in (("the first", EARLIEST, 0), ("the end", LATEST, 3), ("by time", _TIMESTAMP_MS + 1, 1)):
        found = await target.admin.list_offsets({place: time})
        expect(f"{what} offset", found[place].offset, wanted)


async def deleted_records_are_gone(target: Target) -> None:
    """DeleteRecords moves the start of the log, before which a fetch is OFFSET_OUT_OF_RANGE."""
    name = await target.topic()
    await _produce(target, name, _batch(b"a", b"b"))
    place = TopicPartition(name, 0)
    expect("the new start", (await target.admin.delete_records({place: 1}))[place], 1)
    expect_error("a fetch before it", (await _fetch(target, name, 0)).error_code, ErrorCode.OFFSET_OUT_OF_RANGE)
    expect("the records that are left", await target.read(name, 1), [b"b"])


# -- Idempotent producers and transactions


async def a_batch_that_is_sent_twice_is_stored_once(target: Target) -> None:
    """An idempotent batch that comes again is acknowledged with the offset that it has."""
    name, producer = await target.topic(), await _producer_id(target)
    batch = _batch(b"once", producer_id=producer, producer_epoch=0, base_sequence=0)
    first, again = await _produce(target, name, batch), await _produce(target, name, batch)
    expect_error("the answer to the second one", again.error_code, ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    if again.error_code == ErrorCode.NONE:
        expect("its offset", again.base_offset, first.base_offset)
    expect("the offset of the next batch", (await _produce(target, name, _batch(b"v"))).base_offset, 1)


async def a_gap_between_sequences_is_refused(target: Target) -> None:
    """An idempotent batch that does not follow the one before is OUT_OF_ORDER_SEQUENCE_NUMBER."""
    name, producer = await target.topic(), await _producer_id(target)
    for sequence, wanted in ((0, ErrorCode.NONE), (5, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)):
        batch = _batch(b"v", producer_id=producer, producer_epoch=0, base_sequence=sequence)
        expect_error(f"sequence {sequence}", (await _produce(target, name, batch)).error_code, wanted)


async def only_committed_transactions_are_read(target: Target) -> None:
    """Readers of committed records get what was committed, and nothing that was aborted."""
    name = await target.topic()
    async with target.producer(transactional_id=target.name()) as producer:
        await producer.begin_transaction()
        await producer.send(name, b"aborted")
        await producer.flush()
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send(name, b"committed")
    expect("what is committed", await target.read(name, 1, isolation_level="read_committed"), [b"committed"])
    everything = await target.read(name, 2, isolation_level="read_uncommitted")
    expect("everything", everything, [b"aborted", b"committed"])


async def a_zombie_producer_is_fenced(target: Target) -> None:
    """A producer that another one of its transactional id has followed cannot commit any more."""
    name, transactional_id = await target.topic(), target.name()
    async with target.producer(transactional_id=transactional_id) as zombie:
        await zombie.begin_transaction()
        await zombie.send(name, b"zombie")
        await zombie.flush()
        async with target.producer(transactional_id=transactional_id) as producer:
            async with producer.transaction():
                await producer.send(name, b"new")
        fenced = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
        await expect_raised("the commit of the zombie", zombie.commit_transaction(), *fenced)
    expect("what is committed", await target.read(name, 1, isolation_level="read_committed"), [b"new"])


async def offsets_are_committed_with_a_transaction(target: Target) -> None:
    """The offsets that a transaction sends are the group's when it commits, and not before."""
    name, group = await target.topic(), target.group()
    place = TopicPartition(name, 0)
    async with target.producer(transactional_id=target.name()) as producer:
        await producer.begin_transaction()
        await producer.send_offsets({place: 7}, group)
        await producer.abort_transaction()
        expect("the offset after an abort", (await target.admin.list_group_offsets(group)).get(place), None)
        async with producer.transaction():
            await producer.send_offsets({place: 7}, group)
    found = await target.admin.list_group_offsets(group)
    expect("the offset after a commit", found[place].offset, 7)


# -- Groups


async def a_group_goes_on_where_it_has_committed(target: Target) -> None:
    """A new member of a group begins behind the last commit."""
    name, group = await target.topic(), target.group()
    await _produce(target, name, _batch(b"a", b"b"))
    found: list[bytes | None] = []
    for _ in range(2):
        async with target.consumer(name, group_id=group, enable_auto_commit=False) as consumer:
            record = await consumer.getone()
            found.append(record.value)
            await consumer.commit({TopicPartition(name, 0): record.offset + 1})
    expect("what the two read", found, [b"a", b"b"])


async def partitions_are_shared_by_the_members(target: Target) -> None:
    """Two members of a group get all partitions, and none of them twice."""
    name, group = await target.topic(partitions=4), target.group()
    async with target.consumer(name, group_id=group) as one, target.consumer(name, group_id=group) as other:
        readers = [asyncio.create_task(_poll(each)) for each in (one, other)]
        try:
            await until(lambda: _have_two_each(one, other))
            both = one.assignment() | other.assignment()
            expect("the assignments", both, {TopicPartition(name, each) for each in range(4)})
        finally:
            for each in readers:
                each.cancel()
            await asyncio.gather(*readers, return_exceptions=True)


async def a_commit_of_an_unknown_member_is_refused(target: Target) -> None:
    """A commit by a member that the group does not have is UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION."""
    name, group = await target.topic(), target.group()
    # The group exists, and the connection leads to its coordinator.
    async with target.consumer(name, group_id=group) as consumer:
        await _assigned(consumer)
        await consumer.commit({TopicPartition(name, 0): 0})
        topic = OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(0, 1)])
        request = OffsetCommitRequest(group, 1, "nobody", topics=[topic])
        answer = await target.ask(await target.coordinator(group), request, OffsetCommitResponse, _COMMIT_BY_NAME)
        refused = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
        expect_error("the answer", answer.topics[0].partitions[0].error_code, *refused)


async def groups_are_listed_described_and_deleted(target: Target) -> None:
    """A group with members is Stable and cannot be deleted; without any it is Empty and can."""
    name, group = await target.topic(), target.group()
    async with target.consumer(name, group_id=group) as consumer:
        await _assigned(consumer)
        await consumer.commit({TopicPartition(name, 0): 0})
        expect("its state", (await target.admin.describe_groups(group))[group].state, "Stable")
        await expect_raised("its deletion", target.admin.delete_groups(group), ErrorCode.NON_EMPTY_GROUP)
    expect("its presence", group in [each.group_id for each in await target.admin.list_groups()], True)
    await target.admin.delete_groups(group)
    expect("its presence after", group in [each.group_id for each in await target.admin.list_groups()], False)


# -- What checks share


async def _is_gone(target: Target, topic: str) -> bool:
    return topic not in await target.admin.list_topics()


async def _have_two_each(one: Any, other: Any) -> bool:
    return len(one.assignment()) == len(other.assignment()) == 2


async def _poll(consumer: Any) -> None:
    while True:
        await consumer.getmany(timeout_ms=100)


async def _assigned(consumer: Any) -> None:
    while not consumer.assignment():
        await consumer.getmany(timeout_ms=100)


def _batch(*values: bytes, **rest: Any) -> bytes:
    records = [Record(at, _TIMESTAMP_MS + at, None, value) for at, value in enumerate(values)]
    return encode_batch(records, **rest)


async def _produce(target: Target, topic: str, records: bytes) -> Any:
    """Produce a batch to partition 0; return the response of the partition."""
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, records)])
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
    answer = await target.ask(await target.leader(topic), request, ProduceResponse, _PRODUCE_BY_NAME)
    return answer.responses[0].partition_responses[0]


async def _fetch(target: Target, topic: str, offset: int) -> Any:
    """Fetch from partition 0 without waiting; return the response of the partition."""
    wanted = FetchTopic(topic, partitions=[FetchPartition(0, fetch_offset=offset, partition_max_bytes=1_000_000)])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1_000_000, topics=[wanted])
    answer = await target.ask(await target.leader(topic), request, FetchResponse, _FETCH_BY_NAME)
    return answer.responses[0].partitions[0]


async def _producer_id(target: Target) -> int:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    answer = await target.ask(await target.any_broker(), request, InitProducerIdResponse)
    expect_error("InitProducerId", answer.error_code, ErrorCode.NONE)
    return answer.producer_id


CHECKS: list[tuple[str, Check]] = [
    (each.__name__.replace("_", "-"), each)
    for each in (
        api_versions_lists_what_clients_need,
        requests_are_answered_in_order,
        metadata_of_an_unknown_topic_is_an_error,
        topics_are_created_with_their_partitions,
        a_topic_cannot_be_created_twice,
        bad_names_of_topics_are_refused,
        deleted_topics_are_gone,
        configs_of_topics_can_be_changed,
        records_come_back_as_they_were_sent,
        every_compression_is_read_back,
        offsets_count_from_zero_without_gaps,
        a_damaged_batch_is_refused,
        a_batch_that_is_too_large_is_refused,
        a_fetch_behind_the_end_is_out_of_range,
        offsets_are_found_by_time,
        deleted_records_are_gone,
        a_batch_that_is_sent_twice_is_stored_once,
        a_gap_between_sequences_is_refused,
        only_committed_transactions_are_read,
        a_zombie_producer_is_fenced,
        offsets_are_committed_with_a_transaction,
        a_group_goes_on_where_it_has_committed,
        partitions_are_shared_by_the_members,
        a_commit_of_an_unknown_member_is_refused,
        groups_are_listed_described_and_deleted,
    )
]
