"""ListOffsets: times, sentinels, rejections."""

from __future__ import annotations

import os

import pytest
from odradek.broker import Broker
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.records.compression import Compression
from odradek.tests.support.clients.raw import Raw, batch_of

START_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
async def topic(raw: Raw) -> None:
    await raw.create_topic("t", 2)
    for step in range(3):
        await raw.produce("t", batch_of(b"a", b"b", b"c", timestamp_ms=START_MS + 1000 * step))


async def ask(
    raw: Raw, timestamp: int, partition: int = 0, version: int = 11, topic: str = "t", **rest: int
) -> tuple[int, int, int, int]:
    """(error, timestamp, offset, leader epoch)."""
    wanted = ListOffsetsPartition(partition, timestamp=timestamp, **rest)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(topic, [wanted])])
    answer = (await raw.ask(ApiKey.LIST_OFFSETS, version, request)).topics[0].partitions[0]
    return answer.error_code, answer.timestamp, answer.offset, answer.leader_epoch


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, (0, -1, 9, 0)),
        (-2, (0, -1, 0, 0)),
        (-3, (0, START_MS + 2002, 8, 0)),
        (-4, (0, -1, 0, 0)),
        (-5, (0, -1, -1, -1)),
        (-6, (0, -1, -1, -1)),
        (0, (0, START_MS, 0, 0)),
        (START_MS + 1, (0, START_MS + 1, 1, 0)),
        (START_MS + 3, (0, START_MS + 1000, 3, 0)),
        (START_MS + 1001, (0, START_MS + 1001, 4, 0)),
        (START_MS + 2002, (0, START_MS + 2002, 8, 0)),
        (START_MS + 2003, (0, -1, -1, -1)),
    ],
)
async def test_times_and_sentinels(raw: Raw, timestamp: int, expected: tuple[int, int, int, int]) -> None:
    assert await ask(raw, timestamp) == expected


@pytest.mark.parametrize(("timestamp", "expected"), [(-1, 0), (-2, 0), (-3, -1), (START_MS, -1)])
async def test_an_empty_partition(raw: Raw, timestamp: int, expected: int) -> None:
    assert (await ask(raw, timestamp, partition=1))[2] == expected


@pytest.mark.parametrize(("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
async def test_a_sentinel_is_not_known_before_its_version(raw: Raw, timestamp: int, since: int) -> None:
    assert (await ask(raw, timestamp, version=since - 1))[0] == ErrorCode.UNSUPPORTED_VERSION
    assert (await ask(raw, timestamp, partition=7, version=since - 1))[0] == ErrorCode.UNSUPPORTED_VERSION
    assert (await ask(raw, timestamp, version=since))[0] == 0


async def test_a_topic_without_partitions_is_left_out_of_the_answer(raw: Raw) -> None:
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic("t", []), ListOffsetsTopic("nothing", [])])
    assert (await raw.ask(ApiKey.LIST_OFFSETS, 11, request)).topics == []


async def test_unknown_partitions_and_epochs(raw: Raw) -> None:
    assert (await ask(raw, -1, partition=5))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await ask(raw, -1, current_leader_epoch=3))[0] == ErrorCode.UNKNOWN_LEADER_EPOCH


async def test_a_partition_asked_for_twice(raw: Raw) -> None:
    wanted = [ListOffsetsPartition(0, timestamp=-1), ListOffsetsPartition(0, timestamp=-2)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic("t", wanted)])
    answer = await raw.ask(ApiKey.LIST_OFFSETS, 5, request)
    assert [each.error_code for each in answer.topics[0].partitions] == [ErrorCode.INVALID_REQUEST]
    apart = [ListOffsetsTopic("t", [ListOffsetsPartition(index, timestamp=-1)]) for index in (0, 1, 0)]
    answer = await raw.ask(ApiKey.LIST_OFFSETS, 5, ListOffsetsRequest(replica_id=-1, topics=apart))
    (topic,) = answer.topics
    assert [each.error_code for each in topic.partitions] == [ErrorCode.INVALID_REQUEST, 0]


@pytest.mark.parametrize("version", [1, 4, 11])
@pytest.mark.parametrize("timestamp", [-7, -(2**63)])
async def test_a_negative_number_that_is_no_sentinel(raw: Raw, timestamp: int, version: int) -> None:
    assert await ask(raw, timestamp, version=version) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)


async def test_the_start_of_an_empty_partition_has_the_leaders_epoch(raw: Raw) -> None:
    for sentinel in (-2, -4):
        assert await ask(raw, sentinel, partition=1) == (0, -1, 0, 0)


# Version 0: where segments begin.


async def before(raw: Raw, timestamp: int, count: int, topic: str = "t", partition: int = 0) -> tuple[int, list[int]]:
    wanted = ListOffsetsPartition(partition, timestamp=timestamp, max_num_offsets=count)
    answer = await raw.ask(ApiKey.LIST_OFFSETS, 0, ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, [wanted])]))
    found = answer.topics[0].partitions[0]
    return found.error_code, found.old_style_offsets


async def test_version_0_gives_up_to_so_many_offsets_newest_first(broker: Broker, raw: Raw) -> None:
    await raw.create_topic("rolled", internal_segment_bytes="200")
    for _ in range(4):
        await raw.produce("rolled", batch_of(b"a" * 50, b"b"))
    topic = broker.topics.get("rolled")
    assert topic is not None
    log = topic.partitions[0].log
    for age, name in enumerate(("6", "4", "2", "0")):
        path = log.directory / (name.zfill(20) + ".log")
        os.utime(path, (START_MS / 1000 - age, START_MS / 1000 - age))
    assert await before(raw, -1, 100, "rolled") == (0, [8, 6, 4, 2, 0])
    assert await before(raw, -1, 2, "rolled") == (0, [8, 6])
    assert await before(raw, -2, 5, "rolled") == (0, [0])
    assert await before(raw, START_MS, 5, "rolled") == (0, [6, 4, 2, 0])
    assert await before(raw, START_MS - 1, 2, "rolled") == (0, [4, 2])
    assert await before(raw, START_MS - 3001, 5, "rolled") == (0, [])
    assert await before(raw, 2**62, 2, "rolled") == (0, [8, 6])
    log.advance_log_start(3)
    assert await before(raw, -1, 100, "rolled") == (0, [8, 6, 4, 3])
    assert await before(raw, -2, 1, "rolled") == (0, [3])


async def test_version_0_of_an_empty_partition_and_of_none(raw: Raw) -> None:
    assert await before(raw, -1, 5, partition=1) == (0, [0])
    assert await before(raw, -2, 5, partition=1) == (0, [0])
    assert await before(raw, -1, 0) == (0, [])
    assert await before(raw, -3, 1) == (ErrorCode.INVALID_REQUEST, [])
    assert await before(raw, -1, 1, "nowhere") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
async def test_a_record_that_grows_too_much_is_neither_taken_nor_passed_over(raw: Raw, codec: Compression) -> None:
    await raw.create_topic("small")
    values = b"a", bytes(5000), b"b"
    squeezed = batch_of(*values, timestamp_ms=START_MS, compression=codec)
    assert (await raw.produce("small", squeezed)).error_code == 0
    assert await raw.configure(2, "small", max_decompressed_message_bytes="1000") == 0
    refused = await raw.produce("small", squeezed)
    assert (refused.error_code, refused.record_errors) == (ErrorCode.INVALID_RECORD, [])
    # What comes before it is found.
    found = [(await ask(raw, timestamp, topic="small"))[::2] for timestamp in (0, START_MS + 1, START_MS + 2, -3)]
    assert found == [(0, 0)] + [(ErrorCode.INVALID_RECORD, -1)] * 3
    assert (await raw.produce("small", batch_of(*values))).error_code == 0
    assert (await raw.produce("small", batch_of(bytes(900), bytes(900), compression=codec))).error_code == 0
